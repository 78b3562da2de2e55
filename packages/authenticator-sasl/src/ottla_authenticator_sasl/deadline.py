"""A moment that nothing waits beyond."""

from __future__ import annotations

import time


class Deadline:
    """So many *seconds* from now."""

    def __init__(self, seconds: float) -> None:
        self._at = time.monotonic() + seconds

    def remaining(self, maximum: float = float("inf")) -> float:
        """Seconds until then, or *maximum*. Raises TimeoutError: none."""
        remaining = self._at - time.monotonic()
        if remaining <= 0:
            raise TimeoutError("timed out")
        return min(remaining, maximum)
