"""The chunks of a table that were taken so far, each with the batches of its rows or numbers of these."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

from ottla.tables.batch_rows import BatchRows, Leaf
from ottla.tables.chunk_rows import MIN_COMPACTED, ChunkRows


class ChunkList:
    """One thread adds chunks and batches; afterwards, usable from any thread."""

    def __init__(self) -> None:
        self.all: list[ChunkRows] = []
        """All chunks, in the order of their rows."""
        self._uncompacted: list[ChunkRows] = []  # with batches that `compact` may drop

    @property
    def rows(self) -> int:
        """The number of their rows."""
        return self.all[-1].start + self.all[-1].count if self.all else 0

    def begin(self, count: int) -> ChunkRows:
        """Add the next *count* rows as a chunk."""
        chunk = ChunkRows(self.rows, count)
        self.all.append(chunk)
        return chunk

    def add(self, piece: BatchRows) -> None:
        """Add a batch with rows of the chunk that begins at its offset."""
        chunk = self.of(piece.offset)
        chunk.add(piece)
        if len(chunk.content.batches) == MIN_COMPACTED:
            self._uncompacted.append(chunk)

    def of(self, row: int) -> ChunkRows:
        """The chunk of a row."""
        return self.all[bisect_right(self.all, row, key=lambda chunk: chunk.start) - 1]

    def compact(self) -> None:
        """Keep only numbers of batches that are acknowledged, where a chunk has many."""
        remaining: list[ChunkRows] = []
        for place, chunk in enumerate(self._uncompacted):
            if chunk.is_mostly_pending:  # and so are those behind it, as a rule
                remaining += self._uncompacted[place:]
                break
            if not chunk.compact():
                remaining.append(chunk)
        self._uncompacted = remaining

    def batches(self) -> Iterator[BatchRows]:
        """The batches that are kept."""
        return (piece for chunk in self.all for piece in chunk.content.batches)

    def leaves(self) -> Iterator[Leaf]:
        """The kept batches, or their parts if they were split."""
        return (leaf for chunk in self.all for leaf in chunk.content.leaves())
