"""What happens later in a simulated world, in the order of its moments."""

from __future__ import annotations

import heapq
from collections.abc import Callable

from ottla_testkit.manual_clock import ManualClock


class Schedule:
    """Actions by the moment at which they are due; those of one moment in the order in which they were planned."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self._planned: list[tuple[float, int, Callable[[], object]]] = []
        self._count = 0

    @property
    def next_at(self) -> float:
        """When the next action is due; infinity: nothing is planned."""
        return self._planned[0][0] if self._planned else float("inf")

    def at(self, moment: float, action: Callable[[], object]) -> None:
        """Plan an action for a moment; one that is past means now."""
        self._count += 1
        heapq.heappush(self._planned, (moment, self._count, action))

    def later(self, seconds: float, action: Callable[[], object]) -> None:
        """Plan an action after so many seconds."""
        self.at(self._clock() + seconds, action)

    def run(self) -> None:
        """Do everything that is due, also what that makes due."""
        while self._planned and self._planned[0][0] <= self._clock():
            _at, _number, action = heapq.heappop(self._planned)
            action()
