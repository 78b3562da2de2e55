"""The interface of the I/O loop that sends the accumulator's batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ottla.accumulator.batch import ProducerBatch


class LoopWatch(Protocol):
    """A descriptor that an event loop watches."""

    @property
    def ended(self) -> bool:
        """Return whether the loop watches it no more, or is closed. For any thread."""

    def end(self) -> None:
        """Have the loop watch it no more, soon. For any thread; does not wait, and never raises."""


class EventLoop(Protocol):
    """The event loop that runs on the calling thread, if there is one."""

    def at_end_of_turn(self, function: Callable[[], object], *, if_closed: Callable[[], object]) -> object:
        """Call *function* once when all tasks that are ready now have run; immediately if no loop runs here.

        If the loop is closed before that, a finalizer calls *if_closed* instead.
        """

    def watch(self, descriptor: int, function: Callable[[], bool]) -> LoopWatch | None:
        """Call *function* on the loop while *descriptor* is readable, until it returns False.

        Return None if no loop can.
        """


class IoLoop(Protocol):
    """A loop of rounds that send batches. All methods are for any thread."""

    def wake(self) -> None:
        """Have a round begin immediately."""

    def batch_started(self, *, alone: bool, event_loop: EventLoop | None = None) -> None:
        """Note a new batch; *alone*: it is the only incomplete one. The caller holds the queues' lock.

        With an *event_loop* the round begins at the end of its turn, so that records of other tasks may join the batch.
        If a thread waits for a record meanwhile, the round begins at once.
        """

    def defer(self, work: Callable[[], object]) -> bool:
        """Have the I/O thread do *work* if the calling thread runs a round in its place; else return False."""
        ...

    def run_while_waiting(self, batch: ProducerBatch, timeout: float | None) -> None:
        """Run rounds on the calling thread, if possible, until the batch has an outcome; may return earlier."""


class DeferredWake:
    """A wake-up that is deferred to the end of a turn. It is dropped if another one comes first. For any thread.

    *end_turn* is called then, and *wake* if the wake-up has to come before. It takes no lock.
    """

    __slots__ = ("_end_turn", "_wake", "pending")

    def __init__(self, wake: Callable[[], object], end_turn: Callable[[], object] | None = None) -> None:
        self._wake = wake
        self._end_turn = end_turn or wake
        self.pending = False
        """The wake-up has not come yet. To be unset by any other."""

    def defer(self, event_loop: EventLoop) -> None:
        """Let the wake-up come at the end of the turn."""
        self.pending = True
        # A finalizer may interrupt any code, and must not run a round there.
        event_loop.at_end_of_turn(self._on_end_of_turn, if_closed=self.wake_if_pending)

    def wake_if_pending(self) -> None:
        """Wake the loop unless it was woken meanwhile."""
        if self.pending:
            self._wake()

    def _on_end_of_turn(self) -> None:
        if self.pending:
            self._end_turn()


class WokenLoop:
    """A loop whose rounds only the I/O thread runs: it only has to be woken."""

    def __init__(self, wake: Callable[[], object]) -> None:
        self._wake = wake
        self._deferred_wake = DeferredWake(self.wake)

    def wake(self) -> None:
        """Have a round begin immediately."""
        self._deferred_wake.pending = False
        self._wake()

    def batch_started(self, *, alone: bool, event_loop: EventLoop | None = None) -> None:
        """Have a round begin immediately, or at the end of the event loop's turn."""
        if event_loop is None:
            self.wake()
        else:
            self._deferred_wake.defer(event_loop)

    def defer(self, work: Callable[[], object]) -> bool:
        """Return False: nothing is deferred, so the thread that completes a batch runs its callbacks itself."""
        return False

    def run_while_waiting(self, batch: ProducerBatch, timeout: float | None) -> None:
        """Return immediately: the waiting thread sleeps."""
        self._deferred_wake.wake_if_pending()
