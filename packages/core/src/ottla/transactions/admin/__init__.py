"""Blocking requests about transactions, from the caller's thread: list, describe, complete, abort.

`ottla.transactions` exports these names; import them from there.
"""

from ottla.transactions.admin.completion import Outcome as Outcome
from ottla.transactions.admin.completion import complete as complete
from ottla.transactions.admin.group_offsets import GroupOffset as GroupOffset
from ottla.transactions.admin.group_offsets import committed_offset as committed_offset
from ottla.transactions.admin.group_offsets import end_offsets as end_offsets
from ottla.transactions.admin.group_offsets import partition_counts as partition_counts
from ottla.transactions.admin.listing import TransactionListing as TransactionListing
from ottla.transactions.admin.listing import list_transactions as list_transactions
from ottla.transactions.admin.open_transactions import OpenTransaction as OpenTransaction
from ottla.transactions.admin.open_transactions import abort as abort
from ottla.transactions.admin.open_transactions import find_open_transactions as find_open_transactions
from ottla.transactions.admin.transaction_owner import Ended as Ended
from ottla.transactions.admin.transaction_owner import Sharing as Sharing
from ottla.transactions.admin.transaction_owner import sharing as sharing
