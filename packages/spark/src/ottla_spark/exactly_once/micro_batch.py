"""One micro-batch of `foreachBatch`, written exactly once: the query's id and the batch id name it in the ledger.

A function of `foreachBatch` may write several frames. If two of them had one ledger, the ledger would have the batch
after the first frame, and the second one would be skipped. So the second one is refused.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import attrs
from pyspark.sql import SparkSession

from ottla_spark.errors import InvalidWriteError
from ottla_spark.exactly_once.settings import PREFIX, Settings
from ottla_spark.exactly_once.task import QUERY_ID, BatchName
from ottla_spark.exactly_once.writer import BatchWriter
from ottla_spark.options.write_options import WriteOptions
from ottla_spark.sink.job import JobInput, run_job

_RUN_ID: Final = "sql.streaming.runId"
_JOB_GROUP: Final = "spark.jobGroup.id"
"""Has the run's id, too, where Spark does not set `sql.streaming.runId`."""

Ledger: TypeAlias = tuple[str, str, str]
"""Servers, topic and name."""

_written: Final[dict[Ledger, Written]] = {}


@attrs.frozen(kw_only=True)
class Written:
    """A micro-batch that this process has written; a query that is started again has another `run`."""

    query: str
    run: str | None
    batch: int


def write_micro_batch(given: JobInput, *, batch: int, settings: Settings, options: WriteOptions) -> None:
    """Write a micro-batch once, or only compute its rows if the ledger has it already. Blocks until they are visible.

    Raises InvalidWriteError where it cannot be named, or was written by another call with the same prefix.
    """
    this = _named(given.frame.sparkSession, batch)
    ledger = (str(settings.producer.get("bootstrap.servers")), settings.topic.name, settings.name)
    if _written.get(ledger) == this:
        raise InvalidWriteError(
            [
                f"micro-batch {batch} has been written with {PREFIX}={settings.name!r} already, in the same run of the "
                "query: two calls in one foreachBatch have one prefix, and the second one would write nothing. Give "
                "each call a prefix of its own, or write one frame with a column 'topic'"
            ]
        )
    of = BatchName(query=this.query, batch=batch)
    writer = BatchWriter(settings, options, given.columns, of=of, what=f"micro-batch {batch}")
    writer.plan()
    run_job(given, writer)
    _written[ledger] = this


def _named(session: SparkSession, batch: int) -> Written:
    """Return the name of the micro-batch whose `foreachBatch` function runs in this thread."""
    if not hasattr(session, "_jsparkSession"):
        raise InvalidWriteError(
            [
                "guarantee=exactly-once in foreachBatch needs the id of the query, which Spark Connect does not "
                'provide; use writeStream.format("ottla") with guarantee=exactly-once (PySpark 4.1 and later), run the '
                "query in the driver, or leave the guarantee out"
            ]
        )
    context = session.sparkContext
    query = context.getLocalProperty(QUERY_ID)
    if not query:
        raise InvalidWriteError(
            [
                "guarantee=exactly-once needs the id of a streaming query, which only the thread that calls the "
                "function of foreachBatch has; for a batch, use ottla_spark.write_once"
            ]
        )
    run = context.getLocalProperty(_RUN_ID) or context.getLocalProperty(_JOB_GROUP)
    return Written(query=str(query), run=run, batch=batch)
