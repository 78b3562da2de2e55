"""The work of a task: write its rows in its own transaction, and leave that prepared for the batch's commit.

Producers stay with their worker process and its transactional ids. A producer is reused without initialization if the
ledger shows that its last transaction was committed. In any other case, initialization aborts that transaction.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
import uuid
import weakref
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final

import attrs
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext

from ottla import OttlaError, Producer
from ottla.transactions import PreparedTransaction
from ottla_spark.exactly_once.attempt import Attempt
from ottla_spark.exactly_once.driver.plan import Plan
from ottla_spark.exactly_once.errors import LedgerMismatchError
from ottla_spark.exactly_once.kafka.client_cache import connected
from ottla_spark.exactly_once.lease_checks import LeaseChecks
from ottla_spark.exactly_once.ledger.entry import Status, Step, next_step
from ottla_spark.exactly_once.settings import Settings
from ottla_spark.exactly_once.transactional_ids import IdPool
from ottla_spark.options.write_options import WriteOptions
from ottla_spark.sink.columns import ColumnPositions
from ottla_spark.sink.micro_batches import QUERY_ID
from ottla_spark.sink.records import TOPIC
from ottla_spark.sink.task import send_rows, task_name
from ottla_spark.sink.task_written import TaskWritten
from ottla_spark.worker.producer_cache import BorrowedProducer
from ottla_spark.worker.traces import task_span

_log = logging.getLogger(__name__)

MAX_NAMES: Final = 64
"""Queries and jobs whose ids a worker remembers, those of its last tasks: each job has a name of its own. A task of one
that it has forgotten takes new ids."""

_ABORT_WITHIN: Final = 5.0
"""Seconds for the abort of a failed task's transaction."""

_BATCH: Final = "streaming.sql.batchId"


@attrs.frozen(kw_only=True)
class TaskPlan:
    """The driver's data for every task of a batch."""

    plan: Plan
    timeout_ms: int


@attrs.frozen(kw_only=True)
class BatchName:
    """A batch's query and number; a job has one batch."""

    query: str
    batch: int


def batch_of_stream() -> BatchName:
    """Return the micro-batch of this task, from local properties that Spark sets for tasks only."""
    context = TaskContext.get()
    query = context.getLocalProperty(QUERY_ID) if context is not None else None
    batch = context.getLocalProperty(_BATCH) if context is not None else None
    if query is None or batch is None:
        raise LedgerMismatchError(
            f"Spark does not say which micro-batch this task belongs to ({QUERY_ID}={query}, {_BATCH}={batch}); "
            "guarantee=exactly-once is for writeStream; for a batch, use ottla_spark.write_once"
        )
    return BatchName(query=query, batch=int(batch))


def write_task(
    batches: Iterator[pa.RecordBatch],
    task_plan: TaskPlan,
    *,
    of: BatchName,
    settings: Settings,
    options: WriteOptions,
    columns: ColumnPositions,
) -> tuple[Attempt, TaskWritten]:
    """Write a task's rows and prepare their transaction. Only read the rows if the ledger has the batch already."""
    options.check_version()
    plan = task_plan.plan
    step = next_step(plan.last, name=settings.name, query=of.query, batch=of.batch)
    attempt = Attempt(
        lease=plan.lease,
        query=of.query,
        batch=of.batch,
        partition=_partition(),
        step=step,
        planned_at=plan.planned_at,
    )
    counted = _Counted(batches, topic=options.topic, column=columns.get(TOPIC))
    if step is Step.SKIP:
        deque(counted, maxlen=0)  # a stateful query keeps its state only if all rows are read
        assert plan.last is not None, "a batch is skipped if the ledger has it"
        skipped = counted.added_to(attempt)
        return attrs.evolve(skipped, rows_in_ledger=plan.last.rows, topics_in_ledger=plan.last.topics), TaskWritten()
    try:
        with task_span(options.trace, topic=options.topic), contextlib.ExitStack() as stack:
            own = _OwnTransaction(task_plan, settings=settings, idle=options.idle, stack=stack)
            try:
                rows = own.checked(counted)
                written = send_rows(
                    rows, own.producer, options=options, columns=columns, task=task_name(), transactional=True
                )
                if own.begun:
                    own.check_lease()
                prepared = own.prepare()
            except BaseException:
                own.abort()
                raise
    except _SupersededError:
        _log.warning(
            "%s: its batch is over, or another driver has taken the ledger over; none of its rows becomes visible",
            task_name(),
        )
        return attrs.evolve(counted.added_to(attempt), superseded=True), TaskWritten()
    attempt = counted.added_to(attempt)
    return attrs.evolve(attempt, prepared=prepared, records=written.records, open_for=written.since_first), written


class _Counted:
    """Spark's batches, how many rows they had so far, and for which topics: *topic*, or those in their *column*."""

    def __init__(self, batches: Iterable[pa.RecordBatch], *, topic: str | None, column: int | None) -> None:
        self._batches = batches
        self._topic = topic
        self._column = column
        self._rows = 0
        self._topics: set[str] = set()

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self._batches:
            if batch.num_rows:
                self._rows += batch.num_rows
                self._topics |= self._topics_of(batch)
            yield batch

    def added_to(self, attempt: Attempt) -> Attempt:
        """Return the attempt with the rows and topics."""
        return attrs.evolve(attempt, rows=self._rows, topics=tuple(sorted(self._topics)))

    def _topics_of(self, batch: pa.RecordBatch) -> set[str]:
        if self._topic is not None or self._column is None:
            return set() if self._topic is None else {self._topic}
        # As bytes: a name may be invalid UTF-8, whose rows are refused later.
        names = pc.unique(batch.column(self._column)).cast(pa.large_binary())
        return {name.decode(errors="backslashreplace") for name in names.to_pylist() if name is not None}


@attrs.frozen(kw_only=True, eq=False)
class _Begun:
    """A transaction that was begun, with its transactional id."""

    producer: Producer
    name: str


class _OwnTransaction:
    """The transaction of one attempt, begun with its first row; `stack` returns the producer to the cache."""

    def __init__(self, task_plan: TaskPlan, *, settings: Settings, idle: float, stack: contextlib.ExitStack) -> None:
        self._task_plan = task_plan
        self._settings = settings
        self._idle = idle
        self._stack = stack
        self._begun: _Begun | None = None
        self._worker = _worker(settings.name)

    def producer(self) -> Producer:
        """Return a producer in its own transaction."""
        plan = self._task_plan.plan
        mine = self._worker
        name = mine.pool.take(plan.lease)
        settings = self._settings.for_task(name, timeout_ms=self._task_plan.timeout_ms)
        before = mine.prepared.pop(name, None)
        if before is not None:
            with (
                contextlib.suppress(OttlaError, _OutcomeUnknownError),
                BorrowedProducer(settings, idle=self._idle) as last,
            ):
                before.go_on(last.producer(), plan)  # an error closes the producer
        producer = self._stack.enter_context(BorrowedProducer(settings, idle=self._idle)).producer()
        if before is None or producer is not before.producer():
            producer.init_transactions()
        if mine.checks.due(time.monotonic()):
            self.check_lease()  # also connects, so that the check after the first records takes no time
        producer.begin_transaction()
        self._begun = _Begun(producer=producer, name=name)
        return producer

    @property
    def begun(self) -> bool:
        """Whether the task has had a row."""
        return self._begun is not None

    def checked(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the same batches. Raises _SupersededError when the task writes for long, and its lease is lost."""
        for batch in batches:
            yield batch
            if self.begun and self._worker.checks.due(time.monotonic()):
                self.check_lease()

    def check_lease(self) -> None:
        """Raise _SupersededError if the lease is a newer one by now: nothing would end this transaction.

        A driver whose job failed renews the lease before it lists what is open: either it finds this transaction, or a
        check after the first record was acknowledged finds the other lease.
        """
        checks, started_at = self._worker.checks, time.monotonic()
        superseded: bool | None = None
        try:
            with connected(self._settings) as cluster:
                superseded = cluster.superseded(self._task_plan.plan.lease, within=checks.within(started_at))
        except OttlaError as error:
            _log.debug("whether the lease is still the newest one is not known: %s", error)
        checks.ended(started_at=started_at, now=time.monotonic(), answered=superseded is not None)
        if superseded:
            raise _SupersededError

    def prepare(self) -> PreparedTransaction | None:
        """Prepare the transaction for the batch's commit; return None if it has no record.

        Without one, as when all rows were refused, brokers do not know the transaction: to the driver it would look
        like one that was aborted.
        """
        begun = self._begun
        if begun is None:
            return None
        prepared = begun.producer.prepare_transaction()
        self._worker.forget_closed()
        self._worker.prepared[begun.name] = _PreparedTransaction(
            producer=weakref.ref(begun.producer), prepared=prepared
        )
        return prepared if prepared.written else None

    def abort(self) -> None:
        """Abort the transaction, which blocks readers. If that fails, the next batch's plan finds it and aborts it."""
        if self._begun is not None:
            try:
                self._begun.producer.abort_transaction(timeout=_ABORT_WITHIN)
            except OttlaError as error:
                _log.warning("could not abort the transaction of a failed task, so the driver will abort it: %s", error)


@attrs.frozen(kw_only=True, eq=False)
class _PreparedTransaction:
    """A task's prepared transaction, with its producer while the cache keeps it for another task."""

    producer: weakref.ref[Producer]
    prepared: PreparedTransaction

    def go_on(self, producer: Producer, plan: Plan) -> None:
        """Make the same producer ready for another transaction. Raises OttlaError when it cannot be."""
        if producer is not self.producer():
            return
        last = plan.last
        # A transaction without a record has no outcome, and the driver does not know it.
        if self.prepared.written and (
            last is None
            or last.status is not Status.DONE
            or all(each.prepared != self.prepared for each in last.listed)
        ):
            raise _OutcomeUnknownError
        producer.commit_transaction()  # already committed by the driver, but the response has the next epoch


class _SupersededError(Exception):
    """The lease of this task's plan is not the newest one."""


class _OutcomeUnknownError(Exception):
    """The ledger's last entry does not have the outcome of a transaction."""


@attrs.define
class _Worker:
    pool: IdPool
    prepared: dict[str, _PreparedTransaction] = attrs.field(factory=dict)
    checks: LeaseChecks = attrs.field(factory=LeaseChecks)

    def forget_closed(self) -> None:
        """Forget the transactions of producers that are no longer kept: another one with the id is initialized."""
        self.prepared = {name: each for name, each in self.prepared.items() if each.producer() is not None}


_workers: dict[tuple[int, str], _Worker] = {}  # most recently used last


def _worker(name: str) -> _Worker:
    """Return this process's data for a name; a forked process begins with empty data."""
    key = os.getpid(), name
    found = _workers.pop(key, None) or _Worker(pool=IdPool(name=name, process=uuid.uuid4().hex))
    _workers[key] = found
    for oldest in list(_workers)[:-MAX_NAMES]:
        del _workers[oldest]
    return found


def _partition() -> int:
    context = TaskContext.get()
    return context.partitionId() if context is not None else 0
