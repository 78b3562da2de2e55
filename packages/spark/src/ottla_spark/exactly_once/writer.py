"""The exactly-once write of one batch: the driver plans it, tasks prepare transactions, and the driver commits them."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

import attrs
import pyarrow as pa

from ottla import OttlaError
from ottla.transactions import PreparedTransaction
from ottla_spark.data_source_api import WriterCommitMessage
from ottla_spark.exactly_once.attempt import Attempt
from ottla_spark.exactly_once.driver.commit import abort_left_open, abort_prepared, abort_superseded, commit
from ottla_spark.exactly_once.driver.plan import plan
from ottla_spark.exactly_once.errors import BatchNotCommittedError, LeaseLostError
from ottla_spark.exactly_once.kafka.client_cache import connected
from ottla_spark.exactly_once.kafka.cluster_client import KafkaClusterClient
from ottla_spark.exactly_once.ledger.entry import Entry, Status
from ottla_spark.exactly_once.settings import Settings
from ottla_spark.exactly_once.task import BatchName, TaskPlan, write_task
from ottla_spark.options.write_options import WriteOptions
from ottla_spark.sink.columns import ColumnPositions
from ottla_spark.sink.job_description import topic_text
from ottla_spark.sink.report import publish_report
from ottla_spark.sink.task_written import TaskWritten
from ottla_spark.sink.topics import check_topics

if TYPE_CHECKING:
    from ottla_spark.sink.running_tasks import RunningTasks

_log = logging.getLogger(__name__)

TASKS_END_WITHIN: Final = 20.0
"""Seconds to wait for the tasks of a failed job. Spark kills a Python worker two to four seconds after the failure."""

READERS_WITHIN: Final = 30.0
"""Seconds to wait until readers see a job's records, which usually takes milliseconds after the commit."""


@attrs.frozen(kw_only=True)
class TaskPrepared(WriterCommitMessage):
    """A task's result, for the commit."""

    attempt: Attempt
    written: TaskWritten

    def to_values(self) -> dict[str, Any]:
        """Return the result as values that JSON can represent."""
        return {"attempt": self.attempt.to_values(), "written": self.written.to_values()}

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> Self:
        """Return the result that `to_values` was called on."""
        return cls(attempt=Attempt.from_values(values["attempt"]), written=TaskWritten.from_values(values["written"]))


class PlannedWriter:
    """Base of all exactly-once writers. `plan` runs once for a batch, on the driver and before its first task."""

    def __init__(self, settings: Settings, options: WriteOptions, columns: ColumnPositions) -> None:
        self._settings = settings
        self._options = options
        self._columns = columns
        self._task_plan: TaskPlan | None = None

    def plan(self) -> None:
        """Take the lease, finish or void the recorded batch, and keep the plan for the tasks; repeating does nothing.

        Then check the topics. Blocks. Raises LedgerMismatchError, DataLossError, BatchIncompleteError and
        InvalidWriteError.
        """
        if self._task_plan is None:
            with self.cluster() as cluster:
                timeout_ms = cluster.timeout_ms()
                task_plan = TaskPlan(plan=plan(cluster, self._settings.name), timeout_ms=timeout_ms)
            # Not before the recorded batch is finished, which needs no topic.
            check_topics(self._options)
            self._task_plan = task_plan

    def last_done(self) -> Entry | None:
        """Return the ledger's last entry by the plan, if its batch is in Kafka."""
        assert self._task_plan is not None, "call plan first"
        last = self._task_plan.plan.last
        return last if last is not None and last.status is Status.DONE else None

    def cluster(self) -> AbstractContextManager[KafkaClusterClient]:
        """The cluster client for decisions about the batch."""
        return connected(self._settings)

    def prepare(self, rows: Iterator[pa.RecordBatch], of: BatchName) -> TaskPrepared:
        """Write a task's rows in a prepared transaction."""
        assert self._task_plan is not None, "tasks get a writer that has a plan"
        attempt, written = write_task(
            rows, self._task_plan, of=of, settings=self._settings, options=self._options, columns=self._columns
        )
        return TaskPrepared(attempt=attempt, written=written)

    def make_visible(self, messages: Sequence[WriterCommitMessage | None], *, batch: int, what: str) -> None:
        """Commit the tasks' transactions, and report the result. Blocks until all rows are visible, or raises."""
        with self.cluster() as cluster:
            commit(cluster, attempts(messages), batch=batch)
        publish_report(what, task_results(messages), wanted=self._options.report)

    def take_back(self, messages: Sequence[WriterCommitMessage | None], *, what: str) -> None:
        """Abort the transactions of the tasks, unless `commit` was called. An error is only logged.

        If no task has succeeded, nothing says which lease they had: the next plan aborts what they left open.
        """
        if any(isinstance(message, TaskPrepared) for message in messages):
            with _logging_failed_aborts(what), self.cluster() as cluster:
                abort_prepared(cluster, attempts(messages))


class BatchWriter(PlannedWriter):
    """The writer of a batch whose name the driver knows, for `sink.job`; *what* names it in the report.

    *only_batch*: no other batch follows under this name, as for a job.
    """

    message: ClassVar = TaskPrepared

    def __init__(
        self,
        settings: Settings,
        options: WriteOptions,
        columns: ColumnPositions,
        *,
        of: BatchName,
        what: str,
        only_batch: bool = False,
    ) -> None:
        super().__init__(settings, options, columns)
        self._of = of
        self._what = what
        self._only_batch = only_batch

    @property
    def description(self) -> str:
        """The line about the write in Spark's UI, with the place of its ledger entry."""
        ledger = f"ledger {self._settings.name!r} in topic {self._settings.topic.name!r}"
        return f"ottla: {topic_text(self._options.topic)}, exactly once, {ledger}"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskPrepared:
        """Write a task's rows in a prepared transaction. Raises WriteError or LedgerMismatchError."""
        return self.prepare(iterator, self._of)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Make the batch visible. Raises BatchNotCommittedError, BatchIncompleteError or LeaseLostError."""
        try:
            self.make_visible(messages, batch=self._of.batch, what=self._what)
        except LeaseLostError:
            if self._only_batch:
                end_superseded(self._settings)
            raise
        except BatchNotCommittedError:
            self._abort_left_open()  # also those of other attempts, which no later batch may find
            raise

    def clean_up(self, tasks: RunningTasks) -> None:
        """Abort the transactions of the failed job, and again when its last tasks have ended.

        Spark stops them seconds after it has reported the failure. One that it kills after its first record and before
        its check of the lease ends nothing itself.
        """
        self._abort_left_open()
        if tasks.count():
            running = tasks.await_end(TASKS_END_WITHIN)
            self._abort_left_open()
            if running:
                _log.warning(
                    "%d tasks of %s, which failed, still run after %.0f s; a transaction that Spark makes them leave "
                    "open keeps readers waiting until the next run, or its time-out",
                    running,
                    self._what,
                    TASKS_END_WITHIN,
                )

    def _abort_left_open(self) -> None:
        """Abort the transactions of the failed job, which readers would wait for. An error is only logged."""
        assert self._task_plan is not None, "a job begins with a plan"
        with _logging_failed_aborts(self._what), self.cluster() as cluster:
            held = abort_left_open(cluster, self._task_plan.plan.lease)
            if self._only_batch and not held:
                abort_superseded(cluster, self._settings.name)


def await_readers(settings: Settings, transactions: Sequence[PreparedTransaction]) -> None:
    """Wait until readers see a finished job's records: a next job may read the topic to its end.

    Without the brokers' answers this only logs a warning: the records are committed.
    """
    try:
        with connected(settings) as cluster:
            late = cluster.await_markers(transactions, within=READERS_WITHIN)
    except OttlaError as error:
        _log.warning(
            "job %r is committed, but whether readers see all of its records is not known: %s", settings.name, error
        )
        return
    if late:
        _log.warning(
            "job %r is committed, but readers do not see the records of %d of its %d transactions yet: brokers have "
            "not written the ends of these transactions in %.0f s",
            settings.name,
            late,
            len(transactions),
            READERS_WITHIN,
        )


def end_superseded(settings: Settings) -> None:
    """Abort what other runs of a finished job left open, which readers would wait for. An error is only logged."""
    try:
        with connected(settings) as cluster:
            abort_superseded(cluster, settings.name)
    except OttlaError as error:
        _log.warning(
            "could not abort the transactions that other runs of %r may have left open, so readers may wait until they "
            "time out: %s",
            settings.name,
            error,
        )


@contextmanager
def _logging_failed_aborts(what: str) -> Iterator[None]:
    """Only log an error of this block: it must not replace the error by which a job failed."""
    try:
        yield
    except OttlaError as error:
        _log.warning(
            "could not abort the transactions of %s, so the next driver or their time-out does: %s", what, error
        )


def attempts(messages: Sequence[WriterCommitMessage | None]) -> list[Attempt | None]:
    """Return the attempts of the tasks; None where one failed."""
    return [message.attempt if isinstance(message, TaskPrepared) else None for message in messages]


def task_results(messages: Sequence[WriterCommitMessage | None]) -> list[TaskWritten]:
    """Return the results of the tasks for a report; they count no records if the batch was in the ledger already."""
    return [message.written for message in messages if isinstance(message, TaskPrepared)]
