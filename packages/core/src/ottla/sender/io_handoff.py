"""Who runs the rounds: the I/O thread, or for a while the thread that waits for the only record under way.

A record that is awaited as soon as it was sent would call the I/O thread and be told by it: two changes of threads,
which take as long as all of our code. So when the last few were awaited like that, and nothing is under way, the I/O
thread rests; who sends leaves it alone, and who waits takes the helm. Any other call for a round brings the I/O thread
back, and so does a look at its watch: a record that nobody came for waits for two ticks.

It knows nothing of what a round does, and a round nothing of it: what is said elsewhere to be for the I/O thread is for
whoever is at the helm. Only callbacks are not: they are put off for the I/O thread.
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
"""So many records in a row that were alone, and awaited before the next one, let the I/O thread rest."""

TICK: Final = 0.002
"""How often the I/O thread looks up while it rests, in seconds."""

PATIENCE: Final = 0.1
"""When nobody has led for so long, the I/O thread goes back to watch the sockets."""


class IoHandoff:
    """Held by one thread at a time, at first by the I/O thread, which alone may `rest`.

    *run* is one round, which waits no longer than until a moment, and *wake* ends its wait. *idle* tells whether
    nothing at all is under way, *pending*, for any thread, whether some record is.
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
        self._gate = threading.Lock()  # free: the I/O thread is to come back
        self._gate.acquire()
        self._yielding = False
        self._called = False  # since the I/O thread began its round
        self.polling_thread: int | None = None
        self._polled_at = float("-inf")
        self._lost: BaseException | None = None
        self._deferred: deque[Callable[[], object]] = deque()
        self._batches_started = 0
        self._unasked = False  # nobody has asked for the last batch that was begun
        self._in_a_row = 0

    # For any thread

    def wake(self) -> None:
        """Have a round begin at once, and by the I/O thread, unless it is the round itself that calls."""
        self._called = True  # before the look, as `rest` looks after it has said so
        if self._yielding and threading.get_ident() != self.polling_thread:
            self._recall_io_thread()
        self._wake()

    def batch_started(self, *, alone: bool) -> None:
        """A batch was begun that may leave at once, and nothing else is under way if it is *alone*."""
        self._batches_started += 1
        if self._unasked or not alone:
            self._in_a_row = 0
        self._unasked = True
        if not self._yielding or self._in_a_row < ENOUGH:
            self.wake()

    def run_while_waiting(self, batch: ProducerBatch, timeout: float | None) -> None:
        """Run rounds until the batch is settled, if that can be done here; may return before."""
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
        """Have the I/O thread do this, if the calling thread leads; False: it does not."""
        if threading.get_ident() != self.polling_thread:
            return False
        self._deferred.append(work)
        self._recall_io_thread()
        return True

    def forget(self) -> None:
        """In a forked child there are no rounds."""
        self._yielding = False

    # For the I/O thread

    def begin_round(self) -> None:
        """A round begins: what is called for from now on is for the next one."""
        self._called = False

    def yield_to_callers(self) -> None:
        """Let others run the rounds until one is wanted here, if it looks as if somebody would.

        Raises what ended a round of theirs.
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
        seen = -1  # how many batches had been begun at the last look, if one of them was waiting
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

    # Leading

    def _leave_to_io_thread(self) -> None:
        """This thread had better not lead."""
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
        except BaseException as lost:  # where the I/O thread's own are seen to; one that it did not raise is ours, too
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
        """Have the I/O thread come, and who leads go."""
        self._yielding = False
        with contextlib.suppress(RuntimeError):  # it is on its way
            self._gate.release()


def _may_poll() -> bool:
    return not _deep_in_calls() and (not signals.on_main_thread() or signals.only_ctrl_c())


def _deep_in_calls() -> bool:
    """Whether the interpreter's limit of calls in calls, met in the middle of a round, might leave it half done."""
    try:
        sys._getframe(sys.getrecursionlimit() // 4)  # before 3.12 calls of C count, too, and are not seen here
    except ValueError:
        return False
    return True
