"""A batch job whose frame becomes visible once, even if the job runs repeatedly: the ledger has an entry for its id."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import attrs
import pyarrow as pa
from pyspark.sql import DataFrame, DataFrameWriter
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from ottla.errors.secret import hide_settings, revealed
from ottla_spark.errors import InvalidWriteError
from ottla_spark.exactly_once.driver.plan import plan
from ottla_spark.exactly_once.kafka.client_cache import connected
from ottla_spark.exactly_once.ledger.entry import Entry, Status
from ottla_spark.exactly_once.settings import Settings, read_settings
from ottla_spark.exactly_once.stream import PlannedWriter, TaskPrepared
from ottla_spark.exactly_once.task import BatchName
from ottla_spark.options.options import WriteOptions, read_hidden
from ottla_spark.write.columns import find_columns

_log = logging.getLogger(__name__)

_FORMAT: Final = "ottla-job"
_JOB: Final = "ottla.job.id"
_BATCH: Final = 0


@attrs.frozen(kw_only=True)
class JobOutcome:
    """The result of a job: `written` by this run or by an earlier one; `records` counts the visible records."""

    job_id: str
    written: bool
    records: int


def write_once(frame: DataFrame, options: Mapping[str, str], *, job_id: str) -> JobOutcome:
    """Write a whole frame so that it becomes visible as a whole and once; do nothing if the job is done already.

    *options* are those of `writeStream` with guarantee=exactly-once, transactional.id.prefix among them. To retry a
    failed job, run it again with the same *job_id*: it finishes what was committed, or writes all rows again. Two runs
    at the same time are safe; the older one fails. Raises InvalidWriteError, DataLossError, and Spark's errors for
    failed tasks.
    """
    options = hide_settings(options)
    given, settings = _read(options, job_id)
    done = _done(settings)
    if done is not None:
        _log.info("job %r wrote its %d records in an earlier run; nothing is left to do", job_id, _records(done))
        return JobOutcome(job_id=job_id, written=False, records=_records(done))
    problems: list[str] = []
    find_columns(frame.schema, topic=given.topic, problems=problems, value_format=given.value_format)
    if problems:
        raise InvalidWriteError(problems)
    frame.sparkSession.dataSource.register(OttlaJob)
    _writer(frame, options).option(_JOB, job_id).save()
    done = _done(settings)
    return JobOutcome(job_id=job_id, written=True, records=0 if done is None else _records(done))


class OttlaJob(DataSource):
    """Data source that `write_once` uses to call Spark."""

    @classmethod
    def name(cls) -> str:
        """A name that is not for `format`."""
        return _FORMAT

    def writer(self, schema: StructType, overwrite: bool) -> JobWriter:
        """Return the writer; Spark calls it on the driver while the job is planned."""
        options = hide_settings({key: value for key, value in self.options.items() if key != _JOB})
        given, settings = _read(options, self.options[_JOB])
        columns = find_columns(schema, topic=given.topic, problems=[], value_format=given.value_format)
        return JobWriter(settings, given, columns)


class JobWriter(PlannedWriter, DataSourceArrowWriter):
    """The writer of a job, which is one batch; Spark pickles it for the commit, too."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskPrepared:
        """Write a task's rows in a prepared transaction. Raises WriteError."""
        return self.prepare(iterator, BatchName(query=self._settings.name, batch=_BATCH))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Make the frame visible."""
        self.make_visible(messages, batch=_BATCH, what=f"job {self._settings.name}")

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Abort the prepared transactions, unless `commit` was called."""
        self.take_back(messages)


def _writer(frame: DataFrame, options: Mapping[str, Any]) -> DataFrameWriter:
    return frame.write.format(_FORMAT).mode("append").options(**{key: revealed(each) for key, each in options.items()})


def _done(settings: Settings) -> Entry | None:
    """Return the job's entry if its records are visible; settles a recorded batch first."""
    with connected(settings) as cluster:
        ledger = cluster.ledger(settings.name)
        last = ledger.certain()
        if ledger.unsettled or (last is not None and (last.status is Status.RECORDED or ledger.restate)):
            last = plan(cluster, settings.name).last
    return last if last is not None and last.status is Status.DONE else None


def _records(entry: Entry) -> int:
    return sum(each.records for each in entry.listed)


def _read(options: Mapping[str, Any], job_id: str) -> tuple[WriteOptions, Settings]:
    problems: list[str] = []
    if not job_id:
        problems.append("job_id is empty; name what this job writes, for example its day")
    given = read_hidden({**options, "guarantee": "exactly-once"}, problems=problems)
    if problems:
        raise InvalidWriteError(problems)
    return given, read_settings(given, job=job_id)
