"""Transactions that another process ends, or that are ended after their producer is gone.

`complete` ends what `Producer.prepare_transaction` returned. `list_transactions` lists the transactional ids with one
prefix and their states. `find_open_transactions` finds the open ones, and `abort` ends one. `sharing` opens and ends
transactions that producers of several processes join. `committed_offset` and `end_offsets` return offsets of a group
and of partitions.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from ottla.transactions.admin.completion import Outcome, complete
    from ottla.transactions.admin.found_transactions import FoundTransactions
    from ottla.transactions.admin.group_offsets import GroupOffset, committed_offset, end_offsets, partition_counts
    from ottla.transactions.admin.listing import TransactionListing, list_transactions
    from ottla.transactions.admin.open_transactions import OpenTransaction, abort, find_open_transactions
    from ottla.transactions.admin.transaction_owner import Ended, Sharing, sharing
    from ottla.transactions.group_metadata import ConsumerGroupMetadata
    from ottla.transactions.offsets import OffsetAndMetadata
    from ottla.transactions.prepared_transaction import PreparedTransaction
    from ottla.transactions.shared_transaction import SharedTransaction

__all__ = [
    "ConsumerGroupMetadata",
    "Ended",
    "FoundTransactions",
    "GroupOffset",
    "OffsetAndMetadata",
    "OpenTransaction",
    "Outcome",
    "PreparedTransaction",
    "SharedTransaction",
    "Sharing",
    "TransactionListing",
    "abort",
    "committed_offset",
    "complete",
    "end_offsets",
    "find_open_transactions",
    "list_transactions",
    "partition_counts",
    "sharing",
]


_IMPORTED_LATE: Final = {
    "ConsumerGroupMetadata": "group_metadata",
    "Ended": "admin.transaction_owner",
    "FoundTransactions": "admin.found_transactions",
    "GroupOffset": "admin.group_offsets",
    "OffsetAndMetadata": "offsets",
    "OpenTransaction": "admin.open_transactions",
    "Outcome": "admin.completion",
    "PreparedTransaction": "prepared_transaction",
    "SharedTransaction": "shared_transaction",
    "Sharing": "admin.transaction_owner",
    "TransactionListing": "admin.listing",
    "abort": "admin.open_transactions",
    "committed_offset": "admin.group_offsets",
    "complete": "admin.completion",
    "end_offsets": "admin.group_offsets",
    "find_open_transactions": "admin.open_transactions",
    "list_transactions": "admin.listing",
    "partition_counts": "admin.group_offsets",
    "sharing": "admin.transaction_owner",
}
"""The modules of all names."""


def __getattr__(name: str) -> Any:
    # Imported late: the messages of transactions cost every program 10 ms at its start, also one without transactions.
    if name in _IMPORTED_LATE:
        return getattr(import_module(f"{__name__}.{_IMPORTED_LATE[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
