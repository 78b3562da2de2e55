"""One batch write: what a task does, and what is said at the end of the job.

A task returns only when brokers have acknowledged every record it sent. That is at least once: a task that
Spark runs again sends everything again, and neither `commit` nor `abort` can take a record back.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

import attrs
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from ottla import DeliveryFailed, OttlaError, Producer, UndeliveredError
from ottla_spark import producers
from ottla_spark.columns import ColumnPositions
from ottla_spark.errors import WriteFailed
from ottla_spark.options import WriteOptions
from ottla_spark.rows import RowPlace, send_rows

_log = logging.getLogger(__name__)


@attrs.frozen(kw_only=True)
class TaskWritten(WriterCommitMessage):
    """What one task sent and brokers acknowledged; `bytes` counts keys and values."""

    records: int
    bytes: int


class OttlaWriter(DataSourceArrowWriter):
    """Made on the driver and pickled to the tasks: connects nowhere until the first row."""

    def __init__(self, options: WriteOptions, columns: ColumnPositions) -> None:
        self._options = options
        self._columns = columns

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskWritten:
        """Send a task's rows and wait for all of them. Raises WriteFailed."""
        try:
            return self._write(iterator, task=_task())
        except BaseException:
            producers.give_up(self._options.producer)
            raise

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Every task is through and every record acknowledged: there is nothing left to do."""
        written = [message for message in messages if isinstance(message, TaskWritten)]
        _log.info(
            "%d records, %d bytes, acknowledged in %d tasks",
            sum(message.records for message in written),
            sum(message.bytes for message in written),
            len(written),
        )

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Say that records may be in Kafka all the same; they cannot be taken back."""
        _log.warning("the write failed; records that its tasks had sent until then are in Kafka and stay there")

    def _write(self, batches: Iterator[pa.RecordBatch], *, task: str) -> TaskWritten:
        options = self._options
        records = size = 0
        for batch in batches:
            if batch.num_rows:
                producer = producers.shared(options.producer)
                place = RowPlace(task=task, rows_before=records)
                sent = send_rows(producer, batch, self._columns, topic=options.topic, place=place)
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


def _task() -> str:
    context = TaskContext.get()
    return f"Spark partition {context.partitionId()}" if context is not None else "the task"
