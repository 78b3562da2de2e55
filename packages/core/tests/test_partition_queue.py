"""Batches that return to the queue of a partition get their place among those that are there."""

from __future__ import annotations

import pytest

from machine import columns
from ottla.accumulator.batch import ProducerBatch
from ottla.accumulator.partition_queue import PartitionQueue, TopicQueues
from ottla.recordbatch.batch_sequence import BatchSequence, ProducerIdAndEpoch


def batch_of(created_at: float, number: int | None = None) -> ProducerBatch:
    batch = ProducerBatch(topic="t", partition=0, columns=columns(1000), now=created_at)
    if number is not None:
        batch.sequence = BatchSequence(producer_id_and_epoch=ProducerIdAndEpoch(id=1, epoch=0), base_sequence=number)
    return batch


@pytest.fixture
def queue() -> PartitionQueue:
    topic = TopicQueues("t")
    topic.reach(1)
    [queue] = topic.queues
    return queue


@pytest.mark.rule("accumulator.put-back.head")
def test_a_batch_without_a_number_stays_behind_older_ones_with_one(queue: PartitionQueue) -> None:
    """A round may fail after it has taken a batch, and before it has numbered it, while another one waits for a retry.

    Behind it, the numbered one could not leave, and without it no other is numbered.
    """
    numbered, taken, waiting = batch_of(1.0, number=7), batch_of(2.0), batch_of(3.0)
    queue.add_closed(waiting)
    queue.put_first(numbered)

    queue.put_first(taken)

    assert [*queue.batches] == [numbered, taken, waiting]


@pytest.mark.rule("accumulator.put-back.head")
def test_an_older_batch_whose_number_was_dropped_precedes_later_ones(queue: PartitionQueue) -> None:
    renumbered, later = batch_of(1.0), batch_of(2.0, number=9)
    queue.put_first(later)

    queue.put_first(renumbered)

    assert [*queue.batches] == [renumbered, later]


@pytest.mark.rule("accumulator.put-back.head")
@pytest.mark.parametrize("numbers", [(None, None, None), (5, 6, 7), (2**31 - 1, 0, 1)])
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2), (1, 2, 0)])
def test_batches_that_return_have_the_order_in_which_they_left(
    numbers: tuple[int | None, ...], order: tuple[int, ...], queue: PartitionQueue
) -> None:
    batches = [batch_of(float(place), number=number) for place, number in enumerate(numbers)]
    for place in order:
        queue.put_first(batches[place])

    assert [*queue.batches] == batches


@pytest.mark.rule("accumulator.put-back.head")
def test_a_batch_that_returns_precedes_one_opened_at_the_same_time(queue: PartitionQueue) -> None:
    first, second = batch_of(1.0), batch_of(1.0)
    queue.add_closed(second)

    queue.put_first(first)

    assert [*queue.batches] == [first, second]
