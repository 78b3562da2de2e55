"""Record encoders: the columns of open batches, and their encoded records."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import attrs

from ottla.interfaces.partitioner import Partitioner
from ottla.interfaces.records import Buffer, Header


class ColumnsKind(enum.Enum):
    """The source of a batch's columns: `send`, one record at a time, or `send_table`, from Arrow."""

    OBJECTS = "objects"
    ARROW = "arrow"


@attrs.frozen(kw_only=True)
class Encoded:
    """The records of a batch, before compression: a records section in format v2, a message set in v0 and v1.

    `first_timestamp` is the base of v2's deltas; both timestamps are -1 in v0, which has none.
    """

    chunks: Sequence[Buffer]
    first_timestamp: int
    max_timestamp: int
    count: int


class Facts(NamedTuple):
    """Timestamps of a batch's records, and the sizes of their keys and values, -1 for null; None: no keys at all."""

    timestamps_ms: Sequence[int]
    key_sizes: Sequence[int] | None
    value_sizes: Sequence[int]


@runtime_checkable
class Columns(Protocol):
    """The records of one open batch, kept as columns until it is sealed. `append` and `allow` never run at once.

    Optional abilities, for the encoders that are released with the core. The first three come together:

    - `put(...)`, an `append` for any thread that takes a callback, see `ProducerBatch.append`;
    - `lock`, which `put` holds meanwhile;
    - `take_callbacks(given)`, the callbacks that `put` has stored and those *given*, in order, as pairs with their
      index;
    - `run_callbacks(...)`, which runs the callbacks of an acknowledged batch, see `ProducerBatch`.
    """

    def append(
        self, key: bytes | None, value: bytes | None, headers: Sequence[Header], timestamp_ms: int
    ) -> int | None:
        """Append a record and return its index in the batch; None: no room. An empty batch takes any record."""

    def allow(self, memory: int) -> None:
        """Let the records occupy up to *memory* bytes from now on."""

    def close(self) -> None:
        """Take no more records: `append` returns None from now on, whatever `allow` allows. There is one at least."""

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

    Optional ability: `SupportsClose`. Others depend on the core's own classes, so that only `ottla-accel`, which is
    released with the core, has them: `SupportsQuickSend`, `SupportsCutRows`, `SupportsMurmur2Partitions`,
    `SupportsJsonRows`.
    """

    priority: int
    record_cost: int
    """Bytes that a record in its columns occupies besides its own; it takes up to 20 of them on the wire, too."""

    def columns(self, kind: ColumnsKind, limit: int) -> Columns | None:
        """Return columns whose records may occupy *limit* bytes of memory at first; None: this kind is not taken."""


class SupportsQuickSend(Protocol):
    """An optional ability of encoders: a `Producer.send` of its own for records that fit into an open batch."""

    def quick_send(self, producer: Any, *, routes: dict[str, Any], partitioner: Partitioner) -> Callable[..., Any]:
        """Return `send` of this producer, without a reference that keeps the producer alive."""


class SupportsCutRows(Protocol):
    """An optional ability of encoders: cut a table's rows into encoded batches."""

    def cut_rows(self, rows: Any, partitions: Any | None, *, max_bytes: int) -> Iterator[Any]:
        """Like `ottla.recordbatch.arrow.cut_rows`."""


class SupportsMurmur2Partitions(Protocol):
    """An optional ability of encoders: Java's partitions for a column of keys."""

    def murmur2_partitions(self, keys: Any, partitions: int) -> Any:
        """Like `ottla.plugins.partitioners.murmur2_arrow.murmur2_partitions`."""


class SupportsJsonRows(Protocol):
    """An optional ability of encoders: JSON objects of Arrow columns."""

    def json_rows(
        self, names: Sequence[str], columns: Sequence[Any], *, count: int, text: Callable[[Any], tuple[Any, str]]
    ) -> tuple[Any, Any]:
        """Return the offsets and the bytes of *count* objects with these fields, without null ones.

        For a column of an unsupported type it calls *text*, which returns a string column and the quotes for its cells.
        """
