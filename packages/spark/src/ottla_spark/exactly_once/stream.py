"""The exactly-once writer of a stream's data source; Spark calls its methods in several processes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from ottla_spark.data_source_api import DataSourceStreamArrowWriter, WriterCommitMessage
from ottla_spark.exactly_once.settings import read_settings
from ottla_spark.exactly_once.task import batch_of_stream
from ottla_spark.exactly_once.writer import PlannedWriter, TaskPrepared
from ottla_spark.options.write_options import WriteOptions
from ottla_spark.sink.columns import ColumnPositions


def stream_writer(options: WriteOptions, columns: ColumnPositions) -> ExactlyOnceWriter:
    """Create the writer of one micro-batch. Raises InvalidWriteError."""
    return ExactlyOnceWriter(read_settings(options), options, columns)


class ExactlyOnceWriter(PlannedWriter, DataSourceStreamArrowWriter):
    """The writer of one micro-batch.

    Spark creates it several times for every batch. Only the planner pickles it, once and before all tasks.
    """

    def __getstate__(self) -> dict[str, Any]:
        """Plan the batch when Spark pickles the writer for the tasks."""
        self.plan()
        return self.__dict__

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskPrepared:
        """Write a task's rows in a prepared transaction. Raises WriteError or LedgerMismatchError."""
        return self.prepare(iterator, batch_of_stream())

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Make the micro-batch visible. Raises BatchNotCommittedError, BatchIncompleteError or LeaseLostError."""
        self.make_visible(messages, batch=batchId, what=f"micro-batch {batchId}")

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Abort the transactions of the tasks, unless `commit` was called. An error is only logged."""
        self.take_back(messages, what=f"micro-batch {batchId}")
