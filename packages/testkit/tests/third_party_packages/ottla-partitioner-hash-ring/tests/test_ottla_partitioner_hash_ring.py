"""Tests that the partitioner meets all requirements, and its own promises."""

from __future__ import annotations

from collections import Counter
from typing import ClassVar

import pytest
from ottla import ConfigError
from ottla.interfaces import Partitioner, TopicView
from ottla_testkit.mock_producer import MockProducer

from ottla_partitioner_hash_ring import HashRingPartitioner
from ottla_partitioner_hash_ring.conformance import HashRingConformance

KEYS = [b"key-%d" % number for number in range(20_000)]


def view_of(partitions: int, available: list[int] | None = None, slow: frozenset[int] = frozenset()) -> TopicView:
    led = list(range(partitions)) if available is None else available
    return TopicView(partitions=partitions, available=led, queued_bytes=[0] * partitions, slow=slow)


class TestHashRing(HashRingConformance):
    # These may never change: records of one key would be in two partitions.
    places: ClassVar = {(b"", 12): 4, (b"a", 12): 6, (b"customer 7", 12): 5, (b"\x00\xff", 5): 4}

    @pytest.fixture
    def partitioner(self) -> Partitioner:
        return HashRingPartitioner()


class TestHashRingOfOneNode(HashRingConformance):
    spreads_keys = False

    @pytest.fixture
    def partitioner(self) -> Partitioner:
        return HashRingPartitioner(1)


@pytest.mark.parametrize(("before", "after"), [(1, 2), (3, 4), (12, 13), (12, 24)])
def test_keys_move_only_to_new_partitions_and_no_more_than_their_share(before: int, after: int) -> None:
    partitioner = HashRingPartitioner()
    old = partitioner.partition_column("t", KEYS, view_of(before))
    new = partitioner.partition_column("t", KEYS, view_of(after))

    moved = [there for here, there in zip(old, new, strict=True) if here != there]

    assert all(before <= there < after for there in moved)
    assert len(moved) / len(KEYS) == pytest.approx((after - before) / after, rel=0.35)


def test_keys_are_spread_evenly() -> None:
    counts = Counter(HashRingPartitioner().partition_column("t", KEYS, view_of(12)))

    assert sorted(counts) == list(range(12))
    assert max(counts.values()) < 1.35 * len(KEYS) / 12


def test_a_column_has_the_partitions_of_its_keys() -> None:
    partitioner = HashRingPartitioner()

    column = partitioner.partition_column("t", KEYS, view_of(7))

    assert list(column) == [partitioner.partition("t", key, view_of(7)) for key in KEYS]


def test_topics_that_are_sent_to_by_turns_use_all_their_partitions() -> None:
    partitioner = HashRingPartitioner()

    used = [(topic, partitioner.partition(topic, None, view_of(2))) for _ in range(4) for topic in ("a", "b")]

    assert set(used) == {("a", 0), ("a", 1), ("b", 0), ("b", 1)}


@pytest.mark.parametrize(
    ("view", "expected"),
    [
        (view_of(3, [0, 2]), [0, 2, 0, 2]),
        (view_of(3, []), [0, 1, 2, 0]),
        (view_of(3, slow=frozenset({1})), [0, 2, 0, 2]),
        (view_of(2, slow=frozenset({0, 1})), [0, 1, 0, 1]),
    ],
)
def test_without_a_key_the_partitions_that_take_records_take_turns(view: TopicView, expected: list[int]) -> None:
    partitioner = HashRingPartitioner()

    assert [partitioner.partition("t", None, view) for _ in range(4)] == expected


def test_rings_are_dropped_before_there_are_too_many() -> None:
    partitioner = HashRingPartitioner(1)
    for partitions in range(1, 200):
        partitioner.partition("t", b"k", view_of(partitions))

    assert len(partitioner._rings) <= 64


@pytest.mark.parametrize("written", ["0", "-1", "4097", "many", "", True, 1.5])
def test_a_number_of_virtual_nodes_that_cannot_be_is_refused(written: object) -> None:
    with pytest.raises(ConfigError, match=r"hash\.ring\.virtual\.nodes"):
        MockProducer({"partitioner.class": "hash-ring", "hash.ring.virtual.nodes": written})


def test_the_setting_decides_the_ring() -> None:
    def places(nodes: int) -> list[int | None]:
        with MockProducer(
            {"partitioner.class": "hash-ring", "hash.ring.virtual.nodes": nodes}, partitions=8
        ) as producer:
            for key in KEYS[:200]:
                producer.send("orders", b"three apples", key=key)
            producer.flush()
            return [record.partition for record in producer.history]

    expected = HashRingPartitioner(16).partition_column("orders", KEYS[:200], view_of(8))
    assert places(16) == list(expected)
    assert places(16) != places(17)
