"""What Java's producer can do and this version cannot: refused with a word of its own, never ignored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

from ottla.config.value_types import ValueType, boolean


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
            key="auto.include.jmx.reporter",
            type=boolean(),
            harmless=False,
            remedy="there is no JMX without Java; leave it out, and name reporter plugins in metric.reporters",
        ),
    )
}
