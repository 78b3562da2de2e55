"""Counts of batches that are sent, answered, and sent again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ottla.accumulator.batch import ProducerBatch
from ottla.metrics import Counters

_MS: Final = 1000.0


def count_request(counters: Counters, batches: Iterable[ProducerBatch], now: float) -> None:
    """Count a request with these sealed batches."""
    of_all = counters.producer
    records = plain = 0
    for batch in batches:
        sealed = batch.sealed
        assert sealed is not None, "only sealed batches are sent"
        count, size = sealed.count, sealed.wire_size
        of_topic = counters.topic(batch.topic)
        of_topic.records.add(count)
        of_topic.batches.add(size)
        of_topic.ratios.add(sealed.ratio)
        waited = (now - batch.created_at) * _MS
        of_all.waits.add(waited)
        of_topic.queue_times.add(waited, count)
        of_topic.batch_sizes.add(size)
        of_topic.record_sizes.add(sealed.plain_size / count, count)
        records += count
        plain += sealed.plain_size
    of_all.records.add(records)
    of_all.plain.add(plain)


def count_response(counters: Counters, node: int, seconds: float) -> None:
    """Count a Produce request that was answered after so many seconds."""
    of_node = counters.node(node)
    of_node.latencies.add(seconds * _MS)
    of_node.latency_buckets.add(seconds * _MS)


def count_acknowledged(counters: Counters, batch: ProducerBatch, now: float) -> None:
    """Count a batch that a broker has acknowledged: the time of its records is that of the batch."""
    counters.topic(batch.topic).delivery_times.add((now - batch.created_at) * _MS, batch.count)


def count_retry(counters: Counters, batch: ProducerBatch) -> None:
    """Count a batch that is queued again after a failure."""
    counters.topic(batch.topic).retries.add(batch.count)
