"""A transaction that several producers write into: what each of them has to know to join it."""

from __future__ import annotations

import attrs


@attrs.frozen(kw_only=True)
class SharedTransaction:
    """Opened and ended by one owner, `ottla.transactions.sharing`; joined by producers, `Producer.join_transaction`.

    A value that can be pickled. The rules for those who join: each partition is written by one producer only, for two
    would number their batches alike, and a broker takes the second for a repetition of the first: it acknowledges and
    drops it. Each joiner calls `leave_transaction` and tells the owner how that ended; the owner commits only when all
    of them left well. `level` is the `transaction.version` that it is of.
    """

    transactional_id: str
    producer_id: int
    epoch: int
    level: int
