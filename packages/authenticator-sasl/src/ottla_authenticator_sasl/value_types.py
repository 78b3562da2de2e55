"""Types of configuration values that several keys share."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final


def number(*, minimum: float, maximum: float, unit: float = 1.0) -> Callable[[Any], float]:
    """Return a type for numbers within bounds, converted by *unit*."""

    def parse(raw: Any) -> float:
        found = math.nan if isinstance(raw, bool) else float(raw)
        if not minimum <= found <= maximum:
            raise ValueError(f"it must be a number from {minimum:g} to {maximum:g}")
        return found * unit

    return parse


milliseconds: Final = number(minimum=1, maximum=2**31 - 1, unit=0.001)
