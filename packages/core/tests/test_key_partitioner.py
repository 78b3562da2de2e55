"""The key partitioner alone: records get their partitions, and keep their place in them."""

from __future__ import annotations

import pytest

from machine import columns
from ottla.accumulator.batch import UNASSIGNED, ProducerBatch
from ottla.accumulator.batch_sizes import BatchSizes
from ottla.accumulator.key_partitioning import KeyPartitioner
from ottla.accumulator.partition_queue import PartitionQueue, TopicQueues
from ottla.interfaces import TopicView

PARTITIONER = KeyPartitioner(
    partition=lambda _topic, _key, _view: 0,
    partition_column=lambda _topic, keys, _view: [0] * len(keys),
    appended=None,
    sizes=BatchSizes(target=16_384, max_bytes=1_000_000, growing=True),
    columns=columns,
)


def batch_of(value: bytes, *, partition: int, now: float) -> ProducerBatch:
    batch = ProducerBatch(topic="t", partition=partition, columns=columns(1_000), now=now)
    batch.append(b"key", value, (), 0, None)
    return batch


def begin(queue: PartitionQueue, batch: ProducerBatch) -> None:
    queue.begin(batch)


@pytest.mark.rule("accumulator.put-back.head")
@pytest.mark.parametrize("put_back", ["before the partition is chosen", "after it"])
def test_records_that_get_their_partition_late_stay_behind(put_back: str) -> None:
    """A thread that waited for memory may begin a batch in the partition after records without one were queued."""
    topic = TopicQueues("t")
    topic.reach(1)
    topic.view = TopicView(partitions=1, available=[0], queued_bytes=topic.queued_bytes)
    [queue] = topic.queues
    unassigned = batch_of(b"later", partition=UNASSIGNED, now=5.0)
    before = batch_of(b"before", partition=0, now=6.0)
    queue.begin(before)
    queue.close()
    if put_back == "after it":
        assert queue.take() is before
    unassigned.close()
    PARTITIONER.repartition(topic, unassigned, begin)
    if put_back != "after it":
        assert queue.take() is before

    queue.put_first(before)

    assert [batch is before for batch in queue.batches] == [True, False]


@pytest.mark.parametrize("begun", [False, True])
def test_records_with_keys_count_as_queued_in_their_partition(begun: bool) -> None:
    """A partitioner that prefers short queues would otherwise fill those that records with keys go to."""
    topic = TopicQueues("t")
    topic.reach(1)
    topic.view = TopicView(partitions=1, available=[0], queued_bytes=topic.queued_bytes)
    [queue] = topic.queues
    if begun:
        queue.begin(batch_of(b"before", partition=0, now=5.0))
    unassigned = batch_of(b"later", partition=UNASSIGNED, now=6.0)
    unassigned.close()

    PARTITIONER.repartition(topic, unassigned, begin)

    assert queue.open is not None
    assert topic.queued_bytes == [queue.open.columns.memory()]
