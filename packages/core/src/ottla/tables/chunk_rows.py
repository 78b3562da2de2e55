"""The rows of one chunk of a table: in batches, or as numbers if their batches are acknowledged."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.accumulator.batch import ProducerBatch
from ottla.accumulator.batch_outcome import Acknowledged, Failed
from ottla.accumulator.locked_columns import LockedColumns
from ottla.recordbatch.finished_columns import FinishedColumns
from ottla.results import RecordMetadata
from ottla.tables.batch_rows import BatchRows, Leaf

if TYPE_CHECKING:
    from ottla.tables.acknowledged_rows import AcknowledgedRows

MIN_COMPACTED: Final = 16
"""Fewer acknowledged batches than this are kept: a chunk of large ones has fewer."""


class ChunkContent(NamedTuple):
    """Where the rows of a chunk are: in batches that are kept, and in numbers of others."""

    batches: list[BatchRows]
    acknowledged: tuple[AcknowledgedRows, ...]

    def leaves(self) -> Iterator[Leaf]:
        """The kept batches, or their parts if they were split."""
        for piece in self.batches:
            yield from piece.leaves()

    def completed(self) -> tuple[int, int]:
        """The numbers of rows that are acknowledged and that have failed."""
        acknowledged, failed = sum(rows.count for rows in self.acknowledged), 0
        for batch, _rows in self.leaves():
            match batch.outcome:
                case Acknowledged():
                    acknowledged += batch.count
                case Failed():
                    failed += batch.count
        return acknowledged, failed


class ChunkRows:
    """The *count* rows from row *start* on. One thread adds batches; afterwards, usable from any thread."""

    __slots__ = ("_batches", "_rows", "content", "count", "start")

    def __init__(self, start: int, count: int) -> None:
        self.start = start
        self.count = count
        self._rows = self._batches = 0  # that were added
        self.content = ChunkContent([], ())
        """Replaced as a whole: a thread that reads it once finds each row once, while another one compacts."""

    @property
    def is_mostly_pending(self) -> bool:
        """Return whether rows are still added, or more than half of the batches have no outcome."""
        if self._rows < self.count:
            return True
        return 2 * sum(piece.batch.outcome is None for piece in self.content.batches) > self._batches

    def add(self, piece: BatchRows) -> None:
        """Add a batch with some of the rows."""
        self.content.batches.append(piece)
        self._rows += len(piece.rows)
        self._batches += 1

    def add_acknowledged(self, rows: AcknowledgedRows) -> None:
        """Add rows whose batches are not kept."""
        batches, acknowledged = self.content
        self.content = ChunkContent(batches, (*acknowledged, rows))
        self._rows += rows.count

    def compact(self) -> bool:
        """Keep only numbers of acknowledged batches, if there are many. Return whether all batches have outcomes.

        Batches that failed or were split are kept, and so are those of a third-party encoder.
        """
        batches, acknowledged = self.content
        found: list[BatchRows] = []
        kept: list[BatchRows] = []
        for piece in batches:
            (found if _is_compactable(piece.batch) else kept).append(piece)
        if len(found) >= MIN_COMPACTED:
            from ottla.tables.acknowledged_rows import AcknowledgedRows  # with pyarrow, which programs may lack

            self.content = ChunkContent(kept, (*acknowledged, AcknowledgedRows.of(found)))
        return all(piece.batch.outcome is not None for piece in kept)

    def find(self, row: int) -> RecordMetadata | tuple[ProducerBatch, int]:
        """The metadata of a row of this chunk, or its batch, if that is kept, and its index there."""
        batches, acknowledged = self.content
        for rows in acknowledged:
            metadata = rows.metadata(row)
            if metadata is not None:
                return metadata
        for piece in batches:
            place = piece.place(row)
            if place is not None:
                return place
        raise AssertionError("every row that was taken is in a batch")

    def unassigned(self) -> list[int]:
        """The rows that are in no batch, counted from the chunk's first one."""
        if self._rows == self.count:
            return []
        return sorted(set(range(self.count)).difference(*(piece.rows for piece in self.content.batches)))


def _is_compactable(batch: ProducerBatch) -> bool:
    if not isinstance(batch.outcome, Acknowledged):
        return False
    columns = batch.columns
    return isinstance(columns, LockedColumns) and isinstance(columns.columns, FinishedColumns)
