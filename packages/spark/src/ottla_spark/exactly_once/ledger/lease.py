"""Who may write the ledger now: the one who took the lease last. Brokers keep it; here it is compared."""

from __future__ import annotations

import attrs


@attrs.frozen(kw_only=True)
class Lease:
    """The right to write one name's ledger: a producer id and epoch of the name's own transactional id.

    `sequence` numbers its next record, `level` is the cluster's `transaction.version`, and `after` is where the ledger
    ended when the lease was taken, which orders leases whose producer ids differ.
    """

    name: str
    producer_id: int
    epoch: int
    level: int
    sequence: int = 0
    after: int = -1

    @property
    def transactional_id(self) -> str:
        """The id that taking a lease initializes, which fences whoever had it."""
        return lease_id(self.name)

    def newer_than(self, other: Lease) -> bool:
        """Whether it was taken later; False when that cannot be told."""
        if self.producer_id == other.producer_id:
            return self.epoch > other.epoch
        return self.after > other.after


def lease_id(name: str) -> str:
    """The transactional id behind a name's lease."""
    return f"{name}/lease"
