"""Blocking requests about transactions, from the caller's thread: list, describe, complete, abort."""

from ottla.transactions.admin.completion import Outcome, complete
from ottla.transactions.admin.group_offsets import GroupOffset, committed_offset, end_offsets, partition_counts
from ottla.transactions.admin.listing import TransactionalId, survey
from ottla.transactions.admin.open_transactions import Leftover, abort, leftovers
from ottla.transactions.admin.transaction_owner import Ended, Sharing, sharing

__all__ = [
    "Ended",
    "GroupOffset",
    "Leftover",
    "Outcome",
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
