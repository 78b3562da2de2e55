"""A deadline for several operations."""

from __future__ import annotations

import time


class Deadline:
    """A point in time, *seconds* from now."""

    def __init__(self, seconds: float) -> None:
        self._at = time.monotonic() + seconds

    def remaining(self, maximum: float = float("inf")) -> float:
        """Return the seconds that remain, at most *maximum*. Raises TimeoutError when none remain."""
        remaining = self.remaining_or_zero()
        if not remaining:
            raise TimeoutError("timed out")
        return min(remaining, maximum)

    def remaining_or_zero(self) -> float:
        """Return the seconds that remain; 0 after the deadline, for a caller that raises its own error."""
        return max(0.0, self._at - time.monotonic())
