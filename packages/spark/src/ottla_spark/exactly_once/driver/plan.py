"""Preparation of a batch before its tasks begin: take the lease, and end what earlier leases left open.

Afterwards no open transaction of an earlier lease can be recorded. Tasks may reuse its transactional ids, and the batch
in the ledger has ended.
"""

from __future__ import annotations

import attrs

from ottla_spark.exactly_once.driver.cluster import ClusterClient
from ottla_spark.exactly_once.driver.recovery import end_recorded_batch
from ottla_spark.exactly_once.ledger.entry import Entry, Ledger, Status
from ottla_spark.exactly_once.ledger.lease import Lease


@attrs.frozen(kw_only=True)
class Plan:
    """The lease and the ledger's last entry, for every task of a batch; `planned_at` is on the driver's clock."""

    lease: Lease
    last: Entry | None
    planned_at: float | None = None


def plan(cluster: ClusterClient, name: str) -> Plan:
    """Take the lease and end the recorded batch.

    Raises LedgerMismatchError for a ledger in doubt, and the errors of `end_recorded_batch`. Open transactions then
    stay open.
    """
    # Listed before the lease is taken, so each was begun under an earlier lease and can no longer be recorded.
    before = cluster.open_transactions(name)
    lease, ledger = leased(cluster, name)
    last = ledger.certain()
    if ledger.restate:
        lease = cluster.append(lease, last)
    if last is not None and last.status is Status.RECORDED:
        lease, last = end_recorded_batch(cluster, lease, last)
    listed = last.listed if last is not None else ()
    for found in before:
        if not any(found.is_of(each.prepared) for each in listed):
            cluster.abort(found)
    return Plan(lease=lease, last=last, planned_at=cluster.now())


def leased(cluster: ClusterClient, name: str) -> tuple[Lease, Ledger]:
    """Take the lease, then read the ledger, which no other driver can change any more."""
    lease = cluster.take_lease(name)
    ledger = cluster.ledger(name)
    return attrs.evolve(lease, after=ledger.end, partition=ledger.partition), ledger
