"""The byte budget of a producer (`buffer.memory`): who may hold how much, and who waits.

Counts bytes, holds none. Waiters are served in the order of their arrival; memory that comes back goes to the
longest waiter first, even when a later one asks for less.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

import attrs

from ottla.errors import BufferExhausted, OttlaError
from ottla.metrics import Tallies


@attrs.define(eq=False)
class _Waiter:
    size: int
    missing: int
    served: threading.Event = attrs.field(factory=threading.Event)


class BufferPool:
    """A fair budget of *capacity* bytes. Safe for any number of threads."""

    def __init__(self, capacity: int, *, clock: Callable[[], float], tallies: Tallies | None = None) -> None:
        self.capacity = capacity
        self._tallies = (tallies or Tallies()).producer
        self._clock = clock
        self._free = capacity
        self._waiters: deque[_Waiter] = deque()
        self._lock = threading.Lock()
        self._refusal: OttlaError | None = None

    @property
    def free(self) -> int:
        """Bytes that nobody holds; those that a waiter has collected so far count as held."""
        return self._free

    @property
    def waiting(self) -> int:
        """How many threads wait for memory."""
        return len(self._waiters)

    @property
    def first_in_line(self) -> object | None:
        """Stands for the longest wait: the same object until that wait ends; None: nobody waits."""
        try:
            return self._waiters[0]
        except IndexError:
            return None

    @property
    def refusals(self) -> int:
        """How many calls got no memory in their time."""
        return self._tallies.memory_refusals.count

    def try_reserve(self, size: int) -> bool:
        """Take *size* bytes if they are free and nobody waits; never blocks."""
        with self._lock:
            if self._waiters or size > self._free:
                return False
            self._free -= size
            return True

    def reserve_some(self, *, least: int, most: int) -> int:
        """Take what is free, from *least* to *most* bytes; how many: 0 also if anybody waits. Never blocks."""
        with self._lock:
            if self._waiters or self._free < least:
                return 0
            taken = min(self._free, most)
            self._free -= taken
            return taken

    def reserve(
        self, size: int, *, timeout: float, waited: float = 0.0, on_wait: Callable[[], object] = lambda: None
    ) -> None:
        """Take *size* bytes, waiting for them at most *timeout* seconds; *on_wait* is called once in line.

        The same call may have *waited* before, so many seconds that are not part of the time-out: the error says so.
        Raises BufferExhausted when time runs out, and what `close` was given when the pool is closed.
        """
        with self._lock:
            if self._refusal is not None:
                raise self._refusal
            if not self._waiters and size <= self._free:
                self._free -= size
                return
            waiter = _Waiter(size=size, missing=size)
            self._waiters.append(waiter)
            self._serve()
        try:
            on_wait()
            started = self._clock()
            in_time = waiter.served.wait(timeout)
            waited_here = self._clock() - started
        except BaseException:  # interrupted: nobody is there to take what it would get
            self._leave(waiter, keep=False)
            raise
        with self._lock:
            self._tallies.memory_waits.add(waited_here)
        if not in_time:
            self._give_up(waiter, waited=waited_here, before=waited)
        if waiter.missing:
            assert self._refusal is not None, "nothing else ends the wait of one who is not served"
            raise self._refusal

    def release(self, size: int) -> None:
        """Give *size* bytes back."""
        with self._lock:
            self._free += size
            self._serve()

    def close(self, refusal: OttlaError) -> None:
        """Refuse with *refusal* from now on, those who wait included; what is held may still be released."""
        with self._lock:
            self._refusal = refusal
            for waiter in self._waiters:
                self._free += waiter.size - waiter.missing
                waiter.served.set()
            self._waiters.clear()

    def _serve(self) -> None:
        while self._waiters and self._free > 0:
            waiter = self._waiters[0]
            given = min(waiter.missing, self._free)
            waiter.missing -= given
            self._free -= given
            if not waiter.missing:
                self._waiters.popleft()
                waiter.served.set()

    def _give_up(self, waiter: _Waiter, *, waited: float, before: float) -> None:
        """End a wait in vain, unless it was served, or refused, between the time-out and the lock."""
        free = self._leave(waiter, keep=True)
        if free is None:
            return
        with self._lock:
            self._tallies.memory_refusals.add(1)
        earlier = f" after {before:.3f} s of other waits of this call" if before > 0 else ""
        raise BufferExhausted(
            f"no memory for {waiter.size} bytes within max.block.ms: waited {waited:.3f} s{earlier}, {free} of "
            f"buffer.memory={self.capacity} bytes free; the broker takes records slower than they are sent"
        )

    def _leave(self, waiter: _Waiter, *, keep: bool) -> int | None:
        """Leave the line and give back what was collected; the bytes that were free then, None if it was out of line.

        With *keep* one who was served keeps what it got.
        """
        with self._lock:
            free = self._free
            if waiter in self._waiters:
                self._waiters.remove(waiter)
            elif keep or waiter.missing:
                return None
            self._free += waiter.size - waiter.missing
            self._serve()
            return free
