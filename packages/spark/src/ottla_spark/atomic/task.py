"""A task's part: it joins the batch's transaction, writes its rows, proves that nobody else did, and leaves.

It never sends twice: an attempt that is not the first refuses, and so does one that finds that another has written
to its partitions in this epoch. A stage that Spark runs again begins with attempt 0 again, and brokers acknowledge
and drop what has the numbers of something they have: then the offset they answer is one from before this task began.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any, Final

import attrs
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext

from ottla import OttlaError, Producer
from ottla.transactions import SharedTransaction, end_offsets
from ottla_spark import producers
from ottla_spark.atomic.errors import TaskRefused
from ottla_spark.atomic.ownership import Ownership
from ottla_spark.atomic.parcels import SLOT, owners_of, unpacked
from ottla_spark.errors import WriteFailed
from ottla_spark.options import WriteOptions
from ottla_spark.outbox import Outbox
from ottla_spark.prompt_rows import promptly
from ottla_spark.records import TOPIC, RowPlace, by_topic
from ottla_spark.shipped_files import with_shipped_files
from ottla_spark.worker_memory import settle_in

TRANSACTIONAL_ID: Final = "transactional.id"

RESULT: Final = "owner int, records bigint"
"""What a task reports: the schema of its one row."""


@attrs.frozen(kw_only=True)
class TaskWrite:
    """Writes the rows of one task. Pickled to the executors."""

    shared: SharedTransaction
    ownership: Ownership
    options: WriteOptions

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """For `mapInArrow`, with parcels. Raises WriteFailed or TaskRefused."""
        settle_in()
        context = TaskContext.get()
        assert context is not None, "Spark runs this"
        rows = chain.from_iterable(map(unpacked, promptly(batches)))
        records = self.write(rows, owner=context.partitionId(), attempt=context.attemptNumber())
        yield pa.RecordBatch.from_arrays(
            [pa.array([context.partitionId()], pa.int32()), pa.array([records], pa.int64())], ["owner", "records"]
        )

    def write(self, batches: Iterator[pa.RecordBatch], *, owner: int, attempt: int) -> int:
        """Write rows as `Packing` made them, and count them."""
        if attempt:
            raise TaskRefused(
                f"this is attempt {attempt} of task {owner}, and the first may have written: the whole batch is "
                "aborted and run again"
            )
        settings = {**self.options.producer, TRANSACTIONAL_ID: self.shared.transactional_id}
        with producers.Borrowed(settings, idle=self.options.idle) as borrowed:
            return self._write(batches, borrowed, owner=owner)

    def _write(self, batches: Iterator[pa.RecordBatch], borrowed: producers.Borrowed, *, owner: int) -> int:
        task = f"owner {owner} of {self.ownership.owners}"
        outbox: Outbox | None = None
        ends: Mapping[tuple[str, int], int] = {}
        rows = 0
        for batch in batches:
            if not batch.num_rows:
                continue
            if outbox is None:
                settings = with_shipped_files(self.options.producer)
                ends = end_offsets(settings, self.ownership.owned_by(owner))
                outbox = Outbox(self._joined(borrowed.producer()), task=task)
            place = RowPlace(task=task, rows_before=rows)
            for found in by_topic(self._placed(batch, owner), topic=self.options.topic):
                outbox.put(found, place)
            rows += batch.num_rows
        if outbox is None:
            return 0
        outbox.send_all()
        outbox.wait()
        _leave(borrowed.producer(), task=task)
        self._prove(outbox, ends, task=task)
        return rows

    def _joined(self, producer: Producer) -> Producer:
        producer.join_transaction(self.shared)
        return producer

    def _placed(self, batch: pa.RecordBatch, owner: int) -> pa.RecordBatch:
        """The batch with each row's partition in place of its slot. Raises TaskRefused for a row of another owner."""
        place = batch.schema.get_field_index(SLOT)
        slots = batch.column(place)
        owners = owners_of(slots, self.ownership)
        if slots.null_count or pc.min_max(owners).as_py() != {"min": owner, "max": owner}:
            raise TaskRefused(
                f"task {owner} was given rows of partitions that belong to another: Spark did not keep "
                "repartitionById as it was asked; look for a plan rule or option that changes shuffles"
            )
        return batch.set_column(place, SLOT, self._partitions(batch, slots))

    def _partitions(self, batch: pa.RecordBatch, slots: Any) -> Any:
        if self.options.topic is not None:
            return slots
        names = batch.column(batch.schema.get_field_index(TOPIC)).dictionary_encode()
        firsts = pa.array([self.ownership.first_slot(name) for name in names.dictionary.to_pylist()], pa.int32())
        return pc.subtract(slots, firsts.take(names.indices))

    def _prove(self, outbox: Outbox, ends: Mapping[tuple[str, int], int], *, task: str) -> None:
        """Raise TaskRefused where a broker has taken this task's records for those of another."""
        for (topic, partition), first in outbox.first_offsets.items():
            if first < ends[topic, partition]:
                raise TaskRefused(
                    f"{task}: {topic}-{partition} ended at {ends[topic, partition]} before this task wrote, and a "
                    f"record of its was acknowledged at {first}: another attempt of it has written; the whole batch "
                    "is aborted and run again"
                )


def _leave(producer: Producer, *, task: str) -> None:
    try:
        producer.leave_transaction()
    except OttlaError as error:
        raise WriteFailed(f"{task}: {error}") from error
