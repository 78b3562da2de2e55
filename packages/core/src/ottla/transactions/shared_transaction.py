"""A transaction in which several producers send records, as a value that each of them passes to join it."""

from __future__ import annotations

import attrs


@attrs.frozen(kw_only=True)
class SharedTransaction:
    """A transaction that `ottla.transactions.sharing` opens and ends, and `Producer.join_transaction` joins.

    A value that can be pickled. Each partition must be written by one producer only: two would use the same sequence
    numbers, and the broker would acknowledge and drop the second one's batches as duplicates.
    Each joiner calls `leave_transaction` and reports to the owner how that ended; the owner commits only if all of them
    left without an error. `level` is the `transaction.version` of the transaction. `cluster_id` is the id of its
    cluster, which joiners and the owner compare; None if the brokers have none.
    """

    transactional_id: str
    producer_id: int
    epoch: int
    level: int
    cluster_id: str | None = None
