"""The commit of a batch: check it, record it, make it visible. The ledger's entry is the commit point.

Until the entry is written, every transaction of the batch can be aborted; afterwards none may be.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import attrs

from ottla.errors import OttlaError
from ottla_spark.exactly_once.attempt import Attempt
from ottla_spark.exactly_once.driver.cluster import ClusterClient, OpenTaskTransaction, TransactionStatus
from ottla_spark.exactly_once.driver.recovery import finish
from ottla_spark.exactly_once.errors import BatchNotCommittedError, EntryNotWrittenError, LeaseLostError
from ottla_spark.exactly_once.ledger.entry import Entry, Status, Step, TaskTransaction, check_rows
from ottla_spark.exactly_once.ledger.lease import Lease
from ottla_spark.exactly_once.ledger.row_topics import check_topics, recorded_topics

_log = logging.getLogger(__name__)

ENOUGH_TIME: Final = 0.5
"""Share of each transaction's time-out that must remain when its batch is recorded."""

ABORT_WITHIN: Final = 10.0
"""Seconds to abort one transaction of a batch that is not committed, or of other attempts of one that is."""

ABORT_ALL_WITHIN: Final = 60.0
"""Seconds after which no other transaction is tried once one could not be aborted: the next driver finds the rest."""


def commit(cluster: ClusterClient, results: Sequence[Attempt | None], *, batch: int) -> None:
    """Make a batch visible as a whole and once. *results* are those of its tasks, None where one is missing.

    Raises BatchNotCommittedError if none of its rows will become visible, LeaseLostError, and LedgerMismatchError if
    the batch that is in the ledger had other rows or topics. After any other error the batch may be in the ledger or
    not; the next driver reads it there.
    """
    attempts = [each for each in results if each is not None]
    if not results:
        return
    if len(attempts) < len(results):
        raise BatchNotCommittedError(
            f"{len(results) - len(attempts)} of the {len(results)} tasks of batch {batch} have no result. Nothing was "
            "recorded; start the query again"
        )
    step = _agreed(attempts, batch=batch)
    first, tasks = attempts[0], _with_transactions(attempts)
    listed = tuple(transaction for _attempt, transaction in tasks)
    name = first.lease.name
    rows = sum(attempt.rows for attempt in attempts)
    topics = {topic for attempt in attempts for topic in attempt.topics}
    if step is Step.SKIP:  # `plan` has finished or voided the recorded batch
        check_topics(topics, first.topics_in_ledger, batch=batch, name=name)
        check_rows(rows, first.rows_in_ledger, batch=batch, name=name)
        return
    what = f"batch {batch} of {name!r}"
    if any(attempt.superseded for attempt in attempts):
        _abort_all(cluster, listed, what=what)
        raise _lease_lost(what)
    # List them before the ledger is written: if the write succeeds, no newer lease existed when they were listed.
    orphans = cluster.open_transactions(name, but={each.prepared.transactional_id for each in listed})
    since = cluster.now()
    statuses = _check_open(cluster, first.lease, tasks, what=what)
    entry = Entry(
        query=first.query,
        batch=batch,
        status=Status.RECORDED,
        listed=listed,
        rows=rows,
        topics=recorded_topics(topics),
    )
    try:
        lease = cluster.append(first.lease, entry)
    except LeaseLostError as error:
        if error.refused:  # else the winner may be committing them
            _abort_all(cluster, listed, what=what)
        raise
    except EntryNotWrittenError as error:
        _abort_all(cluster, listed, what=what)
        raise BatchNotCommittedError(f"{what} is not committed, and none of its rows is visible: {error}") from error
    finish(cluster, entry, statuses, name=name, since=since)
    _note_done(cluster, lease, entry)
    _abort_orphans(cluster, orphans, what=what)


def abort_prepared(cluster: ClusterClient, attempts: Sequence[Attempt | None]) -> None:
    """Abort the transactions of a failed batch if at least one task failed, and so what killed tasks left open.

    If every attempt succeeded, `commit` was called, and the batch may be in the ledger.
    """
    if None in attempts:
        tasks = _with_transactions([attempt for attempt in attempts if attempt is not None])
        batches = sorted({f"batch {attempt.batch} of {attempt.lease.name!r}" for attempt, _transaction in tasks})
        _abort_all(cluster, [transaction for _attempt, transaction in tasks], what=" and ".join(batches))
        for lease in {attempt.lease: None for attempt in attempts if attempt is not None}:
            abort_left_open(cluster, lease)


def abort_left_open(cluster: ClusterClient, lease: Lease) -> bool:
    """Abort what the tasks of a failed job left open, if `commit` was not called and no other driver has the lease.

    Return whether no other driver has it. Raises an OttlaError if some could not be aborted.
    """
    # Renewed before they are listed. A task that begins its transaction later sees that the lease is another one, and
    # aborts the transaction itself: Spark stops the tasks of a failed job seconds after it has reported the failure.
    renewed = cluster.renew_lease(lease)
    found = cluster.open_transactions(lease.name) if renewed is not None else ()
    # Listed before the lease is checked: if it is still held then, no other driver had begun any of them.
    held = renewed is not None and cluster.holds(renewed)
    if held and (failed := _errors_of(cluster, [partial(cluster.abort, each, within=ABORT_WITHIN) for each in found])):
        raise failed[0]
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


def _abort_all(cluster: ClusterClient, transactions: Sequence[TaskTransaction], *, what: str) -> None:
    """Abort exactly these transactions, which no ledger entry will ever list. Errors are only logged."""
    aborts = [partial(cluster.end, each.prepared, commit=False, within=ABORT_WITHIN) for each in transactions]
    if failed := _errors_of(cluster, aborts):
        _log.warning("the transactions of %s, which is not committed, could not all be aborted: %s", what, failed[0])


def _abort_orphans(cluster: ClusterClient, orphans: Sequence[OpenTaskTransaction], *, what: str) -> None:
    """Abort transactions of other attempts. Errors are only logged: the batch is visible, and the next plan does it."""
    if failed := _errors_of(cluster, [partial(cluster.abort, orphan, within=ABORT_WITHIN) for orphan in orphans]):
        _log.warning(
            "%s is visible, but not every transaction of its other attempts could be aborted: %s", what, failed[0]
        )


def _errors_of(cluster: ClusterClient, aborts: Sequence[Callable[[], object]]) -> Sequence[OttlaError]:
    """Make these calls, also after one that fails, unless they take too long. Return the errors."""
    end = cluster.now() + ABORT_ALL_WITHIN
    failed: list[OttlaError] = []
    for abort in aborts:
        try:
            abort()
        except OttlaError as error:
            failed.append(error)
            if cluster.now() >= end:
                break
    return failed


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


def _with_transactions(attempts: Sequence[Attempt]) -> Sequence[tuple[Attempt, TaskTransaction]]:
    """Return the attempts that have a transaction, each with what an entry says of it."""
    return [
        (
            attempt,
            TaskTransaction(prepared=attempt.prepared, partition=attempt.partition, records=attempt.records),
        )
        for attempt in attempts
        if attempt.prepared is not None
    ]


def _behind(tasks: Sequence[tuple[Attempt, TaskTransaction]], statuses: Sequence[TransactionStatus]) -> float:
    """Return by how many seconds at least our clock is behind that of the brokers.

    A task knows how long ago its transaction began when it ended; by our clock, that is less if our clock is behind. In
    one batch the tasks that ended last say most, and nothing but the commit follows them.
    """
    pairs = zip(tasks, statuses, strict=True)
    return max([0.0, *(attempt.open_for - status.age for (attempt, _), status in pairs if status.is_open)])


def _age(attempt: Attempt, status: TransactionStatus, *, now: float, behind: float) -> float:
    """The age of a transaction; it was begun after its batch was planned, whatever the clocks say."""
    age = status.age + behind
    return age if attempt.planned_at is None else min(age, now - attempt.planned_at)


def _check_open(
    cluster: ClusterClient, lease: Lease, tasks: Sequence[tuple[Attempt, TaskTransaction]], *, what: str
) -> Sequence[TransactionStatus]:
    """Check that each transaction is open with enough time left; return their statuses.

    Else abort all, and raise BatchNotCommittedError, or LeaseLostError if another driver has aborted them.
    """
    statuses = cluster.statuses([transaction.prepared for _attempt, transaction in tasks])
    late, checked = [], []
    behind = _behind(tasks, statuses)
    for (attempt, transaction), status in zip(tasks, statuses, strict=True):
        age = _age(attempt, status, now=cluster.now(), behind=behind)
        checked.append(attrs.evolve(status, age=age))
        if not status.is_open:
            late.append(f"{transaction} is {status.outcome.value}")
        elif age > status.timeout * ENOUGH_TIME:
            over = f"{age:.0f} of {status.timeout:.0f} s are over"
            late.append(f"{transaction} is {status.outcome.value}, but close to its time-out: {over}")
    if not late:
        return checked
    _abort_all(cluster, [transaction for _attempt, transaction in tasks], what=what)
    if not all(status.is_open for status in statuses) and not cluster.holds(lease):
        raise _lease_lost(what)
    raise BatchNotCommittedError(
        f"{what} is not committed: {'; '.join(late)}. None of its rows is visible; Spark's next attempt writes it. If "
        "batches take this long, make them smaller, or raise kafka.transaction.timeout.ms, up to the brokers' "
        "transaction.max.timeout.ms"
    )


def _lease_lost(what: str) -> LeaseLostError:
    return LeaseLostError(
        f"{what} is not committed, and none of its rows is visible: another driver has taken the ledger over, and "
        "aborted the transactions of this one. Either two drivers run one query, or another query has the same "
        "transactional.id.prefix: stop one of the two, or give it a prefix of its own"
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
