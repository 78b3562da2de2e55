"""A moment that nothing waits beyond."""

from __future__ import annotations

import time


class Deadline:
    """So many *seconds* from now."""

    def __init__(self, seconds: float) -> None:
        self._at = time.monotonic() + seconds

    def left(self, most: float = float("inf")) -> float:
        """Seconds until then, or *most*. Raises TimeoutError: none."""
        left = self._at - time.monotonic()
        if left <= 0:
            raise TimeoutError("timed out")
        return min(left, most)
