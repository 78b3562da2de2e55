"""The interface of the I/O loop that sends the accumulator's batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

from ottla.accumulator.batch import ProducerBatch

PutOff: TypeAlias = Callable[[Callable[[], object]], object]
"""Calls a function soon, on the calling thread. An event loop does it when it has run all tasks that are ready now."""


class IoLoop(Protocol):
    """A loop of rounds that send batches. All methods are for any thread."""

    def wake(self) -> None:
        """Have a round begin immediately."""

    def batch_started(self, *, alone: bool, put_off: PutOff | None = None) -> None:
        """Note a new batch; *alone*: it is the only incomplete one. The caller holds the queues' lock.

        *put_off* gets the function that wakes the loop, so that records of other tasks may join the batch. A thread
        that waits for a record meanwhile wakes the loop at once.
        """

    def defer(self, work: Callable[[], object]) -> bool:
        """Have the I/O thread do *work* if the calling thread runs a round in its place; else return False."""
        ...

    def run_while_waiting(self, batch: ProducerBatch, timeout: float | None) -> None:
        """Run rounds on the calling thread, if possible, until the batch has an outcome; may return earlier."""


class PutOffWake:
    """A wake-up that is put off. It is dropped if another one comes first. For any thread; takes no lock."""

    __slots__ = ("_wake", "pending")

    def __init__(self, wake: Callable[[], object]) -> None:
        self._wake = wake
        self.pending = False
        """The wake-up has not come yet. To be unset by any other."""

    def put_off(self, put_off: PutOff) -> None:
        """Have *put_off* call the wake-up."""
        self.pending = True
        put_off(self.come)

    def come(self) -> None:
        """Wake the loop unless it was woken meanwhile."""
        if self.pending:
            self._wake()


class WokenLoop:
    """A loop whose rounds only the I/O thread runs: it only has to be woken."""

    def __init__(self, wake: Callable[[], object]) -> None:
        self._wake = wake
        self._put_off = PutOffWake(self.wake)

    def wake(self) -> None:
        """Have a round begin immediately."""
        self._put_off.pending = False
        self._wake()

    def batch_started(self, *, alone: bool, put_off: PutOff | None = None) -> None:
        """Have a round begin immediately, or when *put_off* calls for it."""
        if put_off is None:
            self.wake()
        else:
            self._put_off.put_off(put_off)

    def defer(self, work: Callable[[], object]) -> bool:
        """Return False: the thread that completes a batch runs its callbacks."""
        return False

    def run_while_waiting(self, batch: ProducerBatch, timeout: float | None) -> None:
        """Return immediately: the waiting thread sleeps."""
        self._put_off.come()
