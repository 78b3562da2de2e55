"""Exactly-once: every batch that Spark hands over becomes visible once, whatever dies and starts again.

Each task writes in a transaction of its own and prepares it. A ledger in Kafka, which only the holder of a lease can
write, says which of them make up a batch: that entry is the commit point, and whoever reads it can finish the batch.
"""

from ottla_spark.exactly_once.errors import (
    BatchIncompleteError,
    BatchNotCommittedError,
    DataLossError,
    LeaseLostError,
    LedgerMismatchError,
)
from ottla_spark.exactly_once.jobs import JobOutcome, write_once
from ottla_spark.exactly_once.repair import accept_loss, adopt, forget
from ottla_spark.exactly_once.stream import stream_writer

__all__ = [
    "BatchIncompleteError",
    "BatchNotCommittedError",
    "DataLossError",
    "JobOutcome",
    "LeaseLostError",
    "LedgerMismatchError",
    "accept_loss",
    "adopt",
    "forget",
    "stream_writer",
    "write_once",
]
