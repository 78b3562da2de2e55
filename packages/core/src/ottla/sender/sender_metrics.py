"""Counts of batches that are sent, answered, and sent again."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from operator import truediv
from typing import Final

from ottla.accumulator.batch import ProducerBatch
from ottla.metrics import Counters

_MS: Final = 1000.0
_MANY: Final = 16
"""The number of batches from which on `_count_batches` is certainly faster than `_count_batch` for each."""


def count_request(counters: Counters, batches: Sequence[ProducerBatch], now: float) -> None:
    """Count a request with these sealed batches."""
    records = plain = 0
    by_topic: dict[str, list[ProducerBatch]] = {}
    for batch in batches:
        by_topic.setdefault(batch.topic, []).append(batch)
    for topic, its_batches in by_topic.items():
        if len(its_batches) >= _MANY:
            more_records, more_plain = _count_batches(counters, topic, its_batches, now)
            records, plain = records + more_records, plain + more_plain
            continue
        for batch in its_batches:
            more_records, more_plain = _count_batch(counters, batch, now)
            records, plain = records + more_records, plain + more_plain
    counters.producer.records.add(records)
    counters.producer.plain.add(plain)


def _count_batch(counters: Counters, batch: ProducerBatch, now: float) -> tuple[int, int]:
    """Count a batch of a request; return the number of its records, and their bytes before compression."""
    sealed = batch.sealed
    assert sealed is not None, "only sealed batches are sent"
    count, size, waited = sealed.count, sealed.wire_size, (now - batch.created_at) * _MS
    of_topic = counters.topic(batch.topic)
    of_topic.records.add(count)
    of_topic.batches.add(size)
    of_topic.ratios.add(sealed.ratio)
    counters.producer.waits.add(waited)
    of_topic.queue_times.add(waited, count)
    of_topic.batch_sizes.add(size)
    of_topic.record_sizes.add(sealed.plain_size / count, count)
    return count, sealed.plain_size


def _count_batches(counters: Counters, topic: str, batches: Sequence[ProducerBatch], now: float) -> tuple[int, int]:
    """Do what `_count_batch` does for each of a topic's batches, column by column: half of the time for 128 batches."""
    sealed = [sealed for batch in batches if (sealed := batch.sealed) is not None]
    assert len(sealed) == len(batches), "only sealed batches are sent"
    waits = [(now - batch.created_at) * _MS for batch in batches]
    counts, plain_sizes = [each.count for each in sealed], [each.plain_size for each in sealed]
    sizes = [each.wire_size for each in sealed]
    of_topic = counters.topic(topic)
    of_topic.records.add_all(counts)
    of_topic.batches.add_all(sizes)
    of_topic.ratios.add_all([each.ratio for each in sealed])
    counters.producer.waits.add_all(waits)
    of_topic.queue_times.add_all(waits, counts)
    of_topic.batch_sizes.add_all(sizes, repeat(1))
    of_topic.record_sizes.add_all(map(truediv, plain_sizes, counts), counts)
    return sum(counts), sum(plain_sizes)


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
