"""What Java's producer can do and this version cannot: refused with a word of its own, never ignored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

from ottla.config.value_types import ValueType, items


@attrs.frozen(kw_only=True)
class Refusal:
    """A key of which only the value `harmless` can be had."""

    key: str
    type: ValueType
    harmless: Any
    remedy: str

    def problem(self, raw: object) -> str | None:
        """What is wrong with this value, if anything."""
        try:
            value = self.type.parse(raw)
        except ValueError as error:
            return f"{self.key}: {error}"
        return None if value == self.harmless else f"{self.key}: {self.remedy}"


REFUSED: Final[Mapping[str, Refusal]] = {
    refusal.key: refusal
    for refusal in (
        Refusal(
            key="interceptor.classes",
            type=items(),
            harmless=(),
            remedy="interceptors are not in this version; leave it out or empty",
        ),
        Refusal(
            key="metric.reporters",
            type=items(),
            harmless=(),
            remedy="metrics reporters are not in this version; leave it out or empty",
        ),
    )
}
