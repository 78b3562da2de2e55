"""The commit of a batch: check it, record it, make it visible. The ledger's entry is the commit point.

Until the entry is written, every transaction of the batch can be aborted; afterwards none may be.
"""

from __future__ import annotations

import enum
import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final, Self

import attrs

from ottla.errors import OttlaError
from ottla.transactions import PreparedTransaction
from ottla_spark.exactly_once.driver.cluster import ClusterClient, TransactionStatus
from ottla_spark.exactly_once.driver.recovery import finish
from ottla_spark.exactly_once.errors import BatchNotCommittedError, LeaseLostError
from ottla_spark.exactly_once.ledger.entry import Entry, Status, Step, TaskTransaction, check_rows
from ottla_spark.exactly_once.ledger.lease import Lease

_log = logging.getLogger(__name__)

ENOUGH_TIME: Final = 0.5
"""Share of each transaction's time-out that must remain when its batch is recorded."""


@attrs.frozen(kw_only=True)
class Attempt:
    """The result of one attempt of a task; `prepared` is None if the task sent no row, or skipped them.

    `rows` counts what Spark passed to the task. `rows_in_ledger` are those of the whole batch that the task skipped.
    `planned_at` is that of its plan, and `seconds` passed in the task between the beginning of its transaction and its
    preparation.
    """

    lease: Lease
    query: str
    batch: int
    partition: int
    step: Step
    prepared: PreparedTransaction | None = None
    records: int = 0
    rows: int = 0
    rows_in_ledger: int | None = None
    planned_at: float | None = None
    seconds: float = 0.0

    def to_values(self) -> dict[str, Any]:
        """Return the attempt as values that JSON can represent."""
        return attrs.asdict(self, value_serializer=_plain)

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> Self:
        """Return the attempt that `to_values` was called on."""
        prepared = values["prepared"]
        parts = {
            "lease": Lease(**values["lease"]),
            "step": Step(values["step"]),
            "prepared": None if prepared is None else PreparedTransaction(**prepared),
        }
        return cls(**{**values, **parts})


def _plain(_owner: object, _field: object, value: Any) -> Any:
    return value.value if isinstance(value, enum.Enum) else value


def commit(cluster: ClusterClient, attempts: Sequence[Attempt], *, batch: int) -> None:
    """Make a batch visible as a whole and once.

    Raises BatchNotCommittedError if none of its rows will become visible, LeaseLostError, and LedgerMismatchError if
    the batch that is in the ledger had other rows. After any other error the batch may be in the ledger or not; the
    next driver reads it there.
    """
    if not attempts:
        return
    step = _agreed(attempts, batch=batch)
    first, listed = attempts[0], _listed(attempts)
    name = first.lease.name
    rows = sum(attempt.rows for attempt in attempts)
    if step is Step.SKIP:  # `plan` has finished or voided the recorded batch
        check_rows(rows, first.rows_in_ledger, batch=batch, name=name)
        return
    # List them before the ledger is written: if the write succeeds, no newer lease existed when they were listed.
    orphans = cluster.open_transactions(name, but={each.prepared.transactional_id for each in listed})
    _check_open(cluster, attempts, what=f"batch {batch} of {name!r}")
    entry = Entry(query=first.query, batch=batch, status=Status.RECORDED, listed=listed, rows=rows)
    try:
        lease = cluster.append(first.lease, entry)
    except LeaseLostError as error:
        if error.refused:  # else the winner may be committing them
            _abort_own(cluster, listed, what=f"batch {batch} of {name!r}")
        raise
    finish(cluster, listed, what=f"batch {batch} of {name!r}")
    for orphan in orphans:
        cluster.abort(orphan)
    _note_done(cluster, lease, entry)


def abort_prepared(cluster: ClusterClient, attempts: Sequence[Attempt | None]) -> None:
    """Abort the prepared transactions of a failed batch if at least one task failed.

    If every attempt succeeded, `commit` was called, and the batch may be in the ledger.
    """
    if None not in attempts:
        return
    for attempt in attempts:
        if attempt is not None and attempt.prepared is not None:
            cluster.end(attempt.prepared, commit=False)


def abort_left_open(cluster: ClusterClient, lease: Lease) -> bool:
    """Abort what the tasks of a failed job left open, if `commit` was not called and no other driver has the lease.

    Return whether no other driver has it.
    """
    # Listed before the lease is checked: if it is still held then, no other driver had begun any of them.
    found = cluster.open_transactions(lease.name)
    held = cluster.holds(lease)
    if held:
        for each in found:
            cluster.abort(each)
    return held


def abort_superseded(cluster: ClusterClient, name: str) -> None:
    """Abort the open transactions of a job that is in Kafka already: those of runs that lost it to another run.

    For a job only, whose one batch is its last: no driver will record any of them.
    """
    # Listed before the ledger is read. What was begun by then and could still be recorded belongs to the run of the
    # newest lease. That run saw no finished job when it took the lease, so no other run has finished the job since.
    found = cluster.open_transactions(name)
    last = cluster.ledger(name).certain() if found else None
    if last is not None and last.status is Status.DONE:
        for each in found:
            if not any(each.is_of(task.prepared) for task in last.listed):
                cluster.abort(each)


def _abort_own(cluster: ClusterClient, listed: Sequence[TaskTransaction], *, what: str) -> None:
    """Abort exactly these transactions, which no ledger entry will ever list. An error is only logged."""
    try:
        for each in listed:
            cluster.end(each.prepared, commit=False)
    except OttlaError as error:
        _log.warning("the transactions of %s, which is not committed, could not all be aborted: %s", what, error)


def _agreed(attempts: Sequence[Attempt], *, batch: int) -> Step:
    """Return the step of the attempts. Raises BatchNotCommittedError unless they are one of each task of one plan."""
    partitions = sorted(attempt.partition for attempt in attempts)
    clusters = {str(attempt.prepared.cluster_id) for attempt in attempts if attempt.prepared is not None}
    problem = None
    if len({(attempt.query, attempt.lease, attempt.step) for attempt in attempts}) > 1:
        problem = "they have different plans, so some are of an earlier attempt of this batch"
    elif len(clusters) > 1:
        problem = (
            f"their transactions are in several clusters, {', '.join(sorted(clusters))}: a name or load balancer in "
            "kafka.bootstrap.servers leads to all of them"
        )
    elif any(attempt.batch != batch for attempt in attempts):
        problem = f"their batch numbers are {', '.join(sorted({str(attempt.batch) for attempt in attempts}))}"
    elif partitions != list(range(len(attempts))):
        problem = f"their Spark partitions are {partitions}"
    if problem is not None:
        raise BatchNotCommittedError(
            f"the {len(attempts)} tasks of batch {batch} do not belong together: {problem}. Nothing was recorded; "
            "start the query again"
        )
    return attempts[0].step


def _prepared(attempts: Sequence[Attempt]) -> list[Attempt]:
    return [attempt for attempt in attempts if attempt.prepared is not None]


def _listed(attempts: Sequence[Attempt]) -> tuple[TaskTransaction, ...]:
    return tuple(
        TaskTransaction(prepared=attempt.prepared, partition=attempt.partition, records=attempt.records)
        for attempt in attempts
        if attempt.prepared is not None
    )


def _age(attempt: Attempt, status: TransactionStatus, now: float) -> float:
    """The age of a transaction, between two limits that need no clock of a broker.

    It is as old as its task took at least, and it was begun after its batch was planned.
    """
    age = max(status.age, attempt.seconds)
    return age if attempt.planned_at is None else min(age, now - attempt.planned_at)


def _check_open(cluster: ClusterClient, attempts: Sequence[Attempt], *, what: str) -> None:
    """Check that each transaction is open with enough time left.

    Else abort all, and raise BatchNotCommittedError, or LeaseLostError if another driver has aborted them.
    """
    lease, listed = attempts[0].lease, _listed(attempts)
    statuses = cluster.statuses([each.prepared for each in listed])
    ages = [_age(attempt, status, cluster.now()) for attempt, status in zip(_prepared(attempts), statuses, strict=True)]
    late = [
        f"{each} is {status.outcome.value}"
        + (f", but close to its time-out: {age:.0f} of {status.timeout:.0f} s are over" if status.is_open else "")
        for each, status, age in zip(listed, statuses, ages, strict=True)
        if not status.is_open or age > status.timeout * ENOUGH_TIME
    ]
    if not late:
        return
    for each in listed:
        cluster.end(each.prepared, commit=False)
    if not all(status.is_open for status in statuses) and not cluster.holds(lease):
        raise LeaseLostError(
            f"{what} is not committed, and none of its rows is visible: another driver has taken the ledger over, and "
            "aborted the transactions of this one. Either two drivers run one query, or another query has the same "
            "transactional.id.prefix: stop one of the two, or give it a prefix of its own"
        )
    raise BatchNotCommittedError(
        f"{what} is not committed: {'; '.join(late)}. None of its rows is visible; Spark's next attempt writes it. If "
        "batches take this long, make them smaller, or raise kafka.transaction.timeout.ms, up to the brokers' "
        "transaction.max.timeout.ms"
    )


def _note_done(cluster: ClusterClient, lease: Lease, entry: Entry) -> None:
    """Record the batch as done, so that later drivers need not request the status of transactions that may be expired.

    An error is only logged: the next driver then requests the status.
    """
    try:
        cluster.append(lease, entry.with_status(Status.DONE))
    except OttlaError as error:
        _log.warning(
            "batch %d of %r is visible, but its completion could not be recorded: %s", entry.batch, lease.name, error
        )
