"""`write` and `foreach_batch`: the same writes as `format("ottla")`, without a data source of Spark.

They work from PySpark 3.5 on, and in every output mode of a stream. Planning, tasks and commit are those of the data
source, but the driver's own Python process plans and commits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import DataFrame

from ottla.errors.secret import hide_settings
from ottla_spark.errors import InvalidWriteError
from ottla_spark.options.options import not_for_batches, read_hidden
from ottla_spark.options.write_options import GivenOptions, Guarantee, WriteOptions
from ottla_spark.sink.job import job_input, run_job, traced
from ottla_spark.sink.report import WriteReport
from ottla_spark.sink.writer import OttlaWriter

if TYPE_CHECKING:
    from ottla_spark.exactly_once.settings import Settings


def write(frame: DataFrame, options: GivenOptions) -> WriteReport:
    """Write a frame to Kafka at least once, and return what was written.

    Columns and *options* are those of `format("ottla")`. Blocks until brokers have acknowledged all rows. Raises
    InvalidWriteError with all problems before a task begins, and Spark's error for a task that failed; records that
    tasks had sent by then stay in Kafka. Spark repeats failed tasks, which may send rows twice: `write_once` does not.
    """
    options = hide_settings(options)
    problems: list[str] = []
    given = read_hidden(options, problems=problems)
    problems += not_for_batches(given)
    rows = job_input(frame, given, problems=problems)
    with traced(rows.options) as named:
        writer = OttlaWriter(named, rows.columns)
        if hasattr(frame.sparkSession, "_jsparkSession"):  # a client of Spark Connect need not reach the brokers
            writer.plan()
        return WriteReport.of("the write", run_job(rows, writer))


def foreach_batch(options: GivenOptions) -> MicroBatchSink:
    """Return a function for `writeStream.foreachBatch` that writes each micro-batch to Kafka.

    Columns and *options* are those of `writeStream.format("ottla")`, with the same guarantees: at least once, or with
    guarantee=exactly-once and transactional.id.prefix exactly once, by the ids of the query and the batch. Your own
    function may call the returned one, with a frame of the micro-batch and its batch id. Raises InvalidWriteError with
    all problems.
    """
    options = hide_settings(options)
    problems: list[str] = []
    given = read_hidden(options, problems=problems)
    if problems:
        raise InvalidWriteError(problems)
    return MicroBatchSink(given)


class MicroBatchSink:
    """Sink made by `foreach_batch`. It may serve several queries, except with guarantee=exactly-once.

    Spark Connect pickles it, to call it on the server.
    """

    def __init__(self, options: WriteOptions) -> None:
        self._options = options
        self._settings: Settings | None = None
        if options.guarantee is Guarantee.EXACTLY_ONCE:
            from ottla_spark.exactly_once.settings import read_settings  # imports many modules

            self._settings = read_settings(options)

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        """Write one micro-batch; Spark calls it, or your function of `foreachBatch`.

        Blocks until its rows are acknowledged, and with guarantee=exactly-once visible. Raises InvalidWriteError,
        Spark's error for a failed task, and with guarantee=exactly-once the errors of `ottla_spark.exactly_once`.
        """
        rows = job_input(frame, self._options)
        with traced(rows.options, batch=batch_id) as options:
            if self._settings is None:
                writer = OttlaWriter(options, rows.columns, what=f"micro-batch {batch_id}")
                writer.plan()
                run_job(rows, writer)
                return
            from ottla_spark.exactly_once.micro_batch import write_micro_batch  # imports many modules

            write_micro_batch(rows, batch=batch_id, settings=self._settings, options=options)
