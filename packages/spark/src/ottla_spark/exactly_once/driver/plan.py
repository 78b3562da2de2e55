"""What is done before the tasks of a batch may begin: the lease is taken, and what earlier leases left is ended.

Afterwards no transaction of an earlier lease is open that could ever be recorded, so that tasks may use its
transactional ids again, and what they find in the ledger is settled.
"""

from __future__ import annotations

import attrs

from ottla_spark.exactly_once.driver.cluster import ClusterClient
from ottla_spark.exactly_once.driver.recovery import settle
from ottla_spark.exactly_once.ledger.entry import Entry, Status
from ottla_spark.exactly_once.ledger.lease import Lease


@attrs.frozen(kw_only=True)
class Plan:
    """What every task of a batch is told: under which lease it writes, and what is in the ledger."""

    lease: Lease
    last: Entry | None


def plan(cluster: ClusterClient, name: str) -> Plan:
    """Take the lease and settle what is there.

    Raises LedgerMismatchError for a ledger in doubt, and what `settle` raises; then nothing else was touched.
    """
    # Looked for before the lease is taken, so each was begun under an earlier lease: nobody can record it any more.
    before = cluster.open_transactions(name)
    lease = cluster.take_lease(name)
    ledger = cluster.ledger(name)
    lease, last = attrs.evolve(lease, after=ledger.end), ledger.certain()
    if ledger.restate:
        lease = cluster.append(lease, last)
    if last is not None and last.status is Status.RECORDED:
        lease, last = settle(cluster, lease, last)
    listed = last.listed if last is not None else ()
    for found in before:
        if not any(found.is_of(each.prepared) for each in listed):
            cluster.abort(found)
    return Plan(lease=lease, last=last)
