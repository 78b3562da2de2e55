"""The wait of a flush for batches, as an object: it blocks no thread, and costs nothing until its batches complete."""

from __future__ import annotations

from collections.abc import Callable

from ottla.accumulator.batch import ProducerBatch


class FlushWait:
    """What one flush still waits for."""

    __slots__ = ("ended", "on_end", "pending")

    def __init__(self, on_end: Callable[[], object]) -> None:
        self.on_end = on_end
        """Called once, under the accumulator's lock: it must not call the producer, wait, or raise."""
        self.pending: list[ProducerBatch] = []
        """The batches that were incomplete when it began, without the last ones, which are complete by now."""
        self.ended = False

    def end(self) -> None:
        """Note that all batches are complete."""
        if not self.ended:
            self.ended = True
            self.on_end()
