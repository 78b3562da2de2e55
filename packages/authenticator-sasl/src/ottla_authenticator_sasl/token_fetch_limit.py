"""Minimum time between token fetches, independent of token lifetimes and of brokers' refusals.

Without it, Ottla would ask a token endpoint that issues tokens of 20 ms 20 times a second, and a broker that refuses
every token would cause a fetch for each login. Java has no such minimum: it renews after 80 % of any lifetime.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

import attrs

FLOOR: Final = 1.0
"""Seconds. A token whose renewal is due earlier counts as too short-lived."""

LONGEST: Final = 10.0
"""Seconds of the longest pause, as in Java's ExpiringCredentialRefreshingLogin after a failed login."""

MIN_SUSPECT_AGE: Final = 60.0
"""Seconds in which a token is not suspected when a broker closes the connection, as a stopping broker does, too."""

_WARNED_AGAIN: Final = 3600.0


def doubled(first: float, longest: float, times: int) -> float:
    """Return *first* if *times* is 1. Each further time doubles the result, up to *longest*."""
    return float(min(first * 2 ** min(times - 1, 30), longest))


@attrs.frozen(kw_only=True)
class Pauses:
    """Seconds between fetches: `floor`, doubled up to `longest` while tokens are too short-lived or refused."""

    floor: float = FLOOR
    longest: float = LONGEST

    def after(self, times: int) -> float:
        """Return the pause after this number of consecutive tokens that were too short-lived or refused."""
        return doubled(self.floor, self.longest, times) if times > 0 else 0.0


class FetchLimit:
    """The earliest time of the next fetch. It depends on how many recent tokens were too short-lived or refused.

    Thread-safe; no method blocks.
    """

    def __init__(self, pauses: Pauses, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._pauses = pauses
        self._clock = clock
        self._lock = threading.Lock()
        self._fetched_at = float("-inf")
        self._pause = 0.0
        self._short = 0
        self._refused = 0
        self._warn_at = float("-inf")

    def fetched(self, *, due_in: float | None) -> float | None:
        """Record a new token, whose renewal is due in *due_in* seconds; return the pause if it is too short-lived."""
        with self._lock:
            self._fetched_at = self._clock()
            if due_in is None or due_in >= self._pauses.floor:
                self._short, self._pause = 0, 0.0
                return None
            self._short += 1
            self._pause = self._pauses.after(self._short)
            return self._pause

    def refused(self) -> None:
        """Record that a broker refused the newest token.

        The first refused token is replaced immediately: it may have been revoked. If the next one is refused as well,
        the cause is probably the broker, and others may accept the same token.
        """
        with self._lock:
            if self._age() > self._pauses.longest:
                self._refused = 0  # so brokers accepted it for a while
            self._pause = max(self._pause, self._pauses.after(self._refused))
            self._refused += 1

    def wait(self) -> float:
        """Return the seconds until the next fetch may begin; 0 if it may begin now."""
        with self._lock:
            return max(0.0, self._pause - self._age())

    def may_be_refused(self) -> bool:
        """Return whether the newest token is old enough to be the reason why a broker closed a connection."""
        with self._lock:
            return self._age() > MIN_SUSPECT_AGE

    def warns(self) -> bool:
        """Return whether to warn of a short-lived token: True at most once an hour."""
        with self._lock:
            if self._clock() < self._warn_at:
                return False
            self._warn_at = self._clock() + _WARNED_AGAIN
            return True

    def _age(self) -> float:
        return self._clock() - self._fetched_at
