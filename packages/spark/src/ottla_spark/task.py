"""What a task does with its rows: send them, and wait until brokers have acknowledged every one.

The same for a batch write and for a micro-batch of a stream, and at least once for both: a task that Spark runs
again sends everything again.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from ottla import DeliveryFailed, OttlaError, Producer, UndeliveredError
from ottla_spark import producers
from ottla_spark.columns import ColumnPositions
from ottla_spark.errors import WriteFailed
from ottla_spark.options import WriteOptions
from ottla_spark.rows import RowPlace, send_rows


@attrs.frozen(kw_only=True)
class TaskWritten(WriterCommitMessage):
    """What one task sent and brokers acknowledged; `bytes` counts keys and values."""

    records: int
    bytes: int


def write_rows(batches: Iterator[pa.RecordBatch], *, options: WriteOptions, columns: ColumnPositions) -> TaskWritten:
    """Send all rows and wait for them. Raises WriteFailed."""
    task = task_name()
    try:
        return _write(batches, options, columns, task=task)
    except BaseException:
        producers.give_up(options.producer)
        raise


def task_name() -> str:
    """The task as people find it in Spark's UI."""
    context = TaskContext.get()
    return f"Spark partition {context.partitionId()}" if context is not None else "the task"


def _write(
    batches: Iterator[pa.RecordBatch], options: WriteOptions, columns: ColumnPositions, *, task: str
) -> TaskWritten:
    records = size = 0
    for batch in batches:
        if batch.num_rows:
            producer = producers.shared(options.producer)
            place = RowPlace(task=task, rows_before=records)
            sent = send_rows(producer, batch, columns, topic=options.topic, place=place)
            records, size = records + sent.records, size + sent.bytes
    if records:
        _wait_for_all(producers.shared(options.producer), records, task=task)
    return TaskWritten(records=records, bytes=size)


def _wait_for_all(producer: Producer, records: int, *, task: str) -> None:
    try:
        report = producer.flush()
    except UndeliveredError as error:
        raise WriteFailed(_undelivered(error, records, task=task)) from error
    except OttlaError as error:
        raise WriteFailed(f"{task}: its {records} records could not all be sent: {error}") from error
    if report.acknowledged != records:
        raise WriteFailed(f"{task}: {records} records were sent, but the producer's account is: {report}")


def _undelivered(error: UndeliveredError, records: int, *, task: str) -> str:
    counts = ", ".join(
        f"{topic.failed} for topic {name!r} ({topic.possibly_persisted} of them possibly in Kafka)"
        for name, topic in error.report.topics.items()
        if topic.failed
    )
    first = error.__cause__
    where = f" topic {first.topic!r}, partition {first.partition}:" if isinstance(first, DeliveryFailed) else ""
    return f"{task}: of {records} records these failed: {counts}; the first:{where} {first or error}"
