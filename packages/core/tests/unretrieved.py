"""The errors of a batch that the program has not read."""

from __future__ import annotations

from ottla.accumulator.batch import ProducerBatch


def unretrieved_errors(batch: ProducerBatch) -> int:
    """The number of records whose errors were not retrieved: in no report but that of their producer."""
    return batch.count if batch.error_reads is None else batch.error_reads.unread
