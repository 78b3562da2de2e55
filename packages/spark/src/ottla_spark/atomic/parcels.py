"""Rows on their way to the owners of their partitions: many rows as one value, so that Spark moves few large ones.

A shuffle that moves the rows themselves would take each apart and together again, in Java and in Arrow, twice. So the
first stage finds every row's partition, sorts some megabytes of rows by owner, and packs what one owner gets into an
Arrow stream, its *parcel*. What may be wrong with a row is found here, where it still has its place in the frame.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from ottla_spark.atomic.ownership import Ownership, Placement
from ottla_spark.columns import ColumnPositions
from ottla_spark.options import WriteOptions
from ottla_spark.prompt_rows import promptly
from ottla_spark.records import RowPlace, records_of
from ottla_spark.task import task_name

SLOT: Final = "partition"
"""The column that has each row's slot on the way through the shuffle, and its partition in the end."""

PARCELS: Final = "owner int, rows binary"
"""What the first stage makes of the frame."""

PARCEL_BYTES: Final = 512 * 1024
"""About so much is in a parcel, before it is compressed: Java has a long way round for values of a megabyte."""

PACKED_BYTES: Final = 8 * 1024 * 1024
"""So much is sorted at once at most; with very many owners their parcels are smaller."""


_COMPRESSED: Final = pa.ipc.IpcWriteOptions(compression="lz4")
"""Spark copies a parcel six times and would compress it itself, more slowly."""


@attrs.frozen(kw_only=True)
class Packing:
    """Packs the rows of a task, `most` bytes at a time. Pickled to the executors; `columns` are places in its rows."""

    placement: Placement
    options: WriteOptions
    columns: ColumnPositions
    most: int

    @classmethod
    def of(cls, placement: Placement, *, options: WriteOptions, columns: ColumnPositions) -> Packing:
        """With parcels of a good size."""
        most = min(PACKED_BYTES, PARCEL_BYTES * placement.ownership.owners)
        return cls(placement=placement, options=options, columns=columns, most=most)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """For `mapInArrow`. Raises WriteFailed, which names a row that cannot be sent."""
        return self.pack(promptly(batches), task=task_name())

    def pack(self, batches: Iterator[pa.RecordBatch], *, task: str) -> Iterator[pa.RecordBatch]:
        """The parcels of all rows."""
        gathered: list[pa.RecordBatch] = []
        rows = size = 0
        for batch in batches:
            if not batch.num_rows:
                continue
            place = RowPlace(task=task, rows_before=rows)
            records = records_of(batch, self.columns, place=place, value_format=self.options.value_format)
            gathered.append(self._slotted(records))
            rows += batch.num_rows
            size += records.nbytes
            if size >= self.most:
                yield packed(gathered, self.placement.ownership)
                gathered, size = [], 0
        if gathered:
            yield packed(gathered, self.placement.ownership)

    def _slotted(self, records: pa.RecordBatch) -> pa.RecordBatch:
        found: Mapping[str, Any] = dict(zip(records.schema.names, records.columns, strict=True))
        slots = self.placement.slots(
            keys=_as_bytes(found["key"]) if "key" in found else pa.nulls(records.num_rows, pa.binary()),
            given=found.get(SLOT, pa.nulls(records.num_rows, pa.int32())),
            topics=found["topic"] if self.options.topic is None else self.options.topic,
        )
        rest = {name: column for name, column in found.items() if name != SLOT}
        return pa.RecordBatch.from_arrays([*rest.values(), slots], names=[*rest, SLOT])


def packed(gathered: Sequence[pa.RecordBatch], ownership: Ownership) -> pa.RecordBatch:
    """A parcel for each owner of these rows, which stay in their order within a partition."""
    table = pa.Table.from_batches(gathered).combine_chunks()
    slots = table.column(SLOT).combine_chunks()
    owners = owners_of(slots, ownership)
    order = pc.array_sort_indices(owners)  # stable
    runs = pc.run_end_encode(owners.take(order))
    [rows] = table.take(order).combine_chunks().to_batches()
    return pa.RecordBatch.from_arrays([runs.values, _streams(rows, runs.run_ends.to_pylist())], ["owner", "rows"])


def unpacked(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The rows of all parcels in a batch, not copied."""
    for parcel in batch.column(batch.schema.get_field_index("rows")):
        yield from pa.ipc.open_stream(parcel.as_buffer())


def owners_of(slots: Any, ownership: Ownership) -> Any:
    """The owner of each slot."""
    return pc.subtract(slots, pc.multiply(pc.divide(slots, ownership.owners), ownership.owners)).cast(pa.int32())


def _streams(rows: pa.RecordBatch, run_ends: Sequence[int]) -> pa.Array:
    """Each run of rows as a stream; all of them in one buffer, where each begins at a multiple of 8 bytes."""
    sink, places, start = pa.BufferOutputStream(), [0], 0
    for end in run_ends:
        with pa.ipc.new_stream(sink, rows.schema, options=_COMPRESSED) as writer:
            writer.write_batch(rows.slice(start, end - start))
        places.append(sink.tell())
        start = end
    offsets = pa.array(places, pa.int32())
    return pa.Array.from_buffers(pa.binary(), len(run_ends), [None, offsets.buffers()[1], sink.getvalue()])


def _as_bytes(column: Any) -> Any:
    if pa.types.is_string(column.type):
        return column.view(pa.binary())
    return column.view(pa.large_binary()) if pa.types.is_large_string(column.type) else column
