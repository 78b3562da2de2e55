"""The byte budget of a producer (`buffer.memory`): who may hold how much, and who waits.

Counts bytes, holds none. Waiters are served in the order of their arrival; memory that comes back goes to the
longest waiter first, even when a later one asks for less.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import attrs

from ottla.concurrency.locks import Latch, SignalSafeLock
from ottla.errors import BufferExhaustedError, OttlaError
from ottla.metrics import Counters


@attrs.define(eq=False)
class Claim:
    """What a caller holds of the pool until it has given it to a batch: known also where the call is broken off."""

    held: int = 0


@attrs.define(eq=False)
class _Waiter:
    size: int
    missing: int
    served: Latch = attrs.field(factory=Latch)


class BufferPool:
    """A fair budget of *capacity* bytes. Safe for any number of threads."""

    def __init__(self, capacity: int, *, clock: Callable[[], float], counters: Counters | None = None) -> None:
        self.capacity = capacity
        self._counters = (counters or Counters()).producer
        self._clock = clock
        self._free = capacity
        self._waiters: deque[_Waiter] = deque()
        self._guard = SignalSafeLock()
        self._lock = self._guard.raw  # where no handler can run
        self._refusal: OttlaError | None = None
        self.short = False
        """Whether a call has had to wait; the I/O thread resets it when that is over and logged."""

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
        return self._counters.memory_refusals.count

    def try_reserve(self, size: int) -> bool:
        """Take *size* bytes if they are free and nobody waits; never blocks. In a deferred block."""
        with self._lock:
            if self._waiters or size > self._free:
                return False
            self._free -= size
            return True

    def reserve_some(self, *, min_bytes: int, max_bytes: int) -> int:
        """Take what is free, from *min_bytes* to *max_bytes* bytes; how many: 0 also if anybody waits. In a deferred
        block."""
        with self._lock:
            if self._waiters or self._free < min_bytes:
                return 0
            taken = min(self._free, max_bytes)
            self._free -= taken
            return taken

    def reserve(
        self,
        size: int,
        *,
        timeout: float,
        waited: float = 0.0,
        on_wait: Callable[[], object] = lambda: None,
        claim: Claim | None = None,
    ) -> None:
        """Take *size* bytes, waiting for them at most *timeout* seconds; *on_wait* is called once in line.

        The same call may have *waited* before, so many seconds that are not part of the time-out: the error says so.
        Raises BufferExhaustedError when time runs out, and what `close` was given when the pool is closed. What was
        taken is noted in the *claim*; when anything else is raised, that says whether it was.
        """
        claim = claim or Claim()
        waiter = _Waiter(size=size, missing=size)
        try:
            if self._take_or_stand_in_line(waiter, claim):
                return
            on_wait()
            started = self._clock()
            waiter.served.wait(timeout)
            self._end_wait(waiter, claim, waited=self._clock() - started, before=waited)
        except BaseException:  # interrupted, perhaps: nobody is there to take what it would get
            self._leave(waiter, claim)
            raise

    def _take_or_stand_in_line(self, waiter: _Waiter, claim: Claim) -> bool:
        with self._guard:
            if self._refusal is not None:
                raise self._refusal
            if not self._waiters and waiter.size <= self._free:
                self._free -= waiter.size
                claim.held = waiter.size
                return True
            self._waiters.append(waiter)
            self.short = True
            self._serve(0)
            return False

    def release(self, size: int) -> None:
        """Give *size* bytes back. In a deferred block."""
        with self._lock:
            self._serve(size)

    def close(self, refusal: OttlaError) -> None:
        """Refuse with *refusal* from now on, those who wait included; what is held may still be released."""
        with self._guard:
            self._refusal = refusal
            for waiter in self._waiters:
                self._free += waiter.size - waiter.missing
                waiter.missing = waiter.size
                waiter.served.set()
            self._waiters.clear()

    def _serve(self, size: int) -> None:
        """Give *size* more bytes to those who wait, in their order."""
        self._free += size
        while self._waiters and self._free > 0:
            waiter = self._waiters[0]
            given = min(waiter.missing, self._free)
            waiter.missing -= given
            self._free -= given
            if not waiter.missing:
                self._waiters.popleft()
                waiter.served.set()

    def _end_wait(self, waiter: _Waiter, claim: Claim, *, waited: float, before: float) -> None:
        """Take what has come; else say why there is nothing."""
        with self._guard:
            self._counters.memory_waits.add(waited)
            if not waiter.missing:
                claim.held = waiter.size
                return
            if self._refusal is not None:
                raise self._refusal
            self._counters.memory_refusals.add(1)
            free = self._free
        earlier = f" after {before:.3f} s of other waits of this call" if before > 0 else ""
        raise BufferExhaustedError(
            f"no memory for {waiter.size} bytes within max.block.ms: waited {waited:.3f} s{earlier}, {free} of "
            f"buffer.memory={self.capacity} bytes free; the broker takes records slower than they are sent"
        )

    def _leave(self, waiter: _Waiter, claim: Claim) -> None:
        """Leave the line and give back what was collected, unless that is the claim's by now."""
        with self._guard:
            if waiter in self._waiters:
                self._waiters.remove(waiter)
            if not claim.held:
                collected = waiter.size - waiter.missing
                waiter.missing = waiter.size
                self._serve(collected)
