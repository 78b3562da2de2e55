"""Recovery of a recorded batch whose driver was lost before the batch was done: finished, void, or lost in part.

It reads the status of all transactions first, because some may have timed out. While none is committed, the whole batch
can be aborted; once one is, the others can only be committed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ottla.errors import OttlaError, TransactionTimeoutError
from ottla.transactions import Outcome
from ottla_spark.exactly_once.driver.cluster import ClusterClient, TransactionOutcome, TransactionStatus
from ottla_spark.exactly_once.errors import BatchIncompleteError, DataLossError
from ottla_spark.exactly_once.ledger.entry import Entry, Status, TaskTransaction
from ottla_spark.exactly_once.ledger.lease import Lease

ROUNDS: Final = (2.0, 8.0, 30.0, 120.0)
"""Seconds for each transaction, round by round: a coordinator that is down must not keep the others' waiting."""

GIVE_UP_AFTER: Final = 120.0
"""Seconds without a response after which `finish` gives up."""

MAX_NAMED: Final = 10
"""Transactions that a BatchIncompleteError names for each reason."""

_NO_TIMEOUT: Final = (2**31 - 1) / 1000
"""Time-out of transactions with two-phase commit, which have none."""


def end_recorded_batch(cluster: ClusterClient, lease: Lease, entry: Entry) -> tuple[Lease, Entry]:
    """Finish or void a recorded batch; return the next lease and the new entry.

    Raises DataLossError if a part of it is visible and the rest was aborted, or if a transaction's outcome is unknown.
    Raises BatchIncompleteError if a transaction could not be committed.
    """
    since = cluster.now()
    statuses = cluster.statuses([each.prepared for each in entry.listed])
    outcomes = [status.outcome for status in statuses]
    if TransactionOutcome.UNKNOWN in outcomes or (
        TransactionOutcome.COMMITTED in outcomes and TransactionOutcome.ABORTED in outcomes
    ):
        raise _lost(lease.name, entry, outcomes)
    if TransactionOutcome.ABORTED in outcomes:
        status = _take_back(cluster, lease.name, entry)
    else:
        finish(cluster, entry, statuses, name=lease.name, since=since)
        status = Status.DONE
    ended = entry.with_status(status)
    return cluster.append(lease, ended), ended


def finish(
    cluster: ClusterClient, entry: Entry, statuses: Sequence[TransactionStatus], *, name: str, since: float
) -> None:
    """Commit the transactions of a recorded batch that are open; by *statuses*, the others are committed.

    *since* is the time of the statuses. Tries all of them before it raises. Raises DataLossError if a part of the batch
    is visible and the rest was aborted, and BatchIncompleteError if a transaction could not be committed otherwise; a
    restart then decides.
    """
    tried = [each for each, status in zip(entry.listed, statuses, strict=True) if status.is_open]
    results = _commit_each(cluster, tried)
    failed = [(each, end) for each, end in zip(tried, results, strict=True) if not _committed(end)]
    if not failed:
        return
    ends = {each.prepared: end for each, end in failed}
    outcomes = [_outcome(ends.get(each.prepared, Outcome.COMMITTED)) for each in entry.listed]
    if TransactionOutcome.COMMITTED in outcomes and TransactionOutcome.ABORTED in outcomes:
        raise _lost(name, entry, outcomes)
    in_time = _in_time(statuses, cluster.now() - since)
    raise BatchIncompleteError(
        f"batch {entry.batch} of {name!r} is in the ledger, but {len(failed)} of {len(entry.listed)} transactions "
        f"could not be committed: {_reasons(failed)}. Start the query again{in_time}: it commits those that are open, "
        "writes the batch again if none of its rows is visible, or reports which rows are lost"
    ) from next((end for _each, end in failed if isinstance(end, OttlaError)), None)


def _commit_each(cluster: ClusterClient, listed: Sequence[TaskTransaction]) -> Sequence[Outcome | OttlaError]:
    """Return what became of each transaction."""
    not_tried = TransactionTimeoutError(f"not tried, since there was no response for {GIVE_UP_AFTER:.0f} s")
    results: list[Outcome | OttlaError] = [not_tried] * len(listed)
    waiting: Sequence[int] = range(len(listed))
    responded_at = cluster.now()
    for seconds in ROUNDS:
        for number in waiting:
            remaining = responded_at + GIVE_UP_AFTER - cluster.now()
            if remaining <= 0:
                return results
            within = min(seconds, remaining)
            try:
                results[number] = cluster.end(listed[number].prepared, commit=True, within=within)
            except OttlaError as error:
                results[number] = error
            if not isinstance(results[number], TransactionTimeoutError):
                responded_at = cluster.now()
        waiting = [number for number in waiting if isinstance(results[number], TransactionTimeoutError)]
    return results


def _committed(end: Outcome | OttlaError) -> bool:
    return isinstance(end, Outcome) and end.committed


def _outcome(end: Outcome | OttlaError) -> TransactionOutcome:
    """Return an outcome that is certain. A fenced one is not: a newer driver may have committed the transaction."""
    match end:
        case Outcome.COMMITTED | Outcome.ALREADY_COMMITTED:
            return TransactionOutcome.COMMITTED
        case Outcome.ABORTED | Outcome.ALREADY_ABORTED:
            return TransactionOutcome.ABORTED
        case _:
            return TransactionOutcome.UNKNOWN


def _reasons(failed: Sequence[tuple[TaskTransaction, Outcome | OttlaError]]) -> str:
    by_reason: dict[str, list[str]] = {}
    for each, end in failed:
        by_reason.setdefault(end.value if isinstance(end, Outcome) else str(end), []).append(str(each))
    return "; ".join(f"{_some(names)}: {reason}" for reason, names in by_reason.items())


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return ", ".join(names[:MAX_NAMED]) + more


def _in_time(statuses: Sequence[TransactionStatus], seconds: float) -> str:
    """Return for how long the open transactions stay open, so many seconds after their statuses."""
    limited = [each for each in statuses if each.is_open and each.timeout < _NO_TIMEOUT]
    remaining = min((each.timeout - each.age for each in limited), default=None)
    return "" if remaining is None else f" within {max(remaining - seconds, 0.0):.0f} s, before they time out"


def _take_back(cluster: ClusterClient, name: str, entry: Entry) -> Status:
    """Abort a batch of which no row was visible. Another driver may be committing it at the same time."""
    ended = [cluster.end(each.prepared, commit=False) for each in entry.listed]
    if any(outcome.committed for outcome in ended):
        outcomes = [
            TransactionOutcome.COMMITTED if outcome.committed else TransactionOutcome.ABORTED for outcome in ended
        ]
        raise _lost(name, entry, outcomes)
    return Status.VOID


def _lost(name: str, entry: Entry, outcomes: Sequence[TransactionOutcome]) -> DataLossError:
    ended = zip(entry.listed, outcomes, strict=True)
    by_outcome = "; ".join(f"{each} is {outcome.value}" for each, outcome in ended)
    return DataLossError(
        f"batch {entry.batch} of {name!r} is in the ledger, but its transactions do not all have the same outcome, "
        f"because they were not all ended before their time-out ({by_outcome}). The rows of the aborted ones are "
        "missing. Write them by hand if you need them, then call ottla_spark.exactly_once.accept_loss to let the query "
        "continue after this batch"
    )
