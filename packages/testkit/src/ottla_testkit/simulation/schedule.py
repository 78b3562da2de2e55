"""Future events of a simulation, ordered by time."""

from __future__ import annotations

import heapq
from collections.abc import Callable


class Schedule:
    """Actions in the order in which they are due; those with the same time, in the order of their addition."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._planned: list[tuple[float, int, Callable[[], object]]] = []
        self._count = 0

    @property
    def next_at(self) -> float:
        """The time of the next action; infinity if there is none."""
        return self._planned[0][0] if self._planned else float("inf")

    def at(self, moment: float, action: Callable[[], object]) -> None:
        """Add an action at a time. If the time has passed, the action is due now."""
        self._count += 1
        heapq.heappush(self._planned, (moment, self._count, action))

    def later(self, seconds: float, action: Callable[[], object]) -> None:
        """Add an action after this number of seconds."""
        self.at(self._clock() + seconds, action)

    def run(self) -> None:
        """Run all actions that are due, including those that they add."""
        planned = self._planned
        while planned and planned[0][0] <= self._clock():
            _at, _number, action = heapq.heappop(planned)
            action()
