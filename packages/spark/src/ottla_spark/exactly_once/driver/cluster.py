"""What the decisions need of a Kafka cluster: seven questions and orders, each answered or raised.

`kafka.cluster_client` answers them over the network. Everything that decides is written against this alone, so that it
can be tried with a crash, a lost answer or a second driver between any two of them.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Sequence
from typing import Protocol

import attrs

from ottla.transactions import Outcome, PreparedTransaction
from ottla_spark.exactly_once.ledger.entry import Entry, Ledger
from ottla_spark.exactly_once.ledger.lease import Lease


class Fate(enum.Enum):
    """What has become of a transaction. UNTOLD: no broker can tell any more."""

    OPEN = "open"
    COMMITTED = "committed"
    ABORTED = "aborted"
    UNTOLD = "untold"


@attrs.frozen(kw_only=True)
class TransactionStatus:
    """A transaction's fate; of an open one, how much of its time is left, from 1 down to 0."""

    fate: Fate
    remaining: float = 0.0


@attrs.frozen(kw_only=True)
class Open:
    """A transaction that a task began and nobody has ended."""

    transactional_id: str
    producer_id: int
    epoch: int
    timeout_ms: int = 0

    def is_of(self, prepared: PreparedTransaction) -> bool:
        """Whether it is the very transaction that a task prepared."""
        return (self.transactional_id, self.producer_id, self.epoch) == (
            prepared.transactional_id,
            prepared.producer_id,
            prepared.epoch,
        )


class ClusterClient(Protocol):
    """Every method may raise TransactionTimeoutError, after which what it does may be done or not."""

    def open_transactions(self, name: str, *, but: Collection[str] = ()) -> Sequence[Open]:
        """Those that tasks of this name began and nobody has ended, without these transactional ids."""

    def take_lease(self, name: str) -> Lease:
        """Fence whoever had it; what they were writing to the ledger is in it for good, or not at all."""

    def ledger(self, name: str) -> Ledger:
        """What was written with every earlier lease."""

    def append(self, lease: Lease, entry: Entry | None) -> Lease:
        """Write an entry, or None to forget the last one; the lease for the next one. Raises LeaseLostError."""

    def standings(self, transactions: Sequence[PreparedTransaction]) -> Sequence[TransactionStatus]:
        """What has become of each."""

    def end(self, prepared: PreparedTransaction, *, commit: bool) -> Outcome:
        """End a transaction, as often as wanted."""

    def abort(self, found: Open) -> None:
        """Abort this very transaction, if it is still open."""
