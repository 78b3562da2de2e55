"""The byte budget of a producer (`buffer.memory`), and the threads that wait for it.

It counts bytes and holds none. Waiters are served in the order of their arrival: released memory goes to the one that
waits longest, even when a later one needs less.

`record_appender` and `batch_memory` take memory for records; `batch_completion` and `sealing` give it back.
"""

from __future__ import annotations

import sys
import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from itertools import chain
from operator import attrgetter
from typing import Final

import attrs

from ottla.concurrency import io_threads
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

    `min_bytes`, if given, are enough when the time for the wait is over.
    """

    size: int
    min_bytes: int | None
    since: float
    served: Latch
    owner: int = 0
    """The event loop, or else the thread, whose task has to take the bytes; 0: a thread waits itself."""
    held: int | None = None
    """The bytes that it has and that were not taken yet."""
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
        self._waiters: OrderedDict[MemoryWaiter, None] = OrderedDict()
        self._to_notify: deque[MemoryWaiter] = deque()
        """Waiters that were served or refused, and whose callbacks are due."""
        self._untaken: dict[MemoryWaiter, float] = {}
        """Waiters of tasks that have their bytes, and since when."""
        self._parked: dict[int, list[MemoryWaiter]] = {}
        """The waiters of event loops whose tasks did not take their bytes in time, until such a loop runs again."""
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
        """Bytes that are not held. Those that have come free for the first in line count as held."""
        return 0 if self._waiters else self._free

    @property
    def waiting(self) -> int:
        """The number of threads that wait for memory."""
        return len(self._waiters)

    @property
    def longest_wait(self) -> object | None:
        """An object that identifies the longest wait, the same until that wait ends, or None if no thread waits."""
        with self._lock:
            return self._first

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
        waiter = MemoryWaiter(size, min_bytes, self._clock(), Latch(self._environment))
        try:
            if self._take_or_join_queue(waiter, claim):
                return
            on_wait()
            waiter.served.wait(timeout)
            if not self.accept_min_bytes(waiter):
                self.give_up(waiter, before=waited, limit=limit)
            self.take(waiter, claim)
        except BaseException:  # perhaps interrupted: no caller is left to take what the waiter would get
            self.leave(waiter)
            raise

    def join_queue(self, size: int, *, min_bytes: int | None = None) -> MemoryWaiter:
        """Begin to wait for *size* bytes without blocking. End it with `take` or `leave`, or the bytes are lost.

        The same event loop has to call `take`.
        """
        waiter = MemoryWaiter(size, min_bytes, self._clock(), Latch(self._environment), _owner())
        self._take_or_join_queue(waiter, Claim())
        return waiter

    def notify(self, waiter: MemoryWaiter, callback: Callable[[], object]) -> None:
        """Call *callback* once the waiter is served; immediately, on this thread, if it is served already.

        It may run on any thread and under locks, and must not raise.
        """
        with self._guard:
            waiter.notify = callback
            served = waiter.served.is_set
            rejoined = self._rejoin(waiter.owner)
        if served:
            callback()
        if rejoined:
            self._notify_due(rejoined=True)

    def accept_min_bytes(self, waiter: MemoryWaiter) -> bool:
        """Let a wait whose time is over be served by what has come free, and return False if that is not enough."""
        with self._guard:
            rejoined = self._rejoin(waiter.owner)
            enough = waiter.min_bytes
            if self._first is waiter and enough is not None and self._free >= enough:
                del self._waiters[waiter]
                waiter.held, self._free = self._free, 0
                waiter.served.set()
            enough_now = waiter.served.is_set
        if rejoined:
            self._notify_due(rejoined=True)
        return enough_now

    def take(self, waiter: MemoryWaiter, claim: Claim) -> bool:
        """Move a waiter's bytes to *claim*. Return False if it has none, or others have those that it had.

        Raises the `refusal` of a closed pool.
        """
        try:
            with self._guard:
                rejoined = self._rejoin(waiter.owner)
                self._untaken.pop(waiter, None)
                taken = waiter.held is not None
                failure = None if taken or self._refusal is None else self._failure(waiter)
                if waiter.held is not None:
                    self._counters.memory_waits.add(self._clock() - waiter.since)
                    claim.held, waiter.held = waiter.held, None
            if rejoined:
                self._notify_due(rejoined=True)
            if failure is not None:
                raise failure
            return taken
        except BaseException:
            self.leave(waiter)
            raise

    def pass_on_untaken(self, now: float) -> float:
        """Give memory that tasks have not taken in time to others that wait; return when to call this again.

        For the I/O thread, while the pool is `short`.
        """
        if not (self._waiters and self._untaken):
            return float("inf")
        with self._guard:
            late = set()
            for waiter, served_at in self._untaken.items():
                if served_at + TAKEN_WITHIN > now:
                    break
                late.add(waiter.owner)
            # Tasks of one loop do not get it from each other: it takes all of it in its next turn.
            if late and any(waiter.owner not in late for waiter in self._waiters):
                self._park(late)
            next_at = next(iter(self._untaken.values()), float("inf")) + TAKEN_WITHIN
        self._notify_due()
        return next_at if next_at > now else now + TAKEN_WITHIN

    def give_up(self, waiter: MemoryWaiter, *, before: float, limit: str) -> None:
        """End a wait whose time is over: raise BufferExhaustedError, or the `refusal`.

        Returns if the waiter was served meanwhile; then it keeps its bytes for `take`. The error reports the seconds of
        other waits *before*.
        """
        try:
            with self._guard:
                if waiter.held is not None:
                    return
                failure = self._failure(waiter, before=before, limit=limit)
            raise failure
        except BaseException:
            self.leave(waiter)
            raise

    def leave(self, waiter: MemoryWaiter) -> None:
        """Leave the line and return the bytes, unless `take` has moved them to a claim."""
        with self._guard:
            rejoined = self._rejoin(waiter.owner)
            self._untaken.pop(waiter, None)
            self._waiters.pop(waiter, None)
            held, waiter.held = waiter.held or 0, None
            self._serve(held)
        self._notify_due(rejoined=rejoined)

    def _take_or_join_queue(self, waiter: MemoryWaiter, claim: Claim) -> bool:
        with self._guard:
            if self._refusal is not None:
                raise unshared(self._refusal)
            rejoined = self._rejoin(waiter.owner)
            taken = not self._waiters and waiter.size <= self._free
            if taken:
                remaining = self._free - waiter.size
                if waiter.owner:  # its loop may be blocked before the task takes them, as with those served later
                    self._untaken[waiter] = self._clock()
                    self._free, waiter.held = remaining, waiter.size
                    waiter.served.set()
                else:
                    self._free, claim.held = remaining, waiter.size
            else:
                self._waiters[waiter] = None
                self.short = True
        if rejoined:
            self._notify_due(rejoined=True)
        return taken

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
            for waiter in (*self._waiters, *chain.from_iterable(self._parked.values())):
                waiter.served.set()
                self._to_notify.append(waiter)
            self._waiters.clear()
            self._parked.clear()
        self._notify_due()

    @property
    def _first(self) -> MemoryWaiter | None:
        """The waiter whose turn it is. Under the lock."""
        return next(iter(self._waiters), None)

    def _serve(self, size: int) -> None:
        """Give *size* more bytes to the waiters, in their order, to each all or none; `_to_notify` has those served.

        If the system's memory ends there, a later call serves the rest: the bytes are free by then, and only once.
        """
        self._free += size
        try:
            while self._waiters:
                waiter = next(iter(self._waiters))
                remaining = self._free - waiter.size
                if remaining < 0:
                    return
                self._to_notify.append(waiter)
                if waiter.owner:
                    self._untaken[waiter] = self._clock()
                # From here on no step fails.
                del self._waiters[waiter]
                waiter.held, self._free = waiter.size, remaining
                waiter.served.set()
        except MemoryError:
            pass

    def _park(self, owners: set[int]) -> None:
        """Take the waiters of event loops that do not run out of the line, and free what they have not taken."""
        lost = [(waiter, Latch(self._environment)) for waiter in self._untaken if waiter.owner in owners]
        waiters = [*(waiter for waiter, _latch in lost), *self._waiters]
        parked = {owner: [waiter for waiter in waiters if waiter.owner == owner] for owner in owners}
        self._waiters = OrderedDict.fromkeys(waiter for waiter in self._waiters if waiter.owner not in owners)
        self._parked |= parked
        for waiter, latch in lost:
            del self._untaken[waiter]
            self._free += waiter.size
            waiter.held, waiter.served = None, latch
        self._serve(0)

    def _rejoin(self, owner: int) -> bool:
        """Put the waiters of an event loop that was late, and runs, into the line again, in the order of arrival.

        Return whether there are any; then call `_notify_due` without the lock. Under the lock of the call that
        shows that the loop runs: in between, the I/O thread could take the loop out of the line.
        """
        if owner not in self._parked:
            return False
        waiters = sorted([*self._waiters, *self._parked[owner]], key=attrgetter("since"))
        self._waiters = OrderedDict.fromkeys(waiters)
        del self._parked[owner]
        self.short = True
        self._serve(0)
        return True

    def _notify_due(self, *, rejoined: bool = False) -> None:
        """Call the callbacks that are due. One for which the system has no memory is due again at a later call.

        *rejoined*: an event loop is in the line again. Without its waiters, no open batch had to leave without linger.
        """
        due = len(self._to_notify)
        for _ in range(due):
            try:
                waiter = self._to_notify.popleft()
            except IndexError:  # other threads call the rest
                break
            try:
                if waiter.notify is not None:
                    waiter.notify()
            except MemoryError:
                self._to_notify.append(waiter)
        if rejoined or (due and self._untaken and self._waiters and not io_threads.on_io_thread()):
            self._wake()  # the I/O thread watches those that were served

    def _failure(self, waiter: MemoryWaiter, *, before: float = 0.0, limit: str = "") -> OttlaError:
        """Count a wait that fails, and return its error. Under the lock."""
        waited = self._clock() - waiter.since
        self._counters.memory_waits.add(waited)
        if self._refusal is not None:
            return unshared(self._refusal)
        self.refused_since = waiter.since
        self._counters.memory_refusals.add(1)
        earlier = f" after {before:.3f} s of other waits of this call" if before >= _REPORTED_WAIT else ""
        return BufferExhaustedError(
            f"no memory for {waiter.size} bytes within {limit}: waited {waited:.3f} s{earlier}, {self.free} of "
            f"buffer.memory={self.capacity} bytes free; the others are held by records that brokers have not "
            "acknowledged: a broker cannot be reached, is slow or limits this client, or more is sent than brokers take"
        )


def _owner() -> int:
    """An id of the event loop that runs on this thread, or of the thread itself."""
    asyncio = sys.modules.get("asyncio")  # a program without event loops does not import it
    loop = None if asyncio is None else asyncio._get_running_loop()
    return threading.get_ident() if loop is None else id(loop)
