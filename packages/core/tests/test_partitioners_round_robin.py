"""Round robin gives each available partition its turn."""

from __future__ import annotations

from ottla.interfaces import TopicView
from ottla.partitioners.round_robin import RoundRobin, ottla_partitioner


def view(partitions: int, available: tuple[int, ...]) -> TopicView:
    return TopicView(partitions=partitions, available=available, queued_bytes=[0] * partitions)


def turns(chosen: RoundRobin, topic: str, topic_view: TopicView, count: int = 6) -> list[int]:
    return [chosen.partition(topic, b"key", topic_view) for _ in range(count)]


def test_partitions_take_turns_whatever_the_key() -> None:
    assert turns(RoundRobin(), "t", view(3, (0, 1, 2))) == [0, 1, 2, 0, 1, 2]


def test_partitions_that_are_not_available_have_no_turn() -> None:
    assert turns(RoundRobin(), "t", view(4, (1, 3))) == [1, 3, 1, 3, 1, 3]


def test_all_take_turns_when_none_is_available() -> None:
    assert turns(RoundRobin(), "t", view(2, ())) == [0, 1, 0, 1, 0, 1]


def test_each_topic_has_its_own_turns() -> None:
    chosen = RoundRobin()

    assert turns(chosen, "a", view(3, (0, 1, 2)), 1) == turns(chosen, "b", view(3, (0, 1, 2)), 1) == [0]


def test_the_plugin_has_no_keys_to_set() -> None:
    assert isinstance(ottla_partitioner(), RoundRobin)
