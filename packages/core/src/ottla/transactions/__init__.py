"""Transactions that are ended from outside: by another process, or after whoever began them is gone.

`complete` ends what `Producer.prepare_transaction` returned; `leftovers` finds what is open, and `abort` ends it.
"""

from ottla.transaction_manager import ConsumerGroupMetadata, OffsetAndMetadata, PreparedTransaction
from ottla.transactions.completion import Outcome, complete
from ottla.transactions.leftovers import Leftover, abort, leftovers

__all__ = [
    "ConsumerGroupMetadata",
    "Leftover",
    "OffsetAndMetadata",
    "Outcome",
    "PreparedTransaction",
    "abort",
    "complete",
    "leftovers",
]
