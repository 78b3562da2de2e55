"""Exactly-once writes: every batch of Spark becomes visible once, whatever fails and restarts.

Each task writes in its own transaction and prepares it. A ledger in Kafka lists the transactions that make up a
batch; only the holder of a lease can write it. The ledger entry is the commit point: every later driver that reads it
can finish the batch.
"""

from ottla_spark.exactly_once.errors import (
    BatchIncompleteError,
    BatchNotCommittedError,
    DataLossError,
    LeaseLostError,
    LedgerMismatchError,
)
from ottla_spark.exactly_once.jobs import JobOutcome, write_once
from ottla_spark.exactly_once.repair import accept_loss, accept_other_rows, adopt, forget

__all__ = [
    "BatchIncompleteError",
    "BatchNotCommittedError",
    "DataLossError",
    "JobOutcome",
    "LeaseLostError",
    "LedgerMismatchError",
    "accept_loss",
    "accept_other_rows",
    "adopt",
    "forget",
    "write_once",
]
