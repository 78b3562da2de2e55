"""At-least-once writers, of a batch or a micro-batch. A data source of Spark calls them, or `sink.job`.

Neither `commit` nor `abort` can take a record back, so they only report what was written. Spark plans, writes and
commits in separate Python processes, so the methods import what one process alone needs.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from ottla_spark.data_source_api import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from ottla_spark.options.write_options import WriteOptions
from ottla_spark.sink.job_description import topic_text
from ottla_spark.sink.report import publish_report
from ottla_spark.sink.task_written import TaskWritten
from ottla_spark.worker.garbage_collection import imports_uncollected

if TYPE_CHECKING:
    import pyarrow as pa

    from ottla_spark.sink.columns import ColumnPositions
    from ottla_spark.sink.running_tasks import RunningTasks

_log = logging.getLogger(__name__)


class OttlaWriter(DataSourceArrowWriter):
    """Batch writer, created on the driver and pickled to the tasks; it connects at the first row."""

    message: ClassVar = TaskWritten

    def __init__(self, options: WriteOptions, columns: ColumnPositions, *, what: str = "the write") -> None:
        self._options = options
        self._columns = columns
        self._what = what

    @property
    def description(self) -> str:
        """The line about the write in Spark's UI."""
        return f"ottla: {topic_text(self._options.topic)}, at least once"

    def plan(self) -> None:
        """Check the topics, before the first task. Blocks. Raises InvalidWriteError."""
        from ottla_spark.sink.topics import check_topics

        check_topics(self._options)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskWritten:
        """Send a task's rows and wait for all of them. Raises WriteError."""
        with imports_uncollected():
            from ottla_spark.sink.task import write_rows

        return write_rows(iterator, options=self._options, columns=self._columns)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Report the result; every task is done, and every record is acknowledged."""
        publish_report(self._what, messages, wanted=self._options.report)

    def clean_up(self, tasks: RunningTasks) -> None:
        """As `abort`: there is nothing to clean up when the tasks have ended."""
        self.abort([None])

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Warn that records may be in Kafka nevertheless; they cannot be taken back."""
        _warn(self._what)


class OttlaStreamWriter(DataSourceStreamArrowWriter):
    """Stream writer. Spark creates it several times for every micro-batch; it holds only what tasks need."""

    def __init__(self, options: WriteOptions, columns: ColumnPositions) -> None:
        self._options = options
        self._columns = columns

    def __getstate__(self) -> dict[str, Any]:
        """Check the topics when Spark pickles the writer for the tasks, which only the planner does."""
        from ottla_spark.sink.topics import check_topics

        check_topics(self._options)
        return self.__dict__

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskWritten:
        """Send a task's rows of one micro-batch and wait for all of them. Raises WriteError."""
        with imports_uncollected():
            from ottla_spark.sink.task import write_rows

        return write_rows(iterator, options=self._options, columns=self._columns)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Report the result; every record of the micro-batch is acknowledged."""
        publish_report(f"micro-batch {batchId}", messages, wanted=self._options.report)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Warn that records may be in Kafka nevertheless; Spark sends the micro-batch again."""
        _warn(f"micro-batch {batchId}")


def _warn(what: str) -> None:
    _log.warning("%s failed; the records that its tasks had sent by then stay in Kafka", what)
