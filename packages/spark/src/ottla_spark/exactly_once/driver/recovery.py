"""Recovery of a recorded batch whose driver was lost before the batch was done: finished, void, or lost in part.

It reads the status of all transactions first, because some may have timed out. While none is committed, the whole batch
can be aborted; once one is, the others can only be committed.
"""

from __future__ import annotations

from collections.abc import Sequence

from ottla_spark.exactly_once.driver.cluster import ClusterClient, TransactionOutcome
from ottla_spark.exactly_once.errors import BatchIncompleteError, DataLossError
from ottla_spark.exactly_once.ledger.entry import Entry, Status, TaskTransaction
from ottla_spark.exactly_once.ledger.lease import Lease


def end_recorded_batch(cluster: ClusterClient, lease: Lease, entry: Entry) -> tuple[Lease, Entry]:
    """Finish or void a recorded batch; return the next lease and the new entry.

    Raises DataLossError if a part of it is visible and the rest was aborted, or if a transaction's outcome is unknown.
    Raises BatchIncompleteError if a transaction could not be committed.
    """
    outcomes = [status.outcome for status in cluster.statuses([each.prepared for each in entry.listed])]
    if TransactionOutcome.UNKNOWN in outcomes or (
        TransactionOutcome.COMMITTED in outcomes and TransactionOutcome.ABORTED in outcomes
    ):
        raise _lost(lease.name, entry, outcomes)
    if TransactionOutcome.ABORTED in outcomes:
        status = _take_back(cluster, lease.name, entry)
    else:
        open_still = [
            each for each, outcome in zip(entry.listed, outcomes, strict=True) if outcome is TransactionOutcome.OPEN
        ]
        finish(cluster, open_still, what=f"batch {entry.batch} of {lease.name!r}")
        status = Status.DONE
    ended = entry.with_status(status)
    return cluster.append(lease, ended), ended


def finish(cluster: ClusterClient, listed: Sequence[TaskTransaction], *, what: str) -> None:
    """Commit all these transactions. Raises BatchIncompleteError if one fails; a restart then decides."""
    failed = []
    for each in listed:
        outcome = cluster.end(each.prepared, commit=True)
        if not outcome.committed:
            failed.append(f"{each}: {outcome.value}")
    if failed:
        raise BatchIncompleteError(
            f"{what} is in the ledger, but {len(failed)} of {len(listed)} transactions could not be committed: "
            f"{'; '.join(failed)}. Start the query again: it commits them, or reports which rows are lost"
        )


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
    response = zip(entry.listed, outcomes, strict=True)
    by_outcome = "; ".join(f"{each} is {outcome.value}" for each, outcome in response)
    return DataLossError(
        f"batch {entry.batch} of {name!r} is in the ledger, but its transactions do not all have the same outcome, "
        f"because no driver was running to end them in time ({by_outcome}). The rows of the aborted ones are missing. "
        "Write them by hand if you need them, then call ottla_spark.exactly_once.accept_loss to let the query continue "
        "after this batch"
    )
