"""How long to wait before trying again: exponential, jittered, bounded."""

from __future__ import annotations

from collections.abc import Callable
from random import SystemRandom

import attrs

JITTER = 0.2

_chance = SystemRandom()
"""Of the system: the generator of the `random` module is the application's, and its seed not ours to use up."""


@attrs.frozen(kw_only=True)
class Backoff:
    """`initial` seconds, doubled with each failure up to `maximum`, give or take a fifth (KIP-580)."""

    initial: float
    maximum: float
    random: Callable[[], float] = _chance.random

    def delay(self, failures: int) -> float:
        """Seconds to wait after so many failures in a row, the first being 0."""
        base = self.initial * 2.0 ** min(failures, 32)
        return min(base, self.maximum) * (1 - JITTER + 2 * JITTER * self.random())
