"""The configuration key for the level of a codec."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Final

from ottla.interfaces import ConfigKey

MORE: Final = "more is smaller and slower"


def level_key(
    codec: str, *, minimum: int, maximum: int, default: int, also: int | None = None, means: str = MORE
) -> ConfigKey:
    """`compression.<codec>.level`: a whole number from *minimum* to *maximum*, or *also*; *means* describes them."""
    return ConfigKey(
        name=f"compression.{codec}.level",
        type=_whole_number(minimum, maximum, also),
        default=default,
        meaning=f"How hard {codec} compresses, {_range(minimum, maximum, also)}: {means}.",
    )


def _whole_number(minimum: int, maximum: int, also: int | None) -> Callable[[object], int]:
    allowed = f"a whole number {_range(minimum, maximum, also)}"

    def level(raw: object) -> int:
        try:
            number = int(raw) if isinstance(raw, str) else operator.index(raw)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            raise ValueError(f"must be {allowed}") from None
        if isinstance(raw, bool) or not (minimum <= number <= maximum or number == also):
            raise ValueError(f"must be {allowed}")
        return number

    return level


def _range(minimum: int, maximum: int, also: int | None) -> str:
    return f"from {minimum} to {maximum}" + (f", or {also}" if also is not None else "")
