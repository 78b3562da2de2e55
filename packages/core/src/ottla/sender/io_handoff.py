"""The hand-off of rounds from the I/O thread to a thread or an event loop that waits for records, and back.

If a thread waits for a record as soon as it has sent it, the record wakes the I/O thread, which then wakes the waiting
thread. These two thread switches take as long as all of Ottla's code. So if the last few records were sent like that,
and nothing is in flight, the I/O thread rests. Then `send` does not wake it, and the thread that waits runs the rounds.
Any other call for a round brings the I/O thread back, and so does its timer: a record that no thread waits for is
delayed by two checks.

The same holds for the records of tasks. While the I/O thread rests, a round runs at the end of the event loop's turn,
and whenever a connection has an event, for which the loop watches the producer's sockets. These rounds never wait. The
I/O thread comes back when a round that is due has not run for two checks, as when a task keeps the loop busy.

`IoHandoff` does not depend on what a round does, nor a round on it. Code that is documented as for the I/O thread is
for the thread that runs the rounds. Only callbacks are always deferred to the I/O thread.
"""

from __future__ import annotations

import enum
import threading
from collections import deque
from collections.abc import Callable
from typing import Final

from ottla.accumulator.batch import ProducerBatch
from ottla.accumulator.io_loop_interface import DeferredWake, EventLoop, LoopWatch, WokenLoop
from ottla.concurrency import io_threads, signals, stack_depth
from ottla.concurrency.environment import Environment
from ottla.concurrency.locks import AutoResetEvent
from ottla.sender.loop_rounds import LoopRounds

AWAITED_IN_A_ROW: Final = 3
"""The I/O thread rests after so many records in a row of which each was sent alone and waited for before the next."""

CHECK_INTERVAL: Final = 0.002
"""The interval at which a resting I/O thread checks for records that no thread waits for, in seconds."""

LOOP_CHECK_INTERVAL: Final = 0.005
"""The same while event loops run the rounds: they wake the I/O thread for what they leave to it, unless they hang."""

MAX_UNPOLLED_SECONDS: Final = 0.1
"""Seconds without a round by another thread after which a resting I/O thread polls the sockets again."""

TURNS_AFTER_RECALL: Final = 30
"""Turns of an event loop for which the I/O thread runs the rounds after it had to take them back."""


class HandoffState(enum.Enum):
    """The thread that runs the rounds."""

    IO_THREAD = "the I/O thread"
    OFFERED = "none: the I/O thread rests, and a thread that waits or an event loop may run them"
    CALLER = "a thread that waits, or an event loop; the I/O thread rests"


# Constants, because the look-up of an enum's member is a call on CPython 3.11 (`ottla.network.connection_stage`).
_IO_THREAD: Final = HandoffState.IO_THREAD
_OFFERED: Final = HandoffState.OFFERED
_CALLER: Final = HandoffState.CALLER


class IoHandoff:
    """Decides which thread runs the rounds: one at a time, at first the I/O thread. Only the I/O thread may offer them.

    *run* is one round, which waits at most until a given time, and *wake* ends its wait. *idle* returns whether nothing
    at all is queued or in flight; *pending*, for any thread, whether some record is. Without *loop_rounds*, event loops
    run no rounds.
    """

    # Why two threads never run rounds together: `_state` changes only under `_lock`, from IO_THREAD to OFFERED and back
    # by the I/O thread, from OFFERED to CALLER and back by one waiting thread or event loop. The thread that it names
    # is the only one that uses `_deferred` and `_round_error`, and that sets `_polled_at`.
    #
    # Why no call of `wake` is lost: finalizers call it, so it takes no lock. It sets `_called`, then `_resume`. The I/O
    # thread clears `_called` before a round, which does what the call was for, and reads it after each wait. If it is
    # set after that, so is `_resume`, which ends the next wait.

    def __init__(
        self,
        *,
        run: Callable[[float, float], object],
        idle: Callable[[], bool],
        pending: Callable[[], bool],
        wake: Callable[[], object],
        loop_rounds: LoopRounds | None = None,
        environment: Environment,
    ) -> None:
        self._run = run
        self._idle = idle
        self._pending = pending
        self._wake = wake
        self._environment = environment
        self._clock = environment.clock
        # Signal handlers never interrupt its owner; a finalizer that does may take it again, and leaves all as it was.
        self._lock = environment.rlock()
        self._state: HandoffState = _IO_THREAD
        self._called = False
        self._deferred_wake = DeferredWake(self.wake, self._end_turn)
        self._loop_rounds = loop_rounds
        self._event_loop: EventLoop | None = None  # of the last batch
        self._watch: LoopWatch | None = None  # of the sockets; another loop may run rounds, too
        self._caller_is_loop = False  # with the state CALLER
        self._fitted = False  # no round on a thread came after the last one on a loop, behind which another fitted
        self._resume = AutoResetEvent(environment)
        self.polling_thread: int | None = None  # each thread only compares it with itself
        # Changed under the lock
        self._batches_started = 0
        self._unawaited = False  # no thread has waited for the last batch yet
        self._awaited_in_a_row = 0
        self._turns_in_a_row = 0  # turns of event loops that began batches while no other was incomplete
        # Used by the thread that runs the rounds
        self._deferred: deque[Callable[[], object]] = deque()
        self._round_error: BaseException | None = None
        self._polled_at = float("-inf")

    # For any thread

    def wake(self) -> None:
        """Have a round begin immediately: on the I/O thread, unless the calling thread runs rounds in its place."""
        self._deferred_wake.pending = False
        if threading.get_ident() != self.polling_thread:
            self._called = True
            self._resume.set()
        self._wake()

    def batch_started(self, *, alone: bool, event_loop: EventLoop | None = None) -> None:
        """Note a new batch, *alone* if no other is incomplete; calls `wake` unless its sender will probably wait.

        With an *event_loop*, the end of its turn calls `wake`, or a thread that waits for a record before.
        """
        with self._lock:
            self._batches_started += 1
            if event_loop is None:
                self._turns_in_a_row = 0
            elif alone:
                self._turns_in_a_row += 1
            if self._unawaited or not alone:
                self._awaited_in_a_row = 0
            self._unawaited = True
            expected = self._state is not _IO_THREAD and self._awaited_in_a_row >= AWAITED_IN_A_ROW
        if event_loop is not None:
            self._event_loop = event_loop
            self._deferred_wake.defer(event_loop)
        elif not expected:
            self.wake()

    def run_while_waiting(self, batch: ProducerBatch, timeout: float | None) -> None:
        """Run rounds on this thread until the batch has an outcome, if that is possible; may return before."""
        self._deferred_wake.wake_if_pending()
        if self._state is _IO_THREAD and not self._unawaited:
            return
        if io_threads.on_io_thread():
            return
        able = _can_run_rounds()
        with signals.Deferred(self._wake) as block:
            if self._take(able=able):
                self._run_rounds(batch, timeout, block)

    def defer(self, work: Callable[[], object]) -> bool:
        """Have the I/O thread do *work*, if the calling thread runs rounds in its place; else return False."""
        if threading.get_ident() != self.polling_thread:
            return False
        self._deferred.append(work)
        self._turns_in_a_row = -TURNS_AFTER_RECALL
        self._recall()
        return True

    def forget(self) -> None:
        """Let no thread run rounds in a forked child."""
        self._lock = self._environment.rlock()  # another thread of the parent may hold the old one
        self._state = _IO_THREAD
        self._watch = None

    # For the I/O thread

    def begin_round(self) -> None:
        """Note that a round begins: later calls of `wake` are for the next one."""
        self._called = False

    def yield_to_callers(self) -> None:
        """Let waiting threads run the rounds until the I/O thread is needed, if recent records were sent one by one.

        Raises the exception that ended a round on another thread.
        """
        if max(self._awaited_in_a_row, self._turns_in_a_row) < AWAITED_IN_A_ROW or not self._idle():
            return
        with self._lock:
            if self._called:
                return
            self._polled_at = self._clock()
            self._fitted = False
            self._state = _OFFERED
        try:
            self._wait_until_needed()
        except BaseException:  # the next round must not begin before a waiting thread has ended its own
            self.wake()
            self._wait_until_needed()
            raise
        while self._deferred:
            self._deferred.popleft()()
        if self._round_error is not None:
            error, self._round_error = self._round_error, None
            self._awaited_in_a_row = 0
            raise error

    def end_watch(self) -> None:
        """Have the event loop watch the sockets no more, because they are about to be closed."""
        if self._watch is not None:
            self._watch.end()

    def _wait_until_needed(self) -> None:
        """Wait until the I/O thread is called or needed, and take the rounds back."""
        seen: tuple[int, float] | None = None  # what had happened at the last check, if a record was pending
        while True:
            on_loop = self._turns_in_a_row >= AWAITED_IN_A_ROW
            self._resume.wait(LOOP_CHECK_INTERVAL if on_loop else CHECK_INTERVAL)
            pending = self._pending()
            with self._lock:
                if self._state is _CALLER:
                    continue
                now = self._clock()
                happened = self._batches_started, self._polled_at
                unattended = pending and seen == happened and not self._loop_handles_events()
                unpolled = now - self._polled_at > MAX_UNPOLLED_SECONDS
                if unattended:
                    self._awaited_in_a_row = 0
                    self._turns_in_a_row = -TURNS_AFTER_RECALL
                if self._called or unattended or unpolled:
                    self._state = _IO_THREAD
                    return
                seen = happened if pending else None

    def _loop_handles_events(self) -> bool:
        """Return whether an event loop watches the sockets, and has handled all events."""
        loop_rounds, watch = self._loop_rounds, self._watch
        if loop_rounds is None or watch is None or watch.ended or self._deferred_wake.pending:
            return False
        return not loop_rounds.network.has_events()

    # For an event loop

    def _end_turn(self) -> None:
        """Run a round at the end of a turn, or wake the I/O thread for it."""
        if not self._run_on_loop(event=False):
            self.wake()

    def _handle_event(self) -> bool:
        """Run a round for an event of a connection. Return False if the loop is to watch no longer."""
        if self._run_on_loop(event=True):
            return True
        state = self._state
        if state is _OFFERED:
            self.wake()
        # A round of another loop may not look for events, so this loop calls again. A thread's round always does.
        return state is _CALLER and self._caller_is_loop

    def _run_on_loop(self, *, event: bool) -> bool:
        """Run a round that does not wait on the running event loop, if it may; else return False.

        *event*: it has to read what has arrived. Otherwise the loop, which watches the sockets, calls again for that.
        """
        loop_rounds = self._loop_rounds
        if self._state is not _OFFERED or self._called or loop_rounds is None or stack_depth.is_deep():
            return False
        signals.begin()  # not `Deferred`, which takes twice as long
        try:
            if not self._take_for_loop():
                return False
            io_threads.enter()
            awaits_events = False
            try:
                now = self._polled_at = self._clock()
                awaits_events = loop_rounds.run(now, not event)
            except BaseException as error:  # the I/O thread handles it
                self._round_error = error
            finally:
                io_threads.leave()
                self._fitted = self._round_error is None and self._fits_loop(known=awaits_events)
                if not self._fitted:
                    self._turns_in_a_row = -TURNS_AFTER_RECALL
                self._give_back(recall=not self._fitted)
        finally:
            signals.end()
        return True

    def _take_for_loop(self) -> bool:
        """Take the rounds if they are offered, fit an event loop, and a loop watches the sockets."""
        with self._lock:
            if self._state is not _OFFERED or self._called:
                return False
            if not (self._fits_loop(known=self._fitted) and self._watched()):
                self._turns_in_a_row = -TURNS_AFTER_RECALL
                return False
            self._deferred_wake.pending = False
            self.polling_thread = threading.get_ident()
            self._caller_is_loop = True
            self._state = _CALLER
            return True

    def _fits_loop(self, *, known: bool = False) -> bool:
        """Return whether the next round is one for an event loop: a short one, that an event or a turn brings.

        *known*: it was one after the last round, so only what changes without a round is asked for.
        """
        loop_rounds = self._loop_rounds
        return (
            loop_rounds is not None
            and loop_rounds.few_bytes()
            and (known or loop_rounds.awaits_events())
            and loop_rounds.due_at() > self._clock() + MAX_UNPOLLED_SECONDS
        )

    def _watched(self) -> bool:
        """Return whether an event loop watches the sockets. If none does, the running one begins to."""
        assert self._loop_rounds is not None, "without it no round fits"
        if self._watch is not None and not self._watch.ended:
            return True
        descriptor = self._loop_rounds.network.descriptor
        if self._event_loop is not None and descriptor is not None:
            self._watch = self._event_loop.watch(descriptor, self._handle_event)
        return self._watch is not None and not self._watch.ended

    # For a thread that waits

    def _take(self, *, able: bool) -> bool:
        """Take the rounds if they are offered and this thread is *able* to run them; else wake the I/O thread."""
        with self._lock:
            if self._unawaited:
                self._unawaited = False
                self._awaited_in_a_row += 1
            if not able:
                self._awaited_in_a_row = 0
            if self._state is _IO_THREAD or self._called:
                return False
            if able and self._state is _OFFERED:
                self.polling_thread = threading.get_ident()
                self._caller_is_loop = False
                self._state = _CALLER
                return True
        self.wake()
        return False

    def _run_rounds(self, batch: ProducerBatch, timeout: float | None, block: signals.Deferred) -> None:
        io_threads.enter()
        try:
            now = self._clock()
            until = float("inf") if timeout is None else now + timeout
            while batch.outcome is None and not self._called and not block.noted and now < until:
                self._run(now, until)
                now = self._clock()
            self._polled_at = now
            self._fitted = False
        except BaseException as error:  # the I/O thread handles it; Ctrl-C and the like are raised here, too
            self._round_error = error
            if not isinstance(error, Exception):
                raise
        finally:
            io_threads.leave()
            self._give_back(recall=self._round_error is not None or batch.outcome is None)

    def _give_back(self, *, recall: bool) -> None:
        with self._lock:
            self.polling_thread = None
            if self._state is _CALLER:  # not in a forked child
                self._state = _OFFERED
        if recall or self._called:
            self._recall()

    def _recall(self) -> None:
        """Have the I/O thread take the rounds back once no other thread runs them."""
        self._called = True
        self._resume.set()


class NoHandoff(WokenLoop):
    """The I/O loop with `io.handoff.enable=false`: only the I/O thread runs rounds."""

    polling_thread: int | None = None

    def forget(self) -> None:
        """Do nothing."""

    def end_watch(self) -> None:
        """Do nothing."""

    def begin_round(self) -> None:
        """Do nothing."""

    def yield_to_callers(self) -> None:
        """Do nothing."""


def _can_run_rounds() -> bool:
    """Return whether no signal handler but that of Ctrl-C and no RecursionError can interrupt a round here.

    Ctrl-C must end its wait for sockets, too.
    """
    if stack_depth.is_deep():
        return False
    return not signals.on_main_thread() or (signals.INTERRUPT_WAITS and signals.only_ctrl_c())
