"""Sealed batches of rows: the first stage makes them, and Spark's shuffle moves them to the owners of their partitions.

A shuffle of plain rows would convert each row twice between Java and Arrow, and its receiver would have to encode and
compress them. So the first stage encodes the batches that a producer would send, and Spark shuffles those: a *sealed
row* holds one batch. Owners only assign sequence numbers and send the batches. The first stage also finds invalid rows,
while their position in the frame is still known.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import attrs
import pyarrow as pa

from ottla import DeliveryError, InvalidRecordError
from ottla.errors.secret import Secret
from ottla.protocol.binary_arrays import binary_array, numbers
from ottla.recordbatch.sealed_records import SealedBatch, SealedRecords
from ottla.tables.sealed import TableSealer
from ottla_spark.atomic.partition_assignment import PartitionAssignment
from ottla_spark.errors import WriteError
from ottla_spark.options.shipped_files import with_shipped_files
from ottla_spark.options.write_options import WriteOptions
from ottla_spark.sink.columns import ColumnPositions
from ottla_spark.sink.records import RowPlace, topic_rows
from ottla_spark.sink.refused_rows import RefusedRows
from ottla_spark.sink.row_buffer import RowBuffer, TopicTable
from ottla_spark.sink.task import task_name
from ottla_spark.worker.tcp_quickack import with_tcp_quickack

SCHEMA: Final = pa.schema(
    [
        ("owner", pa.int32()),
        ("slot", pa.int32()),
        ("records", pa.int32()),
        ("first_timestamp", pa.int64()),
        ("max_timestamp", pa.int64()),
        ("magic", pa.int8()),
        ("codec", pa.int8()),
        ("plain_size", pa.int64()),
        ("content", pa.binary()),
    ]
)

SPARK_SCHEMA: Final = (
    "owner int, slot int, records int, first_timestamp bigint, max_timestamp bigint, magic tinyint, codec tinyint, "
    "plain_size bigint, content binary"
)
"""The same schema for Spark: the first stage's output."""

SEALED_BATCH_BYTES: Final = 480 * 1024
"""Maximum bytes in a batch before compression: Java handles values of half a megabyte slowly."""

Settings = frozenset[tuple[str, Any]]


@attrs.frozen(kw_only=True)
class RowSealing:
    """Seals the rows of a task. Spark pickles this object and sends it to the executors.

    `columns` are positions in the rows. `settings` are those of the producer that sends the batches. `max_bytes` limits
    a batch before compression.
    """

    settings: Settings = attrs.field(repr=False)
    assignment: PartitionAssignment
    options: WriteOptions
    columns: ColumnPositions
    max_bytes: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Seal rows for `mapInArrow`. Raises WriteError, which names a row that cannot be sent."""
        self.options.check_version()
        return self.seal(with_tcp_quickack(batches), task=task_name())

    def seal(self, batches: Iterator[pa.RecordBatch], *, task: str) -> Iterator[pa.RecordBatch]:
        """Yield the sealed rows of all rows; those of a partition keep the order of its rows."""
        sealer = _Sealer(_sealer(Secret(self.settings), self.assignment.topics, self.max_bytes))
        refused = RefusedRows(self.options.tolerance, task=task)
        row_buffer = RowBuffer(sealer.seal, refused)
        known = dict(self.assignment.topics)
        rows = 0
        for batch in batches:
            if not batch.num_rows:
                continue
            place = RowPlace(task=task, rows_before=rows)
            _valid, by_topic = topic_rows(batch, self.columns, options=self.options, place=place, refused=refused)
            for found in by_topic:
                if found.topic not in known:
                    raise _unknown(found.topic, known)
                row_buffer.put(found, place)
            row_buffer.send_many_dead_letters()
            rows += batch.num_rows
            yield from sealer.take(self.assignment)
        row_buffer.send_all()
        yield from sealer.take(self.assignment)
        if sealer.records != rows:
            raise WriteError(f"{task}: {rows} rows were read, but the sealed batches have {sealer.records} records")
        refused.log(rows)


def sealed_batches(batch: pa.RecordBatch, assignment: PartitionAssignment) -> Iterator[SealedBatch]:
    """Yield the batches of sealed rows. Each holds a copy of its bytes, so a queued batch keeps no other in memory."""
    slots = batch.column(SCHEMA.get_field_index("slot")).to_pylist()
    for number, (topic, partition) in enumerate(assignment.places(slots)):
        [row] = batch.slice(number, 1).to_pylist()
        sealed = SealedRecords(
            magic=row["magic"],
            codec_id=row["codec"],
            chunks=[row["content"]],
            first_timestamp=row["first_timestamp"],
            max_timestamp=row["max_timestamp"],
            count=row["records"],
            size=len(row["content"]),
            plain_size=row["plain_size"],
        )
        yield SealedBatch(topic=topic, partition=partition, sealed=sealed)


class _Sealer:
    """Seal tables, and keep their batches until they are taken."""

    def __init__(self, sealer: TableSealer) -> None:
        self._sealer = sealer
        self._batches: list[SealedBatch] = []
        self.records = 0

    def seal(self, table: TopicTable) -> Mapping[int, DeliveryError]:
        sealed = self._sealer.seal(table.topic, table.table, **table.parts)
        for row, error in sealed.refused.items():
            if not isinstance(error.__cause__, InvalidRecordError):  # not the row's fault, but the codec's
                raise WriteError(f"{table.names(row)}: {error}") from error
        self._batches += sealed.batches
        self.records += sum(batch.sealed.count for batch in sealed.batches)
        return sealed.refused

    def take(self, assignment: PartitionAssignment) -> Iterator[pa.RecordBatch]:
        """Yield the sealed batches for the shuffle as one Arrow batch, if there are any, and forget them."""
        taken, self._batches = self._batches, []
        if taken:
            yield _sealed_rows(taken, assignment)


def _sealed_rows(batches: Sequence[SealedBatch], assignment: PartitionAssignment) -> pa.RecordBatch:
    sealed = [batch.sealed for batch in batches]
    first_slots = assignment.first_slots()
    slots = [first_slots[batch.topic] + batch.partition for batch in batches]
    columns: Mapping[str, Sequence[int]] = {
        "owner": [slot % assignment.owners for slot in slots],
        "slot": slots,
        "records": [each.count for each in sealed],
        "first_timestamp": [each.first_timestamp for each in sealed],
        "max_timestamp": [each.max_timestamp for each in sealed],
        "magic": [each.magic for each in sealed],
        "codec": [each.codec_id for each in sealed],
        "plain_size": [each.plain_size for each in sealed],
    }
    arrays = [numbers(values, SCHEMA.field(name).type) for name, values in columns.items()]
    content = binary_array([b"".join(each.chunks) for each in sealed])
    return pa.RecordBatch.from_arrays([*arrays, content], schema=SCHEMA)


def _unknown(topic: str, known: Mapping[str, int]) -> WriteError:
    return WriteError(
        f"a row names topic {topic!r}, but topics= names only {', '.join(map(repr, known))}; name every topic there"
    )


@functools.lru_cache(maxsize=4)
def _sealer(settings: Secret[Settings], topics: tuple[tuple[str, int], ...], max_bytes: int) -> TableSealer:
    """Return the worker's sealer for all batches of a query; its partitioner keeps its state between them."""
    return TableSealer(with_shipped_files(dict(settings.reveal())), dict(topics), max_bytes=max_bytes)
