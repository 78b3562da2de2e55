"""Columns that were encoded as a whole: of rows that an encoder cuts into batches, and of batches sealed elsewhere."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from ottla.interfaces import Buffer, Columns, Encoded, Facts, Header
from ottla.recordbatch.down_conversion import down_converted
from ottla.recordbatch.header_v2 import MAGIC
from ottla.recordbatch.number_columns import Constant
from ottla.recordbatch.sealed_records import SealedRecords, finish


class FinishedColumns:
    """A records section that was encoded as a whole, and takes no more records."""

    __slots__ = ("_count", "_facts", "_first", "_highest", "_section", "_size")

    def __init__(
        self, section: Buffer, *, count: int, first_timestamp: int, highest_timestamp: int, facts: Facts
    ) -> None:
        self._section: Buffer | None = section
        self._size = len(section)
        self._count = count
        self._first, self._highest = first_timestamp, highest_timestamp
        self._facts = facts

    def append(
        self, key: bytes | None, value: bytes | None, headers: Sequence[Header], timestamp_ms: int
    ) -> int | None:
        """Return None, because the columns are finished and take no more records."""

    def allow(self, memory: int) -> None:
        """Do nothing: the columns are finished."""

    def close(self) -> None:
        """Do nothing: the columns are closed from the beginning."""

    def memory(self) -> int:
        """The memory of the records: their bytes, and their times and sizes."""
        return self._size + self._count * 16

    def __len__(self) -> int:
        return self._count

    def size_estimate(self) -> int:
        """The exact size of the records section."""
        return self._size

    def encode(self, magic: int) -> Encoded:
        """Return the section and drop it, so call this once. For a format before v2, its records are encoded again."""
        assert self._section is not None, "encoded once"
        encoded = Encoded(
            chunks=[self._section], first_timestamp=self._first, max_timestamp=self._highest, count=self._count
        )
        if magic < MAGIC:
            older = down_converted(finish(encoded, magic=MAGIC, compressor=None), magic=magic, compressors={})
            encoded = attrs.evolve(
                encoded,
                chunks=older.chunks,
                first_timestamp=older.first_timestamp,
                max_timestamp=older.max_timestamp,
            )
        self._section = None
        return encoded

    def extend(self, other: Columns, indexes: Sequence[int]) -> int:
        """Return 0, because the columns are finished and take no more records."""
        return 0

    def keys(self) -> Sequence[bytes | None]:
        """Raise NotImplementedError: keys are only read to choose partitions, which these rows have."""
        raise NotImplementedError("the rows of finished columns have their partitions already")

    def release(self) -> None:
        """Drop the records."""
        self._section = None

    def facts(self) -> Facts:
        """The times and sizes of all records."""
        return self._facts


def refused_columns(count: int) -> FinishedColumns:
    """Columns without content, for rows that are refused before they are encoded."""
    nothing = Constant(0, count)
    return FinishedColumns(
        b"", count=count, first_timestamp=0, highest_timestamp=0, facts=Facts(nothing, None, nothing)
    )


def sealed_columns(sealed: SealedRecords) -> FinishedColumns:
    """Columns of records that were sealed elsewhere; times and sizes of single records are unknown, so they are -1."""
    unknown = Constant(-1, sealed.count)
    return FinishedColumns(
        b"",
        count=sealed.count,
        first_timestamp=sealed.first_timestamp,
        highest_timestamp=sealed.max_timestamp,
        facts=Facts(unknown, None, unknown),
    )
