"""Rows of a table that were queued as one batch, and where they are now if the batch was split."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import attrs

from ottla.accumulator.batch import ProducerBatch
from ottla.accumulator.batch_outcome import Acknowledged, Failed, Forwarded

Leaf: TypeAlias = tuple[ProducerBatch, Callable[[], Sequence[int]]]
"""A batch that has rows now, with a function that returns their numbers."""


@attrs.frozen(eq=False, repr=False)
class BatchRows:
    """Rows that were queued as one batch: row `offset + rows[index]` is the batch's record *index*."""

    batch: ProducerBatch
    offset: int
    rows: Sequence[int]

    def leaves(self) -> Iterator[Leaf]:
        """The batches that have the rows now."""
        return _leaves(self.batch, self, 0)

    def place(self, row: int) -> tuple[ProducerBatch, int] | None:
        """The batch that a row is in now, and its index there, or None if it is not one of these rows."""
        index = bisect_right(self.rows, row - self.offset) - 1
        if index < 0 or self.rows[index] != row - self.offset:
            return None
        batch = self.batch
        while isinstance(outcome := batch.outcome, Forwarded):
            batch, index = outcome.place(index)
        return batch, index


def is_completed(batch: ProducerBatch) -> bool:
    """Return whether the outcome of a batch's records is known."""
    return isinstance(batch.outcome, Acknowledged | Failed)


def _leaves(batch: ProducerBatch, piece: BatchRows, start: int) -> Iterator[Leaf]:
    outcome = batch.outcome
    if isinstance(outcome, Forwarded):
        for part in outcome.parts:
            yield from _leaves(part, piece, start)
            start += part.count
    else:
        rows, offset = piece.rows[start : start + batch.count], piece.offset
        yield batch, lambda: [offset + row for row in rows]
