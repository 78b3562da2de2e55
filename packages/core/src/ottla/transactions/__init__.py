"""Transactions that another process ends, or that are ended after their producer is gone.

`complete` ends what `Producer.prepare_transaction` returned; `leftovers` lists open transactions, and `abort` ends one.
`sharing` opens and ends transactions that producers of several processes join. `committed_offset` and `end_offsets`
return offsets of a group and of partitions. `survey` lists the transactional ids with one prefix and their states.
"""

from typing import TYPE_CHECKING, Any

from ottla.transactions.offsets import ConsumerGroupMetadata, OffsetAndMetadata
from ottla.transactions.prepared import PreparedTransaction
from ottla.transactions.shared import SharedTransaction

if TYPE_CHECKING:
    from ottla.transactions.admin.completion import Outcome, complete
    from ottla.transactions.admin.group_offsets import GroupOffset, committed_offset, end_offsets, partition_counts
    from ottla.transactions.admin.listing import TransactionalId, survey
    from ottla.transactions.admin.open_transactions import Leftover, abort, leftovers
    from ottla.transactions.admin.transaction_owner import Ended, Sharing, sharing

__all__ = [
    "ConsumerGroupMetadata",
    "Ended",
    "GroupOffset",
    "Leftover",
    "OffsetAndMetadata",
    "Outcome",
    "PreparedTransaction",
    "SharedTransaction",
    "Sharing",
    "TransactionalId",
    "abort",
    "committed_offset",
    "complete",
    "end_offsets",
    "leftovers",
    "partition_counts",
    "sharing",
    "survey",
]


def __getattr__(name: str) -> Any:
    # Imported late: the messages of transactions cost every program 10 ms at its start, also one without transactions.
    if name in __all__:
        from ottla.transactions import admin

        return getattr(admin, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
