"""The exactly-once writer of a stream; Spark calls plan, write, commit and abort, each in its own process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

import attrs
import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from ottla_spark.exactly_once.driver.commit import Attempt, abort_prepared, commit
from ottla_spark.exactly_once.driver.plan import plan
from ottla_spark.exactly_once.kafka.client_cache import connected
from ottla_spark.exactly_once.kafka.cluster_client import KafkaClusterClient
from ottla_spark.exactly_once.settings import Settings, read_settings
from ottla_spark.exactly_once.task import BatchName, TaskPlan, batch_of_stream, write_task
from ottla_spark.options.options import WriteOptions
from ottla_spark.write.columns import ColumnPositions
from ottla_spark.write.report import publish_report
from ottla_spark.write.task import TaskWritten


@attrs.frozen(kw_only=True)
class TaskPrepared(WriterCommitMessage):
    """A task's result, for the commit."""

    attempt: Attempt
    written: TaskWritten


def stream_writer(options: WriteOptions, columns: ColumnPositions) -> ExactlyOnceWriter:
    """Create the writer of one micro-batch. Raises InvalidWriteError."""
    return ExactlyOnceWriter(read_settings(options), options, columns)


class PlannedWriter:
    """Base of the writers of streams and of jobs: planned once; tasks leave their transactions prepared for `commit`.

    Spark creates it several times for every batch. Only the planner pickles it, once and before all tasks.
    """

    def __init__(self, settings: Settings, options: WriteOptions, columns: ColumnPositions) -> None:
        self._settings = settings
        self._options = options
        self._columns = columns
        self._orders: TaskPlan | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Plan the batch when Spark pickles the writer for the tasks."""
        if self._orders is None:
            with self.cluster() as cluster:
                self._orders = planned(cluster, self._settings)
        return self.__dict__

    def cluster(self) -> AbstractContextManager[KafkaClusterClient]:
        """The cluster client for decisions about the batch."""
        return connected(self._settings)

    def prepare(self, rows: Iterator[pa.RecordBatch], of: BatchName) -> TaskPrepared:
        """Write a task's rows in a prepared transaction."""
        assert self._orders is not None, "tasks get a writer that the planner has pickled, with its plan"
        attempt, written = write_task(
            rows, self._orders, of=of, settings=self._settings, options=self._options, columns=self._columns
        )
        return TaskPrepared(attempt=attempt, written=written)

    def make_visible(self, messages: Sequence[WriterCommitMessage | None], *, batch: int, what: str) -> None:
        """Commit the tasks' transactions, and report the result. Blocks until all rows are visible, or raises."""
        with self.cluster() as cluster:
            commit(cluster, [each for each in attempts(messages) if each is not None], batch=batch)
        publish_report(what, task_results(messages), wanted=self._options.report)

    def take_back(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Abort the transactions of the successful tasks, unless `commit` was called."""
        with self.cluster() as cluster:
            abort_prepared(cluster, attempts(messages))


class ExactlyOnceWriter(PlannedWriter, DataSourceStreamArrowWriter):
    """The writer of one micro-batch."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskPrepared:
        """Write a task's rows in a prepared transaction. Raises WriteError or LedgerMismatchError."""
        return self.prepare(iterator, batch_of_stream())

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Make the micro-batch visible. Raises BatchNotCommittedError, BatchIncompleteError or LeaseLostError."""
        self.make_visible(messages, batch=batchId, what=f"micro-batch {batchId}")

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Abort the prepared transactions, unless `commit` was called."""
        self.take_back(messages)


def planned(cluster: KafkaClusterClient, settings: Settings) -> TaskPlan:
    """Take the lease, finish or void the recorded batch, and return the plan for the tasks."""
    timeout_ms = cluster.timeout_ms()
    return TaskPlan(plan=plan(cluster, settings.name), timeout_ms=timeout_ms)


def attempts(messages: Sequence[WriterCommitMessage | None]) -> list[Attempt | None]:
    """Return the attempts of the tasks; None where one failed."""
    return [message.attempt if isinstance(message, TaskPrepared) else None for message in messages]


def task_results(messages: Sequence[WriterCommitMessage | None]) -> list[TaskWritten]:
    """Return the results of the tasks for a report; they count no records if the batch was in the ledger already."""
    return [message.written for message in messages if isinstance(message, TaskPrepared)]
