"""A deadline for several operations."""

from __future__ import annotations

import time


class Deadline:
    """A point in time, *seconds* from now."""

    def __init__(self, seconds: float) -> None:
        self._at = time.monotonic() + seconds

    def remaining(self, maximum: float = float("inf")) -> float:
        """Return the seconds that remain, at most *maximum*. Raises TimeoutError when none remain."""
        remaining = self._at - time.monotonic()
        if remaining <= 0:
            raise TimeoutError("timed out")
        return min(remaining, maximum)
