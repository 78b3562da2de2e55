"""The size of a batch: its target on the wire, and the limit of one request."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from machine import Queues, cluster_of, columns
from ottla.accumulator.batch import ProducerBatch
from ottla.accumulator.batch_sizes import MOST_MEMORY, BatchSizes
from ottla.accumulator.partition_queue import TopicQueues
from ottla.accumulator.sealing import Sealer
from ottla.config.value_types import INT_MAX
from ottla.interfaces import Columns
from ottla.recordbatch.header_v2 import HEADER_SIZE

pytestmark = pytest.mark.unmeasured

NEARLY = 0.95
"""The last record of a batch has to find room for its objects too."""

Limit = Callable[[Columns, TopicQueues], int]


def topic_of(most: int | None = None) -> TopicQueues:
    topic = TopicQueues("t")
    topic.max_bytes = most
    return topic


def filled(limit: Limit, value_size: int, *, topic: TopicQueues | None = None) -> ProducerBatch:
    """A batch that took records of one size for as long as the limit, asked before each, had room."""
    batch = ProducerBatch(topic="t", partition=0, columns=columns(0), now=0.0)
    value = bytes(value_size)
    while batch.append(None, value, (), 0, None) is not None:
        batch.allow(limit(batch.columns, topic or topic_of()))
    return batch


def wire_size(batch: ProducerBatch) -> int:
    return Sealer(None).seal(batch, 1).wire_size


@pytest.mark.rule("accumulator.size.target")
@given(st.integers(min_value=50, max_value=3_000), st.integers(min_value=500, max_value=20_000))
def test_a_batch_of_similar_records_fills_its_target_and_no_more(value_size: int, target: int) -> None:
    sizes = BatchSizes(target=target, max_bytes=1_000_000)
    batch = filled(sizes.target_memory, value_size)

    size = wire_size(batch)

    assert size <= target or batch.count == 1
    assert size + value_size + 40 > target * 0.9


@pytest.mark.rule("accumulator.size.target")
@given(st.lists(st.integers(min_value=0, max_value=2_000), min_size=1), st.integers(min_value=100, max_value=5_000))
def test_a_batch_of_any_records_fits_in_a_request(values: list[int], most: int) -> None:
    sizes = BatchSizes(target=200, max_bytes=most)
    batch = ProducerBatch(topic="t", partition=0, columns=columns(0), now=0.0)
    for value_size in values:
        batch.append(None, bytes(value_size), (), 0, None)
        batch.allow(max(sizes.target_memory(batch.columns, topic_of()), sizes.max_memory(batch.columns, topic_of())))

    assert wire_size(batch) <= most or batch.count == 1


@pytest.mark.rule("accumulator.grow")
def test_a_grown_batch_fills_a_request() -> None:
    sizes = BatchSizes(target=200, max_bytes=10_000)

    assert NEARLY * 10_000 < wire_size(filled(sizes.max_memory, 100)) <= 10_000


@pytest.mark.rule("accumulator.grow")
def test_a_batch_of_tiny_records_stops_growing_in_time() -> None:
    sizes = BatchSizes(target=200, max_bytes=10_000)

    batch = filled(sizes.max_memory, 1)

    memory = batch.columns.memory()
    assert NEARLY * MOST_MEMORY * 10_000 < memory <= MOST_MEMORY * 10_000
    assert wire_size(batch) < 10_000 / 2


@pytest.mark.rule("accumulator.grow.off")
def test_without_growth_no_record_is_added_to_a_full_batch() -> None:
    sizes = BatchSizes(target=200, max_bytes=10_000, growing=False)

    assert filled(sizes.max_memory, 100).count == 1


@pytest.mark.rule("accumulator.size.target", "accumulator.grow.off")
@given(st.lists(st.integers(min_value=0, max_value=2_500), min_size=1, max_size=40), st.booleans())
def test_a_batch_keeps_to_its_target_and_a_grown_one_to_a_request(values: list[int], growing: bool) -> None:
    queues = Queues(batch_size=2_000, max_request_size=5_000, growing=growing, linger=50.0)
    for value_size in values:
        queues.append(bytes(value_size))
    queues.accumulator.flush(timeout=0)

    most = 5_000 if growing else 2_000
    while drained := queues.accumulator.drain(cluster_of(1), (1,), max_size=1_000_000, now=0.0):
        for batch in drained[1]:
            assert batch.sealed is not None
            assert batch.sealed.wire_size <= most or batch.count == 1


@pytest.mark.rule("accumulator.size.ratio")
def test_a_topic_that_compresses_well_gets_larger_batches() -> None:
    ratios = {"t": 0.25}
    plain = filled(BatchSizes(target=4_000, max_bytes=100_000).target_memory, 100)
    compressed = filled(BatchSizes(target=4_000, max_bytes=100_000, ratio=ratios.__getitem__).target_memory, 100)

    assert 3.9 <= compressed.count / plain.count <= 4.1


@pytest.mark.rule("accumulator.size.ratio")
def test_records_that_compression_enlarges_reach_the_target_earlier() -> None:
    plain = BatchSizes(target=4_000, max_bytes=100_000, ratio=lambda _topic: 1.0)
    enlarged = BatchSizes(target=4_000, max_bytes=100_000, ratio=lambda _topic: 2.0)

    assert enlarged.certain_memory(topic_of()) == plain.certain_memory(topic_of()) // 2


@pytest.mark.rule("accumulator.size.ratio")
def test_a_batch_fits_in_a_request_before_compression() -> None:
    sizes = BatchSizes(target=4_000, max_bytes=10_000, ratio=lambda _topic: 0.01)

    assert NEARLY * 10_000 < wire_size(filled(sizes.target_memory, 100)) <= 10_000


@pytest.mark.rule("accumulator.split.learns")
@pytest.mark.parametrize("limit", ["target_memory", "max_memory"])
def test_a_size_that_the_topic_refused_is_the_limit_from_then_on(limit: str) -> None:
    sizes = BatchSizes(target=16_384, max_bytes=1_000_000)
    batch = filled(getattr(sizes, limit), 100, topic=topic_of(most=10_000))

    assert NEARLY * 10_000 < wire_size(batch) - HEADER_SIZE <= 10_000


@pytest.mark.rule("producer.format.count")
@given(st.integers(min_value=1, max_value=500))
def test_no_request_can_carry_more_records_than_a_batch_can_count(count: int) -> None:
    batch = ProducerBatch(topic="t", partition=0, columns=columns(1 << 40), now=0.0)
    for _ in range(count):
        batch.append(None, None, (), 0, None)

    assert batch.columns.size_estimate() >= 7 * count
    assert INT_MAX <= 2**31 - 1  # the largest max.request.size
