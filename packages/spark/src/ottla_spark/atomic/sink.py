"""`foreachBatch` function that writes each micro-batch in one transaction, shared by all tasks.

It checks the requirements on the driver, moves every row to the owner of its partition, and leaves decisions to
`driver`.
"""

from __future__ import annotations

import contextlib
import logging
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Self

from py4j.protocol import Py4JJavaError
from pyspark import SparkStageInfo
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from ottla.errors.secret import hide_settings
from ottla.transactions import SharedTransaction
from ottla_spark.atomic.driver import BatchDriver, BatchWritten
from ottla_spark.atomic.errors import BatchRefusedError, TaskRefusedError
from ottla_spark.atomic.partition_assignment import PartitionAssignment
from ottla_spark.atomic.sealed_rows import SEALED_BATCH_BYTES, SPARK_SCHEMA, RowSealing
from ottla_spark.atomic.task import RESULT, TRANSACTIONAL_ID, TaskWrite
from ottla_spark.atomic.transaction_owner import TransactionOwner
from ottla_spark.data_source_api import PYSPARK
from ottla_spark.errors import InvalidWriteError
from ottla_spark.options.known_defaults import BROKERS_MAX_TIMEOUT_MS, TRANSACTION_TIMEOUT, max_block_seconds
from ottla_spark.options.options import DEAD_LETTER_TOPIC, ERRORS_TOLERANCE, read_hidden
from ottla_spark.options.write_options import GivenOptions, Guarantee, WriteOptions
from ottla_spark.sink.columns import COLUMNS, ColumnPositions, find_columns
from ottla_spark.sink.formats import prepare_formats
from ottla_spark.sink.job import traced
from ottla_spark.sink.micro_batches import MicroBatch, cluster_name, only_call
from ottla_spark.sink.topics import check_topics

logger = logging.getLogger(__name__)

BATCH_BYTES: Final = "spark.sql.execution.arrow.maxBytesPerBatch"
ARROW_BYTES: Final = 8 * 1024 * 1024
"""Maximum bytes of sealed rows in one Arrow batch of a task's input."""


def atomically(
    options: GivenOptions,
    *,
    transactional_id: str,
    topics: Sequence[str] = (),
    attempts: int = 3,
    begins_with: int | None = None,
    skips: int | None = None,
    on_batch: Callable[[BatchWritten], object] | None = None,
) -> AtomicSink:
    """Return a function for `foreachBatch` that writes each micro-batch to Kafka once, visible as a whole.

    *options* are those of `format("ottla")`. *transactional_id* belongs to this query alone, over all restarts; it is
    also the consumer group that holds the marker. If the option topic is not set, *topics* lists all topics that rows
    name in the column "topic". A batch whose tasks failed is aborted and run again in place, up to *attempts* times.
    *begins_with* is a batch to write although the previous batch's marker is missing: for a query that used another
    sink before, or whose marker has expired. *skips* is a batch that is in Kafka, to skip although Spark now has other
    rows for it. *on_batch* is called after each batch that is in Kafka.

    Raises InvalidWriteError with all problems. Only readers with `isolation.level=read_committed` see all or nothing of
    a batch.
    """
    options = hide_settings(options)
    problems: list[str] = []
    read = read_hidden(options, problems=problems)
    if not hasattr(DataFrame, "repartitionById"):
        problems.append(
            f"{PYSPARK} has no DataFrame.repartitionById, which all-or-nothing batches need; use PySpark 4.1 or later, "
            "or ottla_spark.foreach_batch with guarantee=exactly-once"
        )
    if not transactional_id:
        problems.append("transactional_id is empty; give this query an id of its own, and keep it over restarts")
    if read.topic is None and not topics:
        problems.append("no topic is known: set option 'topic', or name all topics of the rows in topics=")
    if read.topic is not None and topics:
        problems.append("option 'topic' and topics= are both set; leave one out")
    if read.guarantee is not Guarantee.AT_LEAST_ONCE:
        problems.append("option guarantee is for format('ottla'); here a batch is always all or nothing, leave it out")
    if read.report:
        problems.append("option report is for format('ottla'); leave it out, on_batch= gets each batch's result")
    tolerance = read.tolerance
    if tolerance is not None and tolerance.dead_letter_topic is None:
        problems.append(
            f"option {ERRORS_TOLERANCE}=all alone would skip rows unseen, because no report counts them here; set "
            f"{DEAD_LETTER_TOPIC} too"
        )
    if attempts < 1:
        problems.append(f"attempts={attempts} is less than 1")
    if problems:
        raise InvalidWriteError(problems)
    written = (read.topic,) if read.topic is not None else tuple(topics)
    letters = () if tolerance is None or tolerance.dead_letter_topic is None else (tolerance.dead_letter_topic,)
    return AtomicSink(
        options=read,
        transactional_id=transactional_id,
        topics=tuple(dict.fromkeys((*written, *letters))),
        attempts=attempts,
        begins_with=begins_with,
        skips=skips,
        on_batch=on_batch,
    )


class AtomicSink:
    """Sink made by `atomically`; one object serves one query, over its restarts in this process."""

    def __init__(
        self,
        *,
        options: WriteOptions,
        transactional_id: str,
        topics: tuple[str, ...],
        attempts: int,
        begins_with: int | None,
        skips: int | None,
        on_batch: Callable[[BatchWritten], object] | None,
    ) -> None:
        self._options = options
        self._topics = topics
        self._attempts = attempts
        self._begins_with = begins_with
        self._skips = skips
        self._on_batch = on_batch
        self._driver: BatchDriver | None = None
        self._cluster: str | None = None
        self._owner = TransactionOwner(
            settings=options.producer,
            transactional_id=transactional_id,
            transaction_timeout_ms=int(options.producer.get(TRANSACTION_TIMEOUT, BROKERS_MAX_TIMEOUT_MS)),
            marker_topic=topics[0],
            timeout=max_block_seconds(options.producer),
        )

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        """Write one micro-batch; Spark calls it.

        Raises BatchRefusedError, BatchFailedError, InvalidWriteError and ProducerFencedError.
        """
        micro_batch = _checked(frame.sparkSession, batch_id)
        driver = self._driver_of(micro_batch.query)
        check_topics(self._options, self._topics)
        if self._cluster is None:
            self._cluster = cluster_name(self._owner.cluster_id(), self._options.producer)
        written_under = ("marker", self._cluster, self._owner.transactional_id)
        refusal = self._second_call(batch_id)
        with (
            only_call(written_under, micro_batch, refusal=refusal, source=(self, frame)),
            traced(self._options, batch=batch_id) as options,
        ):
            rows = SparkRows(
                frame=frame,
                options=options,
                transactional_id=self._owner.transactional_id,
                counts=self._owner.partitions(self._topics),
            )
            written = driver.write(batch_id, rows)
        logger.info("a batch was written: %s", written)
        if self._on_batch is not None:
            self._on_batch(written)

    def _driver_of(self, query: str) -> BatchDriver:
        """Return the driver of the query. Raises BatchRefusedError if it is that of another query."""
        if self._driver is None:
            self._driver = BatchDriver(
                self._owner,
                query=query,
                attempts=self._attempts,
                begins_with=self._begins_with,
                skips=self._skips,
            )
        elif self._driver.query != query:
            raise BatchRefusedError(
                f"this sink belongs to query {self._driver.query}, but query {query} called it: create a sink for "
                "each query with atomically()"
            )
        return self._driver

    def _second_call(self, batch: int) -> BatchRefusedError:
        return BatchRefusedError(
            f"another call has batch {batch} with transactional_id={self._owner.transactional_id!r} already, in the "
            "same run of the query: two calls in one foreachBatch function have one transactional id, and the second "
            "one would write nothing. Give each call a sink with an id of its own, or write one frame with a column "
            f"'topic'. If the query has written batches before, create the sink with the new id with "
            f"begins_with={batch}"
        )


class SparkRows:
    """The rows of one micro-batch; a shuffle moves them to the owners of their partitions."""

    def __init__(
        self, *, frame: DataFrame, options: WriteOptions, transactional_id: str, counts: Mapping[str, int]
    ) -> None:
        self._frame = frame
        self._sent = _with_columns_of_records(frame) if options.formats.value is None else frame
        self._options, self._columns = _prepared(self._sent, options)
        self._settings = frozenset({**options.producer, TRANSACTIONAL_ID: transactional_id}.items())
        session = frame.sparkSession
        self._assignment = PartitionAssignment.of(counts, tasks=session.sparkContext.defaultParallelism)

    def write(self, shared: SharedTransaction) -> int:
        """Write all rows in one Spark job."""
        frame = self._owned(self._sent)
        task = TaskWrite(shared=shared, assignment=self._assignment, options=self._options)
        session = frame.sparkSession
        within = max_block_seconds(self._options.producer)
        with OneStageAttempt(session, within=within), _limited_arrow_batches(session):
            reports = frame.mapInArrow(task, RESULT).collect()
        owners = [report.owner for report in reports]
        if len(set(owners)) != len(owners):
            raise TaskRefusedError(f"two tasks wrote as the same owner: {sorted(owners)}")
        return sum(report.records for report in reports)

    def drain(self) -> int:
        """Compute all rows of the micro-batch, and return their number."""
        return self._frame.count()

    def is_retriable(self, error: Exception) -> bool:
        """Return whether another attempt may succeed; False when the query was stopped."""
        text = f"{type(error).__name__}: {error}"
        return not any(word in text for word in _STOPPED)

    def _owned(self, frame: DataFrame) -> DataFrame:
        """Return the frame's rows as sealed rows, each in its owner's task."""
        sealing = RowSealing(
            settings=self._settings,
            assignment=self._assignment,
            options=self._options,
            columns=self._columns,
            max_bytes=SEALED_BATCH_BYTES,
        )
        return frame.mapInArrow(sealing, SPARK_SCHEMA).repartitionById(self._assignment.owners, sf.col("owner"))


_STOPPED: Final = ("InterruptedException", "SPARK_JOB_CANCELLED", "InterruptedIOException", "ClosedByInterrupt")


class OneStageAttempt:
    """Check that Spark runs no stage of the `with` block's jobs twice. Raises TaskRefusedError when the block ends.

    A stage that Spark runs again starts with attempt 0, while tasks of its first run may still be running. Spark
    reports its stages with a delay: at the end of the block they are waited for, *within* so many seconds.
    """

    def __init__(self, session: SparkSession, *, within: float) -> None:
        self._context = session.sparkContext
        self._within = within
        self._tag = f"ottla-{uuid.uuid4().hex}"

    def __enter__(self) -> Self:
        self._context.addJobTag(self._tag)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_error: Any) -> None:
        self._context.removeJobTag(self._tag)
        if kind is None:
            self._check()

    def stages(self) -> Sequence[SparkStageInfo | None]:
        """Return Spark's information about the stages of the jobs so far, None for a stage that it has forgotten.

        The last one is the stage that writes: the last job of an action has its result, and a result has the last stage
        of its job. It is also forgotten last, because Spark forgets what has ended first.
        """
        java: Any = self._context._jsc.sc()
        self._await_events(java)  # otherwise the stages may be out of date
        tracker = self._context.statusTracker()
        known = [tracker.getJobInfo(job) for job in sorted(map(int, java.statusTracker().getJobIdsForTag(self._tag)))]
        jobs = [job for job in known if job is not None]
        return [tracker.getStageInfo(stage) for job in jobs for stage in sorted(job.stageIds)]

    def _await_events(self, java: Any) -> None:
        try:
            java.listenerBus().waitUntilEmpty(round(self._within * 1_000))
        except Py4JJavaError as error:
            if "TimeoutException" not in str(error.java_exception):
                raise
            raise TaskRefusedError(
                f"Spark has not handled the events of the batch's stages within {self._within:g} s "
                "(kafka.max.block.ms), so whether it ran the stage that wrote the batch twice is not known: a listener "
                "(spark.extraListeners), the event log or the UI is too slow; the whole batch is aborted and run again"
            ) from error

    def _check(self) -> None:
        stages = self.stages()
        for stage in stages:
            if stage is not None and stage.currentAttemptId:
                raise TaskRefusedError(
                    f"Spark ran stage {stage.stageId} {stage.currentAttemptId + 1} times: two attempts of a task may "
                    "have written at the same time; the whole batch is aborted and run again"
                )
        if not stages or stages[-1] is None:
            raise TaskRefusedError(
                "Spark has forgotten whether it ran the stage that wrote the batch twice, because the application has "
                "ended more jobs or stages meanwhile than it keeps: raise spark.ui.retainedJobs and "
                "spark.ui.retainedStages; the whole batch is aborted and run again"
            )


@contextlib.contextmanager
def _limited_arrow_batches(session: SparkSession) -> Iterator[None]:
    """Limit Arrow batches by bytes: Spark's limit of ten thousand rows is too much if a row has half a megabyte."""
    before = session.conf.get(BATCH_BYTES, None)
    session.conf.set(BATCH_BYTES, str(ARROW_BYTES))
    try:
        yield
    finally:
        if before is None:
            session.conf.unset(BATCH_BYTES)
        else:
            session.conf.set(BATCH_BYTES, before)


def _with_columns_of_records(frame: DataFrame) -> DataFrame:
    """Return the frame without other columns, which the tasks would only read.

    Spark finds columns by name, for which it does not distinguish "value" from "Value"; positions are unique.
    """
    chosen = [position for position, name in enumerate(frame.columns) if name in COLUMNS]
    if len(chosen) == len(frame.columns):
        return frame
    plain = [f"column_{position}" for position in range(len(frame.columns))]
    found = frame.toDF(*plain).select([plain[position] for position in chosen])
    return found.toDF(*(frame.columns[position] for position in chosen))


def _prepared(frame: DataFrame, options: WriteOptions) -> tuple[WriteOptions, ColumnPositions]:
    """Return the options for the tasks, and the positions of columns. Raises InvalidWriteError with all problems."""
    problems: list[str] = []
    columns = find_columns(frame.schema, topic=options.topic, problems=problems, formats=options.formats)
    if not problems:
        options = prepare_formats(options, frame.schema, columns, problems=problems)
    if problems:
        raise InvalidWriteError(problems)
    return options, columns


def _checked(session: SparkSession, batch: int) -> MicroBatch:
    """Return the micro-batch. Raises BatchRefusedError without a query, or where two tasks could write at once."""
    if not hasattr(session, "_jsparkSession"):
        raise BatchRefusedError(
            "all-or-nothing batches need a SparkContext, which Spark Connect does not provide; run the query in "
            "the driver, or use format('ottla') with guarantee=exactly-once"
        )
    context = session.sparkContext
    if str(context.getConf().get("spark.speculation", "false")).lower() == "true":
        raise BatchRefusedError(
            "spark.speculation=true: two attempts of one task would write the same partitions; set it to false, or use "
            "format('ottla') with guarantee=exactly-once"
        )
    micro_batch = MicroBatch.of_this_thread(session, batch)
    if micro_batch is None:
        raise BatchRefusedError("the sink was called outside a streaming query: pass it to writeStream.foreachBatch")
    return micro_batch
