"""The byte budget of a producer (`buffer.memory`), and the threads that wait for it.

It counts bytes and holds none. Waiters are served in the order of their arrival: released memory goes to the one that
waits longest, even when a later one needs less.

`record_appender` and `batch_memory` take memory for records; `batch_completion` and `sealing` give it back.
"""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Callable
from typing import Final

import attrs

from ottla.concurrency.environment import SYSTEM, Environment
from ottla.concurrency.locks import Latch, SignalSafeLock
from ottla.errors import BufferExhaustedError, OttlaError
from ottla.errors.notes import unshared
from ottla.metrics import Counters

_REPORTED_WAIT: Final = 0.001
"""Seconds. The text of an error leaves out other waits that were shorter."""

TAKEN_WITHIN: Final = 0.5
"""Seconds after which a task loses memory that it has not taken, if others wait than the tasks of its event loop.

The loop may be blocked, or dropped without being closed: then the task would never take the memory.
"""


@attrs.define(eq=False, repr=False)
class Claim:
    """Memory that a caller holds until a batch has it; noted here so that an interrupted call can return it."""

    held: int = 0


@attrs.define(eq=False, repr=False)
class MemoryWaiter:
    """A place in the line for memory. `served` is set once it has its bytes, or when the pool is closed.

    `min_bytes` are enough when the time for the wait is over.
    """

    size: int
    missing: int
    min_bytes: int
    served: Latch
    since: float = 0.0
    owner: int = 0
    """The event loop, or else the thread, whose task has to take the bytes; 0: a thread waits itself."""
    lost: bool = False
    """Whether the task did not take them in time, and others have them."""
    notify: Callable[[], object] | None = None


class BufferPool:
    """A fair budget of *capacity* bytes. Safe for any number of threads."""

    def __init__(
        self,
        capacity: int,
        *,
        counters: Counters | None = None,
        environment: Environment = SYSTEM,
        wake: Callable[[], object] = lambda: None,
    ) -> None:
        self.capacity = capacity
        self._wake = wake
        self._counters = (counters or Counters()).producer
        self._clock = environment.clock
        self._free = capacity
        self._waiters: deque[MemoryWaiter] = deque()
        self._to_notify: deque[MemoryWaiter] = deque()
        """Waiters that were served or refused, and whose callbacks are due."""
        self._untaken: dict[MemoryWaiter, float] = {}
        """Waiters of tasks that have all their bytes, and since when."""
        self._collecting: MemoryWaiter | None = None
        """The only waiter that may have a part of its bytes."""
        self._absent: set[int] = set()
        """Event loops whose tasks did not take their bytes in time; others are served first until they run again."""
        self._environment = environment
        self._guard = SignalSafeLock(environment)
        self._lock = self._guard.raw  # for threads and blocks in which no signal handler runs
        self._refusal: OttlaError | None = None
        self.refused_since = 0.0
        """The time at which the wait of the last refused call began; read it after `refusals` has grown."""
        self.short = False
        """Whether a call has had to wait; the I/O thread resets it when no call waits and that is logged."""

    @property
    def free(self) -> int:
        """Bytes that are not held; those that a waiter has collected so far count as held."""
        return self._free

    @property
    def waiting(self) -> int:
        """The number of threads that wait for memory."""
        return len(self._waiters)

    @property
    def longest_wait(self) -> object | None:
        """An object that identifies the longest wait, the same until that wait ends, or None if no thread waits."""
        try:
            return self._waiters[0]
        except IndexError:
            return None

    @property
    def refusals(self) -> int:
        """The number of calls that got no memory within their time-out."""
        return self._counters.memory_refusals.count

    def try_reserve(self, size: int) -> bool:
        """Take *size* bytes if they are free and no thread waits; never blocks. Call it in a deferred block."""
        with self._lock:
            if self._waiters or size > self._free:
                return False
            self._free -= size
            return True

    def reserve_some(self, *, min_bytes: int, max_bytes: int) -> int:
        """Take as many free bytes as possible, from *min_bytes* to *max_bytes*, and return how many.

        Returns 0 if fewer are free, or a thread waits. Call it in a deferred block.
        """
        with self._lock:
            if self._waiters or self._free < min_bytes:
                return 0
            taken = min(self._free, max_bytes)
            self._free -= taken
            return taken

    def reserve_spare(self, *, max_bytes: int, spared: int) -> int:
        """Take up to *max_bytes* bytes, but leave *spared* bytes free, and return how many.

        Returns 0 if no more are free, or a thread waits. Call it in a deferred block.
        """
        with self._lock:
            if self._waiters:
                return 0
            taken = max(0, min(max_bytes, self._free - spared))
            self._free -= taken
            return taken

    def reserve(
        self,
        size: int,
        *,
        timeout: float,
        min_bytes: int | None = None,
        waited: float = 0.0,
        limit: str = "max.block.ms",
        on_wait: Callable[[], object] = lambda: None,
        claim: Claim | None = None,
    ) -> None:
        """Take *size* bytes, waiting for them at most *timeout* seconds; *on_wait* is called when a wait begins.

        When time runs out, takes those that have come free, if they are *min_bytes* or more, and otherwise raises
        BufferExhaustedError. Its message names *limit*, the setting or argument that limits
        the caller's whole wait, and the *waited* seconds of that wait that were over before this call.
        When the pool is closed, raises the error that `close` got. The bytes taken are noted in *claim*, also when
        another exception interrupts the call.
        """
        claim = claim or Claim()
        waiter = self._waiter(size, min_bytes)
        try:
            if self._take_or_join_queue(waiter, claim):
                return
            waiter.since = self._clock()
            on_wait()
            waiter.served.wait(timeout)
            self.accept_min_bytes(waiter)
            self._end_wait(waiter, claim, waited=self._clock() - waiter.since, before=waited, limit=limit)
        except BaseException:  # perhaps interrupted: no caller is left to take what the waiter would get
            self.leave(waiter, claim)
            raise

    def join_queue(self, size: int, *, min_bytes: int | None = None, first: bool = False) -> MemoryWaiter:
        """Begin to wait for *size* bytes without blocking, *first* of all if the call has lost its bytes.

        End it with `take` or `leave`, or the bytes are lost. The same event loop has to call `take`.
        """
        waiter = self._waiter(size, min_bytes)
        waiter.since, waiter.owner = self._clock(), _owner()
        claim = Claim()
        if self._take_or_join_queue(waiter, claim, first=first):
            waiter.missing = 0
            waiter.served.set()
        return waiter

    def notify(self, waiter: MemoryWaiter, callback: Callable[[], object]) -> None:
        """Call *callback* once the waiter is served; immediately, on this thread, if it is served already.

        It may run on any thread and under locks, and must not raise.
        """
        with self._guard:
            waiter.notify = callback
            served = waiter.served.is_set
        if served:
            callback()

    def accept_min_bytes(self, waiter: MemoryWaiter) -> bool:
        """Let a wait whose time is over be served by what it has collected, and return False if that is not enough."""
        with self._guard:
            collected = waiter.size - waiter.missing
            if waiter.missing and waiter in self._waiters and collected >= waiter.min_bytes:
                self._waiters.remove(waiter)
                if self._collecting is waiter:
                    self._collecting = None
                waiter.size, waiter.missing = collected, 0
                waiter.served.set()
            return waiter.served.is_set

    def take(self, waiter: MemoryWaiter, claim: Claim) -> bool:
        """Move a waiter's bytes to *claim*. Return False if it did not take them in time, and others have them.

        Raises BufferExhaustedError if bytes are missing, or the `refusal`.
        """
        try:
            if waiter.owner in self._absent or waiter.lost:
                with self._guard:
                    self._absent.discard(waiter.owner)
                    if waiter.lost and self._refusal is None:
                        return False
            self._end_wait(waiter, claim, waited=self._clock() - waiter.since)
            return True
        except BaseException:
            self.leave(waiter, claim)
            raise

    def pass_on_untaken(self, now: float) -> float:
        """Give memory that tasks have not taken in time to others that wait; return when to call this again.

        For the I/O thread, while the pool is `short`.
        """
        if not (self._waiters and self._untaken):
            return float("inf")
        with self._guard:
            overdue = []
            next_at = float("inf")
            for waiter, since in self._untaken.items():
                if since + TAKEN_WITHIN > now:
                    next_at = since + TAKEN_WITHIN
                    break
                overdue.append(waiter)
            # Tasks of one loop do not get it from each other: it takes all of it in its next turn.
            owners = {waiter.owner for waiter in overdue}
            if overdue and any(each.owner not in owners for each in self._waiters):
                self._absent |= owners
                for waiter in overdue:
                    del self._untaken[waiter]
                    waiter.missing, waiter.lost = waiter.size, True
                self._serve(sum(waiter.size for waiter in overdue))
            if overdue and self._untaken:
                next_at = min(next_at, now + TAKEN_WITHIN)
        self._notify_due()
        return next_at

    def give_up(self, waiter: MemoryWaiter, *, before: float, limit: str) -> None:
        """End a wait whose time is over: raise BufferExhaustedError, or the `refusal`.

        Returns if the waiter was served meanwhile; then it keeps its bytes for `take`.
        """
        waited = self._clock() - waiter.since
        try:
            with self._guard:
                if not waiter.missing:
                    return
                failure = self._failure(waiter, waited=waited, before=before, limit=limit)
            raise failure
        except BaseException:
            self.leave(waiter)
            raise

    def _waiter(self, size: int, min_bytes: int | None) -> MemoryWaiter:
        latch = Latch(self._environment)
        return MemoryWaiter(size=size, missing=size, min_bytes=size if min_bytes is None else min_bytes, served=latch)

    def _take_or_join_queue(self, waiter: MemoryWaiter, claim: Claim, *, first: bool = False) -> bool:
        with self._guard:
            if self._refusal is not None:
                raise unshared(self._refusal)
            if not self._waiters and waiter.size <= self._free:
                self._free -= waiter.size
                claim.held = waiter.size
                return True
            self._absent.discard(waiter.owner)
            if first:
                self._waiters.appendleft(waiter)
            else:
                self._waiters.append(waiter)
            self.short = True
            self._serve(0)
            return False

    def release(self, size: int) -> None:
        """Give *size* bytes back, all or, if the system has no memory, none. Call it in a deferred block."""
        with self._lock:
            self._serve(size)
        if self._to_notify:
            try:
                self._notify_due()
            except MemoryError:  # a later call notifies them; if this raised, the bytes would be given back again
                return

    def close(self, refusal: OttlaError) -> None:
        """Make reservations raise *refusal* from now on, also waiting ones; held memory may still be released."""
        with self._guard:
            self._refusal = refusal
            ended = tuple(self._waiters)
            for waiter in ended:
                self._free += waiter.size - waiter.missing
                waiter.missing = waiter.size
                waiter.served.set()
                self._to_notify.append(waiter)
            self._waiters.clear()
            self._collecting = None
        self._notify_due()

    def _serve(self, size: int) -> None:
        """Give *size* more bytes to the waiters, in their order; `_to_notify` has those that have all bytes now.

        If the system's memory ends there, a later call serves the rest: the bytes are free by then, and only once.
        """
        self._free += size
        try:
            while self._waiters and self._free > 0:
                waiter = self._next_waiter()
                given = min(waiter.missing, self._free)
                waiter.missing, self._free = waiter.missing - given, self._free - given
                if not waiter.missing:
                    if waiter.owner:
                        self._untaken[waiter] = self._clock()
                    self._collecting = None
                    self._to_notify.append(waiter)
                    if waiter is self._waiters[0]:
                        self._waiters.popleft()
                    else:
                        self._waiters.remove(waiter)
                    waiter.served.set()
        except MemoryError:
            pass

    def _next_waiter(self) -> MemoryWaiter:
        """The first that waits, of those whose event loop is not absent if there are any.

        The part that another one has collected is freed: two of them could hold all memory in parts.
        """
        waiter = self._waiters[0]
        if self._absent:
            waiter = next((each for each in self._waiters if each.owner not in self._absent), waiter)
        before = self._collecting
        if before is not waiter:
            if before is not None:
                self._free += before.size - before.missing
                before.missing = before.size
            self._collecting = waiter
        return waiter

    def _notify_due(self) -> None:
        """Call the callbacks that are due. One for which the system has no memory is due again at a later call."""
        for _ in range(len(self._to_notify)):
            try:
                waiter = self._to_notify.popleft()
            except IndexError:  # other threads call the rest
                return
            try:
                if waiter.notify is not None:
                    waiter.notify()
            except MemoryError:
                self._to_notify.append(waiter)

    def _end_wait(
        self, waiter: MemoryWaiter, claim: Claim, *, waited: float, before: float = 0.0, limit: str = "max.block.ms"
    ) -> None:
        """Move the waiter's bytes to *claim* if it got all of them; else raise BufferExhaustedError, or the `refusal`.

        Does not block. The error reports the seconds *waited*, and those of other waits *before*.
        """
        with self._guard:
            self._untaken.pop(waiter, None)
            if not waiter.missing:
                self._counters.memory_waits.add(waited)
                claim.held, waiter.missing = waiter.size, waiter.size
                return
            failure = self._failure(waiter, waited=waited, before=before, limit=limit)
        raise failure

    def _failure(self, waiter: MemoryWaiter, *, waited: float, before: float, limit: str) -> OttlaError:
        """Count a wait that fails, and return its error. Under the lock."""
        self._counters.memory_waits.add(waited)
        if self._refusal is not None:
            return unshared(self._refusal)
        self.refused_since = waiter.since
        self._counters.memory_refusals.add(1)
        earlier = f" after {before:.3f} s of other waits of this call" if before >= _REPORTED_WAIT else ""
        return BufferExhaustedError(
            f"no memory for {waiter.size} bytes within {limit}: waited {waited:.3f} s{earlier}, {self._free} of "
            f"buffer.memory={self.capacity} bytes free; the others are held by records that brokers have not "
            "acknowledged: a broker cannot be reached, is slow or limits this client, or more is sent than brokers take"
        )

    def leave(self, waiter: MemoryWaiter, claim: Claim | None = None) -> None:
        """Leave the line and return the collected bytes, unless the claim has them by now."""
        with self._guard:
            self._untaken.pop(waiter, None)
            if waiter in self._waiters:
                self._waiters.remove(waiter)
            if self._collecting is waiter:
                self._collecting = None
            if claim is None or not claim.held:
                collected = waiter.size - waiter.missing
                waiter.missing = waiter.size
                self._serve(collected)
        self._notify_due()
        if self._untaken and self._waiters:
            self._wake()  # the I/O thread watches those that were served


def _owner() -> int:
    """An id of the event loop that runs on this thread, or of the thread itself."""
    asyncio = sys.modules.get("asyncio")  # a program without event loops does not import it
    loop = None if asyncio is None else asyncio._get_running_loop()
    return threading.get_ident() if loop is None else id(loop)
