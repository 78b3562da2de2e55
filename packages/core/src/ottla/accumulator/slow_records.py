"""Log lines about slow batches (`slow.record.threshold.ms`): now and then the slowest, with what it waited for.

A batch is slow once it is incomplete for that long, and again with its whole story when it is complete.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from ottla.accumulator.batch import ProducerBatch
from ottla.errors import counted
from ottla.errors.robust_logger import robust_logger
from ottla.results.stories import RecordStory

logger = robust_logger(__name__)

EVERY: Final = 10.0
"""Seconds between two lines. The first slow batch is logged at once, later ones are counted."""

_CHECKS: Final = 10
"""Checks of the incomplete batches within the threshold, at most."""

_NEVER: Final = float("inf")


class SlowRecords:
    """The slow batches since the last line: how many, and the slowest one's story.

    A batch is slow if its outcome takes longer than *threshold* seconds. *incomplete* are all batches of the producer
    that have none yet.

    For the I/O thread; another thread that completes batches in a program that ends may lose a count.
    """

    def __init__(self, threshold: float, incomplete: Collection[ProducerBatch]) -> None:
        self.threshold = threshold
        self._incomplete = incomplete
        self._check_at = float("-inf")
        self._checked_at = float("-inf")  # incomplete batches that were slow by then are noted
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

    def check(self, now: float) -> float:
        """Note the incomplete batches that have become slow, each once, if a line about them could be written.

        Return the time at which a line or another check is due.
        """
        next_at = self._next_at
        line_at = _NEVER if self._slowest is None else next_at
        if self.threshold == _NEVER or not self._incomplete:
            return line_at
        check_at = self._check_at if self._check_at > next_at else next_at
        if now < check_at:
            return line_at if line_at < check_at else check_at
        self._check_all(now)
        return max(self._check_at, next_at) if self._slowest is None else next_at

    def _check_all(self, now: float) -> None:
        next_at = now + self.threshold
        for batch in list(self._incomplete):  # a copy, since other threads add batches
            slow_at = batch.created_at + self.threshold
            if slow_at > now:
                next_at = min(next_at, slow_at)
            elif slow_at > self._checked_at:
                self.note(batch, now)
        self._checked_at = now
        self._check_at = max(next_at, now + self.threshold / _CHECKS)

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
