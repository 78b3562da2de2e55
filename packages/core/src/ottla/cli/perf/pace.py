"""A rate that records are sent at, at most."""

from __future__ import annotations

from collections.abc import Callable


class Pace:
    """Says how long to wait before each record; a delay is made up for by the records that follow."""

    def __init__(self, records_per_second: float | None, *, clock: Callable[[], float]) -> None:
        self._seconds_each = 0.0 if records_per_second is None else 1 / records_per_second
        self._clock = clock
        self._began_at = clock()

    def delay(self, number: int) -> float:
        """The seconds until the record with this number, from 0, may be sent."""
        if not self._seconds_each:
            return 0.0
        return max(self._began_at + number * self._seconds_each - self._clock(), 0.0)
