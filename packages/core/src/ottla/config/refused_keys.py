"""Keys of Java's producer for features that this version lacks: refused with a remedy, never ignored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

from ottla.config.value_types import ValueType, boolean


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Refusal:
    """A key that is refused unless its value is the one in `harmless`."""

    key: str
    type: ValueType
    harmless: Any
    remedy: str

    def problem(self, raw: object) -> str | None:
        """The problem with this value; None if there is none."""
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
