"""Record encoders: the columns of open batches, and their encoded records."""

from __future__ import annotations

import enum
from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import attrs

from ottla.interfaces.records import Buffer, Header
from ottla.results.value_methods import ValueMethods


class ColumnsKind(enum.Enum):
    """The source of a batch's columns: `send`, one record at a time, or `send_table`, from Arrow."""

    OBJECTS = "objects"
    ARROW = "arrow"


@attrs.define(kw_only=True, eq=False, repr=False)  # frozen takes more than twice as long to make, for each batch
class Encoded(ValueMethods):
    """The records of a batch, before compression: a records section in format v2, a message set in v0 and v1.

    `first_timestamp` is the base of v2's deltas; both timestamps are -1 in v0, which has none.
    """

    chunks: Sequence[Buffer]
    first_timestamp: int
    max_timestamp: int
    count: int


class Facts(NamedTuple):
    """Timestamps of a batch's records, and the sizes of their keys and values, -1 for null.

    `key_sizes` is None if no record has a key.
    """

    timestamps_ms: Sequence[int]
    key_sizes: Sequence[int] | None
    value_sizes: Sequence[int]


@runtime_checkable
class Columns(Protocol):
    """The records of one open batch, kept as columns until it is sealed. `append` and `allow` never run at once.

    Callbacks of records, and the lock that `append` needs, are the core's.
    """

    def append(
        self, key: bytes | None, value: bytes | None, headers: Sequence[Header], timestamp_ms: int
    ) -> int | None:
        """Append a record and return its index, or None if there is no room. An empty batch takes any record."""

    def allow(self, memory: int) -> None:
        """Let the records occupy up to *memory* bytes from now on."""

    def close(self) -> None:
        """Take no more records: `append` returns None from now on, also after `allow`. There is at least one record."""

    def memory(self) -> int:
        """The bytes that the records occupy until they are encoded, objects included; never less than on the wire."""

    def __len__(self) -> int:
        """The number of records; also after `encode`."""

    def size_estimate(self) -> int:
        """An upper bound of the encoded records section, in bytes."""

    def encode(self, magic: int) -> Encoded:
        """Encode all records in one pass, in record format 0, 1 or 2, and release them; called without a lock.

        Raises UnsupportedVersionError for records that the format cannot hold; then they are not released.
        """

    def extend(self, other: Columns, indexes: Sequence[int]) -> int:
        """Append these records of other columns of the same encoder while there is room; return how many fit.

        The indexes ascend.
        """

    def keys(self) -> Sequence[bytes | None]:
        """The keys of all records, before `encode`."""

    def release(self) -> None:
        """Release the records, which `extend` has copied to other columns; `len` still returns their number."""

    def facts(self) -> Facts:
        """The timestamps and sizes for the metadata of delivered records; also after `encode`."""


@runtime_checkable
class RecordEncoder(Protocol):
    """Makes the columns of batches. Of those released with the core the highest `priority` that takes the kind wins.

    Optional abilities: `SupportsCutRows`, `SupportsMurmur2Partitions`, `SupportsJsonRows`, `SupportsClose`.
    """

    priority: int
    record_cost: int
    """Bytes that a record in its columns occupies besides its own; it takes up to 20 of them on the wire, too."""

    def columns(self, kind: ColumnsKind, limit: int) -> Columns | None:
        """Return columns whose records may occupy *limit* bytes of memory at first, or None if it lacks this kind."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class TableRows(ValueMethods):
    """Rows of a table: `pyarrow.Array`s of `count` rows, which may be slices with an offset.

    `keys` and `values` are of type binary or large_binary, or None if they are null in every row. `headers` are of
    these types, too, without nulls, or None if no record has headers: each is the end of an encoded record in format
    v2, from the number of its headers on. `timestamps` are int64 in ms without nulls, or None if all records have the
    time `now_ms`.
    """

    count: int
    now_ms: int
    keys: Any | None = None
    values: Any | None = None
    headers: Any | None = None
    timestamps: Any | None = None


class Cut(NamedTuple):
    """One batch of a table's rows: its partition, or -1; the indexes of its rows in order; and their records.

    The columns take no more records, whatever `allow` allows. Their `encode` may be called by another thread.
    """

    partition: int
    rows: Sequence[int]
    columns: Columns


class SupportsCutRows(Protocol):
    """An optional ability of encoders: to encode the rows of tables, in place of the core."""

    def cut_rows(self, rows: TableRows, partitions: Any | None, *, max_bytes: int) -> Iterator[Cut]:
        """Yield batches of at most *max_bytes* bytes of records in format v2, or of one row; each row is in one batch.

        *partitions* is a `pyarrow.Array` of int32 without nulls, and rows of a partition stay in order. If it is None,
        the batches have partition -1, and all rows stay in order. The next batch may be requested before the last one
        is encoded.
        """


class SupportsMurmur2Partitions(Protocol):
    """An optional ability of encoders: Java's partitions for a column of keys.

    It is used for tables whose partitioner has `hashes = "murmur2"`.
    """

    def murmur2_partitions(self, keys: Any, partitions: int) -> Buffer | array[int]:
        """Return the partitions of *keys*: a buffer of as many int32 in the machine's byte order.

        *keys* is a `pyarrow.Array` of type binary or large_binary without nulls, and may be a slice with an offset.
        """


class SupportsJsonRows(Protocol):
    """An optional ability of encoders: JSON objects of Arrow columns, for the serializer `json`."""

    def json_rows(
        self, names: Sequence[str], columns: Sequence[Any], *, count: int, text: Callable[[Any], tuple[Any, str]]
    ) -> tuple[Any, Any]:
        """Return *count* objects with these fields, as two buffers: *count* + 1 offsets of int32, and text in UTF-8.

        *columns* are `pyarrow.Array`s of *count* rows, which may be slices with an offset. A field that is null is left
        out. For a column of a type that it does not know it calls *text*, which returns a string column of the JSON of
        each cell, and the quotes that belong around each: they are empty, or `"`.
        """
