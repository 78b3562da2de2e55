"""One micro-batch of `foreachBatch`, written exactly once: the query's id and the batch id name it in the ledger."""

from __future__ import annotations

from pyspark.sql import SparkSession

from ottla_spark.errors import InvalidWriteError
from ottla_spark.exactly_once.kafka.client_cache import connected
from ottla_spark.exactly_once.settings import PREFIX, Settings
from ottla_spark.exactly_once.task import BatchName
from ottla_spark.exactly_once.writer import BatchWriter
from ottla_spark.options.write_options import WriteOptions
from ottla_spark.sink.job import JobInput, run_job
from ottla_spark.sink.micro_batches import MicroBatch, cluster_name, only_call


def write_micro_batch(given: JobInput, *, batch: int, settings: Settings, options: WriteOptions) -> None:
    """Write a micro-batch once, or only compute its rows if the ledger has it already. Blocks until they are visible.

    Raises InvalidWriteError where it cannot be named, or was written by another call with the same prefix.
    """
    this = _named(given.frame.sparkSession, batch)
    with connected(settings) as cluster:
        cluster_id = cluster.cluster_id()
    ledger = ("ledger", cluster_name(cluster_id, settings.producer), settings.topic.name, settings.name)
    refusal = InvalidWriteError(
        [
            f"micro-batch {batch} has been written with {PREFIX}={settings.name!r} already, in the same run of the "
            "query: two calls in one foreachBatch have one prefix, and the second one would write nothing. Give "
            "each call a prefix of its own, or write one frame with a column 'topic'"
        ]
    )
    with only_call(ledger, this, refusal=refusal):
        of = BatchName(query=this.query, batch=batch)
        writer = BatchWriter(settings, options, given.columns, of=of, what=f"micro-batch {batch}")
        writer.plan()
        run_job(given, writer)


def _named(session: SparkSession, batch: int) -> MicroBatch:
    """Return the name of the micro-batch whose `foreachBatch` function runs in this thread."""
    if not hasattr(session, "_jsparkSession"):
        raise InvalidWriteError(
            [
                "guarantee=exactly-once in foreachBatch needs the id of the query, which Spark Connect does not "
                'provide; use writeStream.format("ottla") with guarantee=exactly-once (PySpark 4.1 and later), run the '
                "query in the driver, or leave the guarantee out"
            ]
        )
    this = MicroBatch.of_this_thread(session, batch)
    if this is None:
        raise InvalidWriteError(
            [
                "guarantee=exactly-once needs the id of a streaming query, which only the thread that calls the "
                "function of foreachBatch has; for a batch, use ottla_spark.write_once"
            ]
        )
    return this
