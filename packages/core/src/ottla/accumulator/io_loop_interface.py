"""The interface of the I/O loop that sends the accumulator's batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ottla.accumulator.batch import ProducerBatch


class IoLoop(Protocol):
    """A loop of rounds that send batches. All methods are for any thread."""

    def wake(self) -> None:
        """Have a round begin immediately."""

    def batch_started(self, *, alone: bool) -> None:
        """Note a new batch; *alone*: it is the only incomplete one. The caller holds the queues' lock."""

    def defer(self, work: Callable[[], object]) -> bool:
        """Have the I/O thread do *work* if the calling thread runs a round in its place; else return False."""
        ...

    def run_while_waiting(self, batch: ProducerBatch, timeout: float | None) -> None:
        """Run rounds on the calling thread, if possible, until the batch has an outcome; may return earlier."""


class WokenLoop:
    """A loop whose rounds only the I/O thread runs: it only has to be woken."""

    def __init__(self, wake: Callable[[], object]) -> None:
        self._wake = wake

    def wake(self) -> None:
        """Have a round begin immediately."""
        self._wake()

    def batch_started(self, *, alone: bool) -> None:
        """Have a round begin immediately."""
        self._wake()

    def defer(self, work: Callable[[], object]) -> bool:
        """Return False: the thread that completes a batch runs its callbacks."""
        return False

    def run_while_waiting(self, batch: ProducerBatch, timeout: float | None) -> None:
        """Return immediately: the waiting thread sleeps."""
