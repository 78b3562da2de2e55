"""The right to write the ledger: the driver that took the lease last has it. Brokers keep leases."""

from __future__ import annotations

import attrs


@attrs.frozen(kw_only=True)
class Lease:
    """The right to write one name's ledger: a producer id and epoch of the name's own transactional id.

    `sequence` numbers its next record in `partition` of the ledger topic, -1 before the ledger was read. `level` is the
    cluster's `transaction.version`, and `after` is the ledger's end when the lease was taken, which orders leases whose
    producer ids differ.
    """

    name: str
    producer_id: int
    epoch: int
    level: int
    sequence: int = 0
    after: int = -1
    partition: int = -1

    @property
    def transactional_id(self) -> str:
        """The id that taking a lease initializes, which fences the previous holder."""
        return lease_id(self.name)

    def newer_than(self, other: Lease) -> bool:
        """Return whether this lease was taken later; False when that is unknown."""
        if self.producer_id == other.producer_id:
            return self.epoch > other.epoch
        return self.after > other.after


def lease_id(name: str) -> str:
    """Return the transactional id of a name's lease."""
    return f"{name}/lease"
