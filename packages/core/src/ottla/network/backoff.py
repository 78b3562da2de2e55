"""Backoff between attempts: exponential, with jitter, up to a maximum; and the time of the next attempt."""

from __future__ import annotations

from collections.abc import Callable
from random import SystemRandom
from typing import Final

import attrs

from ottla.errors import BrokerError, ErrorCode, OttlaError

JITTER = 0.2

CONCURRENT_TRANSACTIONS_BACKOFF: Final = 0.02
"""The longest wait in seconds after CONCURRENT_TRANSACTIONS: a transaction's markers are written within moments."""


def ends_transaction(error: OttlaError) -> bool:
    """Return whether a broker refused a request because it still ends the previous transaction of the producer."""
    return isinstance(error, BrokerError) and error.code is ErrorCode.CONCURRENT_TRANSACTIONS


_chance = SystemRandom()
"""The system's generator: the generator of the `random` module belongs to the application, and so does its seed."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Backoff:
    """`initial` seconds, doubled with each failure up to `maximum`, plus or minus a fifth (KIP-580)."""

    initial: float
    maximum: float
    random: Callable[[], float] = _chance.random

    def delay(self, failures: int) -> float:
        """Seconds to wait after *failures* earlier failures in a row, 0 for the first one."""
        base = self.initial * 2.0 ** min(failures, 32)
        return min(base, self.maximum) * (1 - JITTER + 2 * JITTER * self.random())

    def delay_after(self, error: OttlaError, failures: int) -> float:
        """`delay`, but at most CONCURRENT_TRANSACTIONS_BACKOFF while a broker still ends the previous transaction."""
        delay = self.delay(failures)
        if ends_transaction(error):
            return min(delay, CONCURRENT_TRANSACTIONS_BACKOFF)
        return delay


@attrs.define(eq=False, repr=False)
class RetrySchedule:
    """The time of the next attempt. Each counted cause lengthens the wait; the largest count decides."""

    backoff: Backoff
    next_at: float = float("-inf")
    _counts: dict[str, int] = attrs.field(factory=dict)

    def allows(self, now: float) -> bool:
        """Return whether an attempt is allowed now."""
        return now >= self.next_at

    def count(self, cause: str = "") -> None:
        """Count a cause to wait longer."""
        self._counts[cause] = self._counts.get(cause, 0) + 1

    def counted(self, cause: str = "") -> int:
        """The count of a cause."""
        return self._counts.get(cause, 0)

    def reset(self, *causes: str) -> None:
        """Set the counts of these causes to 0; without arguments that of `count()`."""
        for cause in causes or ("",):
            self._counts.pop(cause, None)

    def wait(self, now: float, *causes: str) -> None:
        """Set the time of the next attempt from the counts of these causes; without arguments from all."""
        counts = [self.counted(cause) for cause in causes or self._counts]
        self.next_at = now + self.backoff.delay(max(counts, default=0))

    def allow_now(self) -> None:
        """Allow the next attempt immediately."""
        self.next_at = float("-inf")
