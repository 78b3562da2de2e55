"""What keeps a batch from being committed exactly once, by what can be done about it."""

from __future__ import annotations

from ottla import OttlaError


class LedgerMismatchError(OttlaError):
    """The ledger and Spark do not agree on what comes next; nothing was written. A human has to look."""


class BatchNotCommittedError(OttlaError):
    """Nothing of this batch is visible, nor will be; Spark may write it anew."""


class BatchIncompleteError(OttlaError):
    """The batch is in the ledger, but not every transaction could be ended yet. A restart of the query goes on."""


class DataLossError(OttlaError):
    """A batch was recorded, and only a part of it could be made visible: its driver was away for too long.

    Raised at every start until somebody has looked at it: the message names the transactions and their rows.
    """


class LeaseLostError(OttlaError):
    """Another driver writes under this name now, and this one can write no more. The other one goes on."""
