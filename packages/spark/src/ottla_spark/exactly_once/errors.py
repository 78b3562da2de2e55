"""Errors that keep a batch from being committed exactly once, by the action that they need."""

from __future__ import annotations

from ottla import OttlaError
from ottla.errors import TransactionError


class LedgerMismatchError(OttlaError):
    """The ledger and Spark disagree on the next batch; nothing was written. The user has to decide."""


class BatchNotCommittedError(OttlaError):
    """Nothing of this batch is or will become visible; Spark may write it again."""


class BatchIncompleteError(OttlaError):
    """The batch is in the ledger, but not every transaction could be ended yet. Restart the query to end them."""


class DataLossError(OttlaError):
    """A batch was recorded, but only a part of it could be made visible before its transactions timed out.

    Raised at every start until the user accepts the loss. The message names the transactions and their rows.
    """


class EntryNotWrittenError(TransactionError):
    """An entry is not in the ledger and never will be: the cluster refused it, or did not respond in time."""


class LeaseLostError(OttlaError):
    """Another driver now writes under this name, and this one cannot write any more. The other one continues.

    `refused`: brokers refused the entry before it was to be committed, so it is not in the ledger and never will be.
    """

    refused = False
