"""A clock that moves only when the test says so."""

from __future__ import annotations


class ManualClock:
    """Callable like `time.monotonic`: seconds, starting at `start`."""

    def __init__(self, start: float = 0.0) -> None:
        self._now = start

    def __call__(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        """Let so many seconds pass; a monotonic clock refuses to go back (`ValueError`)."""
        if seconds < 0:
            raise ValueError(f"a monotonic clock cannot go back by {-seconds} s")
        self._now += seconds
