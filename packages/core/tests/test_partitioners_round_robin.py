"""Round robin gives each available partition its turn."""

from __future__ import annotations

import threading
from collections import Counter
from itertools import chain

import pytest

from ottla.interfaces import TopicView
from ottla.plugins.partitioners.round_robin import RoundRobin, ottla_partitioner


def view(partitions: int, available: tuple[int, ...]) -> TopicView:
    return TopicView(partitions=partitions, available=available, queued_bytes=[0] * partitions)


def turns(chosen: RoundRobin, topic: str, topic_view: TopicView, count: int = 6) -> list[int]:
    return [chosen.partition(topic, b"key", topic_view) for _ in range(count)]


@pytest.mark.rule("partitioner.round-robin")
def test_partitions_take_turns_regardless_of_the_key() -> None:
    assert turns(RoundRobin(), "t", view(3, (0, 1, 2))) == [0, 1, 2, 0, 1, 2]


@pytest.mark.rule("partitioner.round-robin")
def test_unavailable_partitions_are_skipped() -> None:
    assert turns(RoundRobin(), "t", view(4, (1, 3))) == [1, 3, 1, 3, 1, 3]


def test_all_partitions_take_turns_when_none_is_available() -> None:
    assert turns(RoundRobin(), "t", view(2, ())) == [0, 1, 0, 1, 0, 1]


def test_each_topic_has_its_own_sequence_of_partitions() -> None:
    chosen = RoundRobin()

    assert turns(chosen, "a", view(3, (0, 1, 2)), 1) == turns(chosen, "b", view(3, (0, 1, 2)), 1) == [0]


def test_a_recreated_topic_with_fewer_partitions_is_respected() -> None:
    chosen = RoundRobin()
    turns(chosen, "t", view(7, tuple(range(7))), 5)

    assert sorted(turns(chosen, "t", view(2, (0, 1)), 2)) == [0, 1]


def test_concurrent_threads_share_the_turns_and_lose_none() -> None:
    chosen, same = RoundRobin(), view(5, (0, 2, 4))
    each: list[list[int]] = []

    threads = [threading.Thread(target=lambda: each.append(turns(chosen, "t", same, 3000))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert Counter(chain.from_iterable(each)) == {0: 8000, 2: 8000, 4: 8000}


def test_the_plugin_has_no_keys() -> None:
    assert isinstance(ottla_partitioner(), RoundRobin)
