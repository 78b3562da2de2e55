"""Interface of the Kafka cluster that the driver's decisions use: its operations, and a clock.

`kafka.cluster_client` implements it over the network. All decisions use only this interface, so that tests can inject a
crash, a lost response or a second driver between any two operations.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Sequence
from typing import Protocol

import attrs

from ottla.transactions import Outcome, PreparedTransaction
from ottla_spark.exactly_once.ledger.entry import Entry, Ledger
from ottla_spark.exactly_once.ledger.lease import Lease


class TransactionOutcome(enum.Enum):
    """The outcome of a transaction. UNKNOWN: no broker knows it any more."""

    OPEN = "open"
    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


@attrs.frozen(kw_only=True)
class TransactionStatus:
    """A transaction's outcome.

    An open one also has its time-out and its age in seconds. The age is as wrong as the clocks of two machines are: it
    began by the broker's, and now is by ours.
    """

    outcome: TransactionOutcome
    age: float = 0.0
    timeout: float = 0.0

    @property
    def is_open(self) -> bool:
        """Return whether the transaction has not ended."""
        return self.outcome is TransactionOutcome.OPEN


@attrs.frozen(kw_only=True)
class OpenTaskTransaction:
    """A transaction that a task began and that has not ended, and the id of its cluster if that has one."""

    transactional_id: str
    producer_id: int
    epoch: int
    timeout_ms: int = 0
    cluster_id: str | None = None

    def is_of(self, prepared: PreparedTransaction) -> bool:
        """Return whether this is exactly the transaction that a task prepared."""
        return (self.transactional_id, self.producer_id, self.epoch) == (
            prepared.transactional_id,
            prepared.producer_id,
            prepared.epoch,
        )


class ClusterClient(Protocol):
    """Every operation may raise TransactionTimeoutError; it may have been carried out nevertheless."""

    def now(self) -> float:
        """Seconds on a clock that never jumps, the same one in all processes of the driver's machine."""

    def open_transactions(self, name: str, *, but: Collection[str] = ()) -> Sequence[OpenTaskTransaction]:
        """Return the open transactions of this name's tasks, except those with the transactional ids in *but*."""

    def take_lease(self, name: str) -> Lease:
        """Take the lease and fence its holder, whose last write to the ledger is then complete or aborted."""

    def holds(self, lease: Lease) -> bool:
        """Return whether no other driver has taken the lease since; False when that is unknown."""

    def renew_lease(self, lease: Lease) -> Lease | None:
        """Take the lease again, with a newer epoch, unless another driver has taken it since: then return None.

        Tasks that were planned under *lease* then see that they belong to a batch that is over.
        """

    def ledger(self, name: str) -> Ledger:
        """Return the ledger as written under all earlier leases."""

    def append(self, lease: Lease, entry: Entry | None) -> Lease:
        """Write an entry, or with None delete the last one; return the lease to use next.

        Raises LeaseLostError, after which the entry may be written or not, unless it was refused.
        """

    def statuses(self, transactions: Sequence[PreparedTransaction]) -> Sequence[TransactionStatus]:
        """Return the status of each transaction."""

    def end(self, prepared: PreparedTransaction, *, commit: bool, within: float | None = None) -> Outcome:
        """End a transaction, *within* so many seconds if that is given; repeated calls are safe."""

    def abort(self, found: OpenTaskTransaction, *, within: float | None = None) -> None:
        """Abort the transaction *found* if it is still open, and no later one of its transactional id.

        *within* is as for `end`.
        """
