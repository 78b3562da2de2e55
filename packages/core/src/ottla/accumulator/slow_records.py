"""Log lines about slow batches (`slow.record.threshold.ms`): now and then the slowest, with what it waited for."""

from __future__ import annotations

from typing import Final

from ottla.accumulator.batch import ProducerBatch
from ottla.errors import counted
from ottla.errors.robust_logger import robust_logger
from ottla.results.stories import RecordStory

logger = robust_logger(__name__)

EVERY: Final = 10.0
"""Seconds between two lines. The first slow batch is logged at once, later ones are counted."""


class SlowRecords:
    """The slow batches since the last line: how many, and the slowest one's story.

    For the I/O thread; another thread that completes batches in a program that ends may lose a count.
    """

    def __init__(self) -> None:
        self.threshold = float("inf")
        """Seconds from the queueing of a batch until its outcome; a batch that took longer is slow."""
        self._count = 0
        self._slowest: RecordStory | None = None
        self._next_at = float("-inf")

    @property
    def active(self) -> bool:
        """Return whether there are slow batches to log."""
        return self._slowest is not None

    def note(self, batch: ProducerBatch, now: float) -> None:
        """Note a batch that was slow."""
        self._count += 1
        if self._slowest is None or now - batch.created_at > self._slowest.until - self._slowest.queued_at:
            self._slowest = batch.story()

    def due_at(self) -> float:
        """The time at which a line is due."""
        return self._next_at

    def write(self, client_id: str, now: float) -> None:
        """Write a line if it is due."""
        story = self._slowest
        if story is None or now < self._next_at:
            return
        others = self._count - 1
        self._count, self._slowest, self._next_at = 0, None, now + EVERY
        logger.warning(
            "%s: slow records, above slow.record.threshold.ms: %s; %s since the last such line",
            client_id,
            story.brief(),
            counted(others, "other slow batch"),
        )
