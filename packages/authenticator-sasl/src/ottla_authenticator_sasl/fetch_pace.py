"""How soon a source may be asked for another token: neither its lifetimes nor refusals of brokers set the pace.

Without it a token endpoint that issues tokens of 20 ms is asked 20 times a second, and a broker that refuses every
token has one fetched for each login. Java has no such floor: its renewal is due after 80 % of any lifetime.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

import attrs

FLOOR: Final = 1.0
"""Seconds. A token whose renewal is due earlier is too short."""

LONGEST: Final = 10.0
"""Seconds; the longest pause. It is the one of Java's ExpiringCredentialRefreshingLogin after a failed login."""

UNSAID: Final = 60.0
"""Seconds for which a token is not suspected when a broker hangs up: brokers hang up when they stop, too."""

_WARNED_AGAIN: Final = 3600.0


@attrs.frozen(kw_only=True)
class Pauses:
    """Seconds between fetches: the `floor`, doubled up to `longest` while tokens stay too short or are refused."""

    floor: float = FLOOR
    longest: float = LONGEST

    def after(self, times: int) -> float:
        """The pause after so many tokens in a row that were too short, or were refused once more."""
        return float(min(self.floor * 2 ** min(times - 1, 30), self.longest)) if times > 0 else 0.0


class FetchPace:
    """What became of the tokens so far. For any thread; nothing in it waits."""

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
        """Note a new token, whose renewal is due after so many seconds; returns the pause if that is too soon."""
        with self._lock:
            self._fetched_at = self._clock()
            if due_in is None or due_in >= self._pauses.floor:
                self._short, self._pause = 0, 0.0
                return None
            self._short += 1
            self._pause = self._pauses.after(self._short)
            return self._pause

    def refused(self) -> None:
        """Note that a broker refused the newest token.

        The first one is replaced at once: it may have been revoked. If the next one is refused as well, it is probably
        the broker, and others may take the same token.
        """
        with self._lock:
            if self._age() > self._pauses.longest:
                self._refused = 0  # it was good for a while
            self._pause = max(self._pause, self._pauses.after(self._refused))
            self._refused += 1

    def wait(self) -> float:
        """Seconds until the next fetch may begin; 0: now."""
        with self._lock:
            return max(0.0, self._pause - self._age())

    def suspect(self) -> bool:
        """Whether the newest token is so old that it may be why a broker hung up without a word."""
        with self._lock:
            return self._age() > UNSAID

    def warns(self) -> bool:
        """Whether a short token is to be warned of: once in an hour."""
        with self._lock:
            if self._clock() < self._warn_at:
                return False
            self._warn_at = self._clock() + _WARNED_AGAIN
            return True

    def _age(self) -> float:
        return self._clock() - self._fetched_at
