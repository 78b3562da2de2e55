"""The work of one task: join the batch's transaction, write its rows, and check that no other task wrote them.

A task never sends rows twice: it refuses to run as a second attempt, and when another task has written to its
partitions in this epoch. When Spark runs a stage again, its attempts start at 0 again. Brokers acknowledge and drop a
batch whose sequence numbers they already have; the offset in that response is from before this task began. If the other
task's records were not replicated when this one began, the offset does not show it, and only the driver notices the
second attempt of the stage.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import attrs
import pyarrow as pa
from pyspark import TaskContext

from ottla import OttlaError, Producer, TableDelivery
from ottla.config import as_written
from ottla.protocol.binary_arrays import numbers
from ottla.recordbatch.sealed_records import SealedBatch
from ottla.transactions import SharedTransaction, end_offsets
from ottla_spark.atomic.errors import TaskRefusedError
from ottla_spark.atomic.partition_assignment import PartitionAssignment
from ottla_spark.atomic.sealed_rows import sealed_batches
from ottla_spark.errors import WriteError
from ottla_spark.options.shipped_files import with_shipped_files
from ottla_spark.options.write_options import WriteOptions
from ottla_spark.sink.in_flight import InFlightTables
from ottla_spark.worker import producer_cache
from ottla_spark.worker.garbage_collection import reduce_collection
from ottla_spark.worker.tcp_quickack import with_tcp_quickack
from ottla_spark.worker.traces import task_span

TRANSACTIONAL_ID: Final = "transactional.id"

RESULT: Final = "owner int, records bigint"
"""Schema of a task's output, which is one row."""


@attrs.frozen(kw_only=True)
class TaskWrite:
    """Writes the rows of one task. Spark sends it to the executors by pickle."""

    shared: SharedTransaction
    assignment: PartitionAssignment
    options: WriteOptions

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write sealed_rows, for `mapInArrow`. Raises WriteError or TaskRefusedError."""
        self.options.check_version()
        reduce_collection()
        context = TaskContext.get()
        assert context is not None, "only Spark's tasks call this"
        records = self.write(with_tcp_quickack(batches), owner=context.partitionId(), attempt=context.attemptNumber())
        yield pa.RecordBatch.from_arrays(
            [numbers([context.partitionId()], pa.int32()), numbers([records], pa.int64())], ["owner", "records"]
        )

    def write(self, sealed_rows: Iterator[pa.RecordBatch], *, owner: int, attempt: int) -> int:
        """Send the batches that `RowSealing` sealed, and return the number of their records."""
        if attempt:
            raise TaskRefusedError(
                f"this is attempt {attempt} of task {owner}, and an earlier attempt may have written records: the "
                "whole batch is aborted and run again"
            )
        settings = as_written({**self.options.producer, TRANSACTIONAL_ID: self.shared.transactional_id})
        with (
            task_span(self.options.trace, topic=self.options.topic),
            producer_cache.BorrowedProducer(settings, idle=self.options.idle) as borrowed,
        ):
            return self._write(sealed_rows, borrowed, owner=owner)

    def _write(
        self, sealed_rows: Iterator[pa.RecordBatch], borrowed: producer_cache.BorrowedProducer, *, owner: int
    ) -> int:
        task = f"owner {owner} of {self.assignment.owners}"
        in_flight = InFlightTables(task=task)
        ends: Mapping[tuple[str, int], int] | None = None
        records = 0
        for some in sealed_rows:
            if not some.num_rows:
                continue
            self._check_owner(some, owner)
            if ends is None:
                settings = with_shipped_files(self.options.producer)
                ends = end_offsets(settings, self.assignment.owned_by(owner))
                borrowed.producer().join_transaction(self.shared)
            for batch in sealed_batches(some, self.assignment):
                in_flight.put(_sent(borrowed.producer(), batch, task=task), _Names(batch.sealed.count))
                records += batch.sealed.count
            in_flight.check_completed()
        if ends is None:
            return 0
        in_flight.wait()
        if in_flight.records != records:
            raise WriteError(f"{task}: {records} records were sent, but {in_flight.records} were acknowledged")
        _leave(borrowed.producer(), task=task)
        self._check_first_offsets(in_flight, ends, task=task)
        return records

    def _check_owner(self, sealed_rows: pa.RecordBatch, owner: int) -> None:
        if any(slot % self.assignment.owners != owner for slot in sealed_rows.column("slot").to_pylist()):
            raise TaskRefusedError(
                f"task {owner} got rows of partitions that another task owns: Spark changed the shuffle of "
                "repartitionById; look for an optimizer rule or an option that changes shuffles"
            )

    def _check_first_offsets(
        self, in_flight: InFlightTables, ends: Mapping[tuple[str, int], int], *, task: str
    ) -> None:
        """Raise TaskRefusedError if a broker treated this task's records as duplicates of another task's."""
        for (topic, partition), first in in_flight.first_offsets.items():
            if first < ends[topic, partition]:
                raise TaskRefusedError(
                    f"{task}: {topic}-{partition} ended at offset {ends[topic, partition]} before this task wrote, but "
                    f"a record of this task was acknowledged at offset {first}: another attempt of the task wrote it; "
                    "the whole batch is aborted and run again"
                )


@attrs.frozen
class _Names:
    """Names for the rows of a batch, which have no names after the shuffle."""

    count: int

    def __call__(self, row: int) -> str:
        return f"record {row + 1} of a batch of {self.count}"


def _sent(producer: Producer, batch: SealedBatch, *, task: str) -> TableDelivery:
    try:
        return producer.send_sealed(batch)
    except OttlaError as error:
        raise WriteError(
            f"{task}: a batch of {batch.sealed.count} records and the later batches for topic {batch.topic!r} cannot "
            f"be sent: {error}"
        ) from error


def _leave(producer: Producer, *, task: str) -> None:
    try:
        producer.leave_transaction()
    except OttlaError as error:
        raise WriteError(f"{task}: {error}") from error
