"""The line of those that wait for memory, and the bytes that are free. `BufferPool` has the lock of all methods here.

A task's event loop takes its bytes in its next turn. If that does not come, because something blocks the loop's thread,
or the loop was dropped, the bytes go to the others in the line, and the tasks of that thread wait again once they run.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

import attrs

from ottla.concurrency.environment import Environment
from ottla.concurrency.locks import Latch

UNTAKEN_SECONDS: Final = 0.5
"""The time in which a task is to take its bytes while others wait. A loop that has turns needs some milliseconds."""


@attrs.define(eq=False, repr=False)
class MemoryWaiter:
    """A place in the line for memory. `served` is set once it has its bytes, or when the pool is closed.

    `min_bytes` are enough when the time for the wait is over. A task's place has the `thread` of its event loop; 0 is
    for a thread that waits itself. An `absent` task did not take its bytes in time, or others of its thread did not: it
    is not in the line until it waits again.
    """

    size: int
    missing: int
    min_bytes: int
    served: Latch
    since: float = 0.0
    notify: Callable[[], object] | None = None
    thread: int = 0
    served_at: float = 0.0
    absent: bool = False


class MemoryLine:
    """Waiters in the order of their arrival, and those of them that were served. Not for several threads."""

    def __init__(self, capacity: int, environment: Environment) -> None:
        self.free = capacity
        """Bytes that are not held; those that a waiter has collected so far count as held."""
        self.waiters: Final[deque[MemoryWaiter]] = deque()
        """Those that are not served."""
        self.to_notify: Final[deque[MemoryWaiter]] = deque()
        """Those that were served, refused or made absent, and whose callbacks are due."""
        self._untaken: deque[MemoryWaiter] = deque()  # tasks, as they were served; without `missing` they hold bytes
        self._environment = environment

    def serve(self, size: int) -> None:
        """Give *size* more bytes to the waiters, in their order; `to_notify` has those that have all bytes now.

        If the system's memory ends there, a later call serves the rest: the bytes are free by then, and only once.
        """
        self.free += size
        try:
            while self.waiters and self.free > 0:
                waiter = self.waiters[0]
                given = min(waiter.missing, self.free)
                waiter.missing, self.free = waiter.missing - given, self.free - given
                if not waiter.missing:
                    if waiter.thread:
                        waiter.served_at = self._environment.clock()
                        self._untaken.append(waiter)
                    self.to_notify.append(waiter)
                    self.waiters.popleft()
                    waiter.served.set()
        except MemoryError:
            pass

    def rejoin(self, waiter: MemoryWaiter) -> None:
        """Put an absent waiter in front of those that came later."""
        later = (index for index, each in enumerate(self.waiters) if each.since > waiter.since)
        self.waiters.insert(next(later, len(self.waiters)), waiter)
        waiter.absent = False
        self.serve(0)
        self.reclaim_untaken(self._environment.clock())

    def forget_taken(self) -> None:
        """Forget the tasks that were served first and have taken their bytes, or left."""
        while self._untaken and self._untaken[0].missing:
            self._untaken.popleft()

    @property
    def has_untaken(self) -> bool:
        """Return whether tasks are to take their bytes while others wait. Needs no lock."""
        return bool(self._untaken and self.waiters)

    def untaken_at(self) -> float:
        """The time until which the next task is to take its bytes; infinite if no other waits. Needs no lock."""
        try:
            return self._untaken[0].served_at + UNTAKEN_SECONDS if self.waiters else float("inf")
        except IndexError:
            return float("inf")

    def reclaim_untaken(self, now: float) -> None:
        """If tasks have not taken their bytes in time, make all tasks of their threads absent; serve the others."""
        threads: set[int] = set()
        while self.untaken_at() <= now:
            waiter = self._untaken[0]
            if not waiter.missing:
                threads.add(waiter.thread)
                waiter.served = Latch(self._environment)
                self._make_absent(waiter)
            self._untaken.popleft()
        if threads:
            for waiter in [each for each in self.waiters if each.thread in threads]:
                self.to_notify.append(waiter)  # if its loop has turns all the same, it comes back
                self.waiters.remove(waiter)
                self._make_absent(waiter)
            self.serve(0)

    def _make_absent(self, waiter: MemoryWaiter) -> None:
        self.free += waiter.size - waiter.missing
        waiter.missing, waiter.absent = waiter.size, True
