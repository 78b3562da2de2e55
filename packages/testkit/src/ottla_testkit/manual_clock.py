"""A clock that only the test moves."""

from __future__ import annotations


class ManualClock:
    """Callable like `time.monotonic`: seconds, starting at `start`."""

    def __init__(self, start: float = 0.0) -> None:
        self._now = start

    def __call__(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        """Move the clock forward; `ValueError` for a negative number, because the clock is monotonic."""
        if seconds < 0:
            raise ValueError(f"a monotonic clock cannot go back by {-seconds} s")
        self._now += seconds
