"""The time between attempts: exponential, with jitter, bounded."""

from __future__ import annotations

from collections.abc import Callable
from random import SystemRandom

import attrs

JITTER = 0.2

_chance = SystemRandom()
"""The system's generator: the generator of the `random` module belongs to the application, and so does its seed."""


@attrs.frozen(kw_only=True)
class Backoff:
    """`initial` seconds, doubled with each failure up to `maximum`, plus or minus a fifth (KIP-580)."""

    initial: float
    maximum: float
    random: Callable[[], float] = _chance.random

    def delay(self, failures: int) -> float:
        """Seconds to wait after *failures* earlier failures in a row, 0 for the first one."""
        base = self.initial * 2.0 ** min(failures, 32)
        return min(base, self.maximum) * (1 - JITTER + 2 * JITTER * self.random())
