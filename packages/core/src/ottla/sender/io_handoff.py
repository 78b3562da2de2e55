"""The hand-off of rounds from the I/O thread to a thread that waits for the only record in flight, and back.

A record that is awaited as soon as it was sent would wake the I/O thread and be completed by it. These two thread
switches take as long as all of Ottla's code. So when the last few records were awaited like that, and nothing is in
flight, the I/O thread rests. Then `send` does not wake it, and the thread that waits runs the rounds. Any other call
for a round brings the I/O thread back, and so does its timer: a record that no thread awaits is delayed by two ticks.

`IoHandoff` does not depend on what a round does, nor a round on it. Code that is documented as for the I/O thread is
for the thread that runs the rounds. Only callbacks are always deferred to the I/O thread.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections import deque
from collections.abc import Callable
from typing import Final

from ottla.accumulator.batch import ProducerBatch
from ottla.concurrency import io_threads, signals

ENOUGH: Final = 3
"""The number of records in a row, each alone and awaited before the next one, after which the I/O thread rests."""

TICK: Final = 0.002
"""The interval at which a resting I/O thread checks for records that no thread awaits, in seconds."""

PATIENCE: Final = 0.1
"""Seconds without a round by another thread after which a resting I/O thread polls the sockets again."""


class IoHandoff:
    """The right to run rounds: one thread at a time has it, at first the I/O thread, which alone may give it away.

    *run* is one round, which waits at most until a given time, and *wake* ends its wait. *idle* returns whether nothing
    at all is queued or in flight; *pending*, for any thread, whether some record is.
    """

    def __init__(
        self,
        *,
        run: Callable[[float, float], object],
        idle: Callable[[], bool],
        pending: Callable[[], bool],
        wake: Callable[[], object],
        clock: Callable[[], float],
    ) -> None:
        self._run = run
        self._idle = idle
        self._pending = pending
        self._wake = wake
        self._clock = clock
        self._turn = threading.Lock()
        self._turn.acquire()
        self._gate = threading.Lock()  # free: the I/O thread is to run rounds again
        self._gate.acquire()
        self._yielding = False
        self._called = False  # since the I/O thread began its round
        self.polling_thread: int | None = None
        self._polled_at = float("-inf")
        self._lost: BaseException | None = None
        self._deferred: deque[Callable[[], object]] = deque()
        self._batches_started = 0
        self._unasked = False  # no thread has waited for the last batch that was begun
        self._in_a_row = 0

    # For any thread

    def wake(self) -> None:
        """Have the I/O thread begin a round at once, unless the caller is a round on another thread."""
        self._called = True  # before `_yielding` is read: `yield_to_callers` sets that before it reads `_called`
        if self._yielding and threading.get_ident() != self.polling_thread:
            self._recall_io_thread()
        self._wake()

    def batch_started(self, *, alone: bool) -> None:
        """Note a new batch, *alone* if no other is incomplete; calls `wake` unless its sender will probably wait."""
        self._batches_started += 1
        if self._unasked or not alone:
            self._in_a_row = 0
        self._unasked = True
        if not self._yielding or self._in_a_row < ENOUGH:
            self.wake()

    def run_while_waiting(self, batch: ProducerBatch, timeout: float | None) -> None:
        """Run rounds on this thread until the batch has an outcome, if that is possible; may return before."""
        if self._unasked:
            self._unasked = False
            self._in_a_row += 1
            if self._in_a_row == ENOUGH and not _may_poll():
                self._in_a_row = 0
        if not self._yielding or io_threads.on_io_thread():
            return
        if _deep_in_calls():
            self._leave_to_io_thread()
        elif not signals.on_main_thread():
            self._poll_on_this_thread(batch, timeout, None)
        elif signals.only_ctrl_c():
            with signals.Deferred(self._wake) as interrupt:
                self._poll_on_this_thread(batch, timeout, interrupt)
        else:
            self._leave_to_io_thread()

    def defer(self, work: Callable[[], object]) -> bool:
        """Have the I/O thread do *work*, if the calling thread runs rounds in its place; False: it does not."""
        if threading.get_ident() != self.polling_thread:
            return False
        self._deferred.append(work)
        self._recall_io_thread()
        return True

    def forget(self) -> None:
        """Let no thread run rounds in a forked child."""
        self._yielding = False

    # For the I/O thread

    def begin_round(self) -> None:
        """Note that a round begins: later calls of `wake` are for the next one."""
        self._called = False

    def yield_to_callers(self) -> None:
        """Let waiting threads run the rounds until the I/O thread is needed, if recent records were awaited one by one.

        Raises the exception that ended a round on another thread.
        """
        if self._in_a_row < ENOUGH or not self._idle():
            return
        self._yielding = True
        if self._called:
            self._yielding = False
            return
        self._turn.release()
        try:
            self._wait_for_call()
        finally:
            self._yielding = False
            self._turn.acquire()
            self._gate.acquire(blocking=False)
        while self._deferred:
            self._deferred.popleft()()
        if self._lost is not None:
            lost, self._lost = self._lost, None
            self._in_a_row = 0
            raise lost

    def _wait_for_call(self) -> None:
        rested_at = self._clock()
        seen = -1  # how many batches had been begun at the last tick, if one of them was pending
        while not self._gate.acquire(timeout=TICK):
            if self.polling_thread is not None:
                continue
            if not self._pending():
                seen = -1
                if self._clock() - max(rested_at, self._polled_at) > PATIENCE:
                    return
            elif seen == self._batches_started:
                self._in_a_row = 0
                return
            else:
                seen = self._batches_started

    # Rounds on the calling thread

    def _leave_to_io_thread(self) -> None:
        """Wake the I/O thread: this thread cannot run rounds safely."""
        self._in_a_row = 0
        self.wake()

    def _poll_on_this_thread(
        self, batch: ProducerBatch, timeout: float | None, interrupt: signals.Deferred | None
    ) -> None:
        if not self._yielding or not self._turn.acquire(blocking=False):
            return
        self.polling_thread = threading.get_ident()
        io_threads.enter()
        try:
            now = self._clock()
            until = float("inf") if timeout is None else now + timeout
            while batch.outcome is None and self._yielding and now < until:
                if interrupt is not None and interrupt.noted:
                    break
                self._run(now, until)
                now = self._clock()
            self._polled_at = now
        except BaseException as lost:  # the I/O thread handles it; Ctrl-C and the like are raised here, too
            self._lost = lost
            if not isinstance(lost, Exception):
                raise
        finally:
            io_threads.leave()
            self.polling_thread = None
            if self._lost is not None or batch.outcome is None:
                self._recall_io_thread()
            self._turn.release()

    def _recall_io_thread(self) -> None:
        """Have the I/O thread take the rounds back from the thread that runs them."""
        self._yielding = False
        with contextlib.suppress(RuntimeError):  # the gate is free already
            self._gate.release()


def _may_poll() -> bool:
    return not _deep_in_calls() and (not signals.on_main_thread() or signals.only_ctrl_c())


def _deep_in_calls() -> bool:
    """Return whether a round here might reach the recursion limit, which would leave it half done."""
    try:
        sys._getframe(sys.getrecursionlimit() // 4)  # before 3.12 C calls count, too, and have no frames
    except ValueError:
        return False
    return True
