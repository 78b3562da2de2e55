"""What the accumulator asks of the I/O loop that sends its batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ottla.accumulator.batch import ProducerBatch


class IoLoop(Protocol):
    """Rounds that take batches. All methods are for any thread."""

    def wake(self) -> None:
        """Have a round begin at once."""

    def batch_started(self, *, alone: bool) -> None:
        """A batch was begun that may leave at once; *alone*: nothing else is under way."""

    def defer(self, work: Callable[[], object]) -> bool:
        """Have the I/O thread do this work, if the calling thread runs a round in its place; False: it does not."""
        ...

    def run_while_waiting(self, batch: ProducerBatch, timeout: float | None) -> None:
        """Run rounds on the calling thread until the batch has an outcome, if that is possible; may return before."""


class WokenLoop:
    """A loop whose rounds no other thread runs: all that it needs is to be woken."""

    def __init__(self, wake: Callable[[], object]) -> None:
        self._wake = wake

    def wake(self) -> None:
        """Have a round begin at once."""
        self._wake()

    def batch_started(self, *, alone: bool) -> None:
        """A batch may leave at once."""
        self._wake()

    def defer(self, work: Callable[[], object]) -> bool:
        """Whoever completes a batch runs its callbacks."""
        return False

    def run_while_waiting(self, batch: ProducerBatch, timeout: float | None) -> None:
        """The thread that waits sleeps."""
