"""A batch job whose frame becomes visible once, even if the job runs repeatedly: the ledger has an entry for its id."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

import attrs
from pyspark.sql import DataFrame

from ottla.errors import quoted
from ottla.errors.secret import hide_settings
from ottla_spark.exactly_once.driver.plan import plan
from ottla_spark.exactly_once.errors import LedgerMismatchError
from ottla_spark.exactly_once.kafka.client_cache import connected
from ottla_spark.exactly_once.ledger.entry import Entry, Status
from ottla_spark.exactly_once.ledger.row_topics import named_topics, recorded_topics
from ottla_spark.exactly_once.settings import Settings, read_with_guarantee
from ottla_spark.exactly_once.task import BatchName
from ottla_spark.exactly_once.writer import BatchWriter, TaskPrepared, await_readers, end_superseded
from ottla_spark.options.write_options import GivenOptions, WriteOptions
from ottla_spark.sink.job import job_input, run_job, traced

_log = logging.getLogger(__name__)

_BATCH: Final = 0


@attrs.frozen(kw_only=True)
class JobOutcome:
    """The result of a job. `written`: this run wrote the rows, no earlier one did.

    `records` counts the records that this run or the earlier one made visible, dead letters included.
    """

    job_id: str
    written: bool
    records: int


def write_once(frame: DataFrame, options: GivenOptions, *, job_id: str) -> JobOutcome:
    """Write a whole frame so that it becomes visible as a whole and once; do nothing if the job is done already.

    *options* are those of `writeStream` with guarantee=exactly-once, transactional.id.prefix among them; the guarantee
    may be left out, and another one is refused. To retry a failed job, run it again with the same *job_id*: it finishes
    what was committed, or writes all rows again. A job that is done does not read *frame*, so other rows need another
    *job_id*; with another topic it is refused. Two runs at the same time are safe; the older one fails. Blocks until
    all rows are visible. Raises InvalidWriteError, LedgerMismatchError, DataLossError, BatchNotCommittedError,
    BatchIncompleteError, LeaseLostError, and Spark's errors for failed tasks.
    """
    options = hide_settings(options)
    given, settings = _read(options, job_id)
    done = _done(settings)
    if done is not None:
        end_superseded(settings)
        return _earlier(job_id, done, settings, topic=given.topic)
    rows = job_input(frame, given)
    of = BatchName(query=settings.name, batch=_BATCH)
    with traced(rows.options) as named:
        writer = BatchWriter(settings, named, rows.columns, of=of, what=f"job {settings.name}", only_batch=True)
        writer.plan()
        # Another run of the job may have ended since its entry was read above.
        if (done := writer.last_done()) is None:
            results = run_job(rows, writer)
    if done is not None:
        return _earlier(job_id, done, settings, topic=given.topic)
    # The ledger is not read again: the rows are committed, so no request may fail the job any more.
    attempts = [result.attempt for result in results if isinstance(result, TaskPrepared)]
    await_readers(settings, [attempt.prepared for attempt in attempts if attempt.prepared is not None])
    records = sum(attempt.records for attempt in attempts)
    return JobOutcome(job_id=job_id, written=True, records=records)


def _done(settings: Settings) -> Entry | None:
    """Return the job's entry if its records are visible; ends a recorded batch first."""
    with connected(settings) as cluster:
        ledger = cluster.ledger(settings.name)
        last = ledger.certain()
        if ledger.has_open_entry or (last is not None and (last.status is Status.RECORDED or ledger.restate)):
            last = plan(cluster, settings.name).last
    return last if last is not None and last.status is Status.DONE else None


def _earlier(job_id: str, done: Entry, settings: Settings, *, topic: str | None) -> JobOutcome:
    """Return the outcome of an earlier run. Raises LedgerMismatchError if that wrote to other topics than *topic*."""
    if topic is not None and done.topics and tuple(done.topics) != recorded_topics([topic]):
        raise LedgerMismatchError(
            f"job {job_id!r} is done, and its rows are in {named_topics(done.topics)}: with topic {quoted(topic)} it "
            "would write nothing. Give it another job_id; or, if its rows are to be written to this topic as well, "
            "call ottla_spark.exactly_once.forget with this job_id before"
        )
    await_readers(settings, [task.prepared for task in done.listed])
    records = _records(done)
    _log.info("job %r wrote its %d records in an earlier run; nothing is left to do", job_id, records)
    return JobOutcome(job_id=job_id, written=False, records=records)


def _records(entry: Entry) -> int:
    return sum(each.records for each in entry.listed)


def _read(options: Mapping[str, Any], job_id: str) -> tuple[WriteOptions, Settings]:
    problems = [] if job_id else ["job_id is empty; name what this job writes, for example its day"]
    return read_with_guarantee(options, job=job_id, problems=problems)
