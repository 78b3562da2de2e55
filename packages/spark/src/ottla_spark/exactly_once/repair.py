"""What a human may decide about a ledger: to go on behind what is lost, to forget what was written, to believe it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from ottla.errors.secret import hide_settings
from ottla_spark.errors import InvalidWriteError
from ottla_spark.exactly_once.driver.cluster import ClusterClient
from ottla_spark.exactly_once.errors import LedgerMismatchError
from ottla_spark.exactly_once.kafka.client_cache import connected
from ottla_spark.exactly_once.ledger.entry import Entry, Status
from ottla_spark.exactly_once.settings import Settings, read_settings
from ottla_spark.options.options import read_hidden


def accept_loss(options: Mapping[str, str], *, job_id: str | None = None) -> Entry:
    """Let the query, or the job, go on behind a batch that DataLossError told of; its entry as it is now.

    *options* are those of the write. What of the batch is visible stays so, and its other rows are missing.
    """
    options = hide_settings(options)
    settings = _settings(options, job_id)
    with connected(settings) as cluster:
        return take_as_done(cluster, settings.name)


def forget(options: Mapping[str, str], *, job_id: str | None = None) -> Entry | None:
    """Forget what was written under this prefix, or for this job, so that it may come again; what is forgotten."""
    options = hide_settings(options)
    settings = _settings(options, job_id)
    with connected(settings) as cluster:
        return erase(cluster, settings.name)


def adopt(options: Mapping[str, str], *, job_id: str | None = None) -> Entry:
    """Take over the last entry under this prefix, or of this job, though nobody can tell any more whose it is.

    For what LedgerMismatchError told of, once you know that this query or job wrote it. Returns the entry.
    """
    options = hide_settings(options)
    settings = _settings(options, job_id)
    with connected(attrs.evolve(settings, believe_all=True)) as cluster:
        return take_over(cluster, settings.name)


def take_over(cluster: ClusterClient, name: str) -> Entry:
    """Write the last entry again under a lease that later drivers know. Raises LedgerMismatchError when there is
    none."""
    lease = cluster.take_lease(name)
    last = cluster.ledger(name).certain()
    if last is None:
        raise LedgerMismatchError(f"there is nothing to take over: the ledger of {name!r} has no entry")
    cluster.append(lease, last)
    return last


def take_as_done(cluster: ClusterClient, name: str) -> Entry:
    """Note a recorded batch as done, as it is. Raises LedgerMismatchError when there is none."""
    lease = cluster.take_lease(name)
    last = cluster.ledger(name).certain()
    if last is None or last.status is not Status.RECORDED:
        raise LedgerMismatchError(
            f"there is nothing to accept: the ledger of {name!r} has no batch that is not settled"
        )
    accepted = last.with_status(Status.DONE)
    cluster.append(lease, accepted)
    return accepted


def erase(cluster: ClusterClient, name: str) -> Entry | None:
    """Leave nothing of the name in the ledger, whatever lies there; the entry that it had, as far as that is known."""
    lease = cluster.take_lease(name)
    last = cluster.ledger(name).last
    cluster.append(lease, None)
    return last


def _settings(options: Mapping[str, Any], job_id: str | None) -> Settings:
    problems: list[str] = []
    found = read_hidden({"guarantee": "exactly-once", **options}, problems=problems)
    if problems:
        raise InvalidWriteError(problems)
    return read_settings(found, job=job_id)
