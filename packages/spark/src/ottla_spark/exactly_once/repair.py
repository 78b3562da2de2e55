"""Repair functions for a ledger: accept lost or other rows, forget the last entry, or adopt it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import attrs

from ottla.errors import OttlaError
from ottla.errors.secret import hide_settings
from ottla_spark.exactly_once.driver.cluster import ClusterClient, TransactionOutcome
from ottla_spark.exactly_once.driver.plan import leased
from ottla_spark.exactly_once.errors import LedgerMismatchError
from ottla_spark.exactly_once.kafka.client_cache import connected
from ottla_spark.exactly_once.ledger.entry import Entry, Status
from ottla_spark.exactly_once.settings import Settings, read_with_guarantee
from ottla_spark.options.write_options import GivenOptions

_log = logging.getLogger(__name__)


def accept_loss(options: GivenOptions, *, job_id: str | None = None) -> Entry:
    """Let the query or job continue after a batch that DataLossError reported; return the new ledger entry.

    *options* are those of the write. The batch's visible rows stay visible, and its other rows are missing: of its
    transactions, those that are still open are aborted.
    """
    options = hide_settings(options)
    settings = _settings(options, job_id)
    with connected(settings) as cluster:
        return take_as_done(cluster, settings.name)


def accept_other_rows(options: GivenOptions) -> Entry:
    """Let the query continue after a batch that Spark runs again with another number of rows, or with other topics.

    Returns the new entry. Use it after LedgerMismatchError has said so. The rows that are in Kafka remain; those that
    Spark has now are not written.
    """
    options = hide_settings(options)
    settings = _settings(options, None)
    with connected(settings) as cluster:
        return take_any_rows(cluster, settings.name)


def forget(options: GivenOptions, *, job_id: str | None = None) -> Entry | None:
    """Forget the last entry under this prefix or of this job, so that its batch can come again; return the entry.

    Aborts the open transactions of the query or the job, which only a driver of that entry could have committed.
    """
    options = hide_settings(options)
    settings = _settings(options, job_id)
    with connected(settings) as cluster:
        return erase(cluster, settings.name)


def adopt(options: GivenOptions, *, job_id: str | None = None) -> Entry:
    """Take over the last entry under this prefix or of this job, although brokers do not know its writer any more.

    Use it after LedgerMismatchError, once you know that this query or job wrote the entry. Returns the entry.
    """
    options = hide_settings(options)
    settings = _settings(options, job_id)
    with connected(attrs.evolve(settings, count_all_writers=True)) as cluster:
        return take_over(cluster, settings.name)


def take_over(cluster: ClusterClient, name: str) -> Entry:
    """Write the last entry again under the current lease. Raises LedgerMismatchError when there is none."""
    lease, ledger = leased(cluster, name)
    last = ledger.certain()
    if last is None:
        raise LedgerMismatchError(f"there is nothing to take over: the ledger of {name!r} has no entry")
    cluster.append(lease, last)
    return last


def take_as_done(cluster: ClusterClient, name: str) -> Entry:
    """Mark the last batch as done without its missing rows. Raises LedgerMismatchError if no batch is unfinished."""
    lease, ledger = leased(cluster, name)
    last = ledger.certain()
    if last is None or last.status is not Status.RECORDED:
        raise LedgerMismatchError(f"there is nothing to accept: the ledger of {name!r} has no unfinished batch")
    _abort_rest(cluster, last)
    accepted = last.with_status(Status.DONE)
    cluster.append(lease, accepted)
    return accepted


def _abort_rest(cluster: ClusterClient, entry: Entry) -> None:
    """Abort the open transactions of a batch that has lost a part: no later driver would end them.

    Without a loss a driver may still be committing them.
    """
    statuses = cluster.statuses([each.prepared for each in entry.listed])
    if any(status.outcome in (TransactionOutcome.ABORTED, TransactionOutcome.UNKNOWN) for status in statuses):
        for each, status in zip(entry.listed, statuses, strict=True):
            if status.is_open:
                cluster.end(each.prepared, commit=False)


def take_any_rows(cluster: ClusterClient, name: str) -> Entry:
    """Let the last batch have any rows when it is run again. Raises LedgerMismatchError without such a batch.

    An unfinished batch keeps its status, so the next driver still finishes it.
    """
    lease, ledger = leased(cluster, name)
    last = ledger.certain()
    if last is None or last.status is Status.VOID:
        raise LedgerMismatchError(f"there is nothing to accept: the ledger of {name!r} has no batch that is in Kafka")
    accepted = attrs.evolve(last, rows=None, topics=None)
    cluster.append(lease, accepted)
    return accepted


def erase(cluster: ClusterClient, name: str) -> Entry | None:
    """Delete the ledger entry of *name*, even an unreadable one. Returns it; None if it was unreadable or missing."""
    # Listed before the lease is taken, so each was begun under an earlier lease and can no longer be recorded.
    before = cluster.open_transactions(name)
    lease, ledger = leased(cluster, name)
    last = ledger.last
    cluster.append(lease, None)
    try:
        for found in before:
            cluster.abort(found)
    except OttlaError as error:
        _log.warning("the entry of %r is forgotten, but not every open transaction could be aborted: %s", name, error)
    return last


def _settings(options: Mapping[str, Any], job_id: str | None) -> Settings:
    _, settings = read_with_guarantee(options, job=job_id)
    return settings
