"""The current route of a topic's records, and when it is dropped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import pytest

from machine import CONSTANT, Queues
from ottla.accumulator.partitioner_abilities import PartitionerAbilities
from ottla.accumulator.topic_routes import Route, Routes
from ottla.concurrency import io_threads
from ottla.concurrency.environment import Environment
from ottla.config.wait_limit import WaitLimit
from ottla.errors import ErrorCode, TopicUnavailableError
from ottla.interfaces import TopicView
from ottla.network.cluster import NO_LEADER, Broker, Topic
from ottla.network.metadata import Metadata
from ottla.network.topic_errors import not_available

NO_RACKS: Mapping[int, str] = {}


class OneAfterTheOther:
    """A sticky partitioner that goes through the partitions and records its calls."""

    sticky = True

    def __init__(self) -> None:
        self.views: list[TopicView] = []
        self.reported: list[tuple[str, int, int]] = []

    def partition(self, topic: str, key: bytes | None, view: TopicView) -> int:
        self.views.append(view)
        return (len(self.views) - 1) % view.partitions

    def appended(self, topic: str, partition: int, size: int) -> None:
        self.reported.append((topic, partition, size))


class Known:
    """Routes over a cluster that the test sets."""

    def __init__(self, *, max_block: float = 0.0) -> None:
        self.queues = Queues()
        self.metadata = Metadata(
            bootstrap=[("seed", 9092)],
            max_age=300.0,
            max_idle=300.0,
            refresh_backoff=CONSTANT,
            wake=lambda: None,
            environment=Environment(clock=self.queues.clock),
        )
        self.partitioner = OneAfterTheOther()
        self.slow: frozenset[int] = frozenset()
        self.routes = Routes(
            metadata=self.metadata,
            appender=self.queues.accumulator.appender,
            partitioner=PartitionerAbilities.of(self.partitioner),
            slow=lambda: self.slow,
            max_block=max_block,
        )
        self.metadata.on_change = self.routes.forget

    def set_leaders(self, leaders: Sequence[int], topic: str = "t", *, racks: Mapping[int, str] = NO_RACKS) -> None:
        """An answer of the cluster: the topic has these leaders."""
        brokers = {node: Broker(id=node, host=f"broker-{node}", port=9092, rack=racks.get(node)) for node in (1, 2)}
        self.metadata.use(topic, self.queues.clock())
        reported = Topic(name=topic, leaders=tuple(leaders), epochs=(0,) * len(leaders))
        self.metadata.update(brokers, {topic: reported}, self.queues.clock())

    def stay(self, route: Route, value: bytes) -> int:
        """Send a record without a key as the face does when the stay has no room; the partition it went to."""
        partition = self.routes.next_sticky_partition("t", route)
        batch, _index = self.queues.accumulator.appender.append("t", partition, (None, value, (), 0, None), len(value))
        route.set_sticky_batch(batch)
        return partition


@contextmanager
def io_thread() -> Iterator[None]:
    io_threads.enter()
    try:
        yield
    finally:
        io_threads.leave()


def test_a_route_is_found_once_and_then_cached() -> None:
    known = Known()
    known.set_leaders([1, 2, 1])

    route = known.routes.find("t")

    assert known.routes.known == {"t": route}
    assert route.view.partitions == len(route.queues) == 3


@pytest.mark.rule("partitioner.available", "partitioner.slow")
def test_the_view_of_a_route_has_available_and_slow_partitions() -> None:
    known = Known()
    known.set_leaders([1, NO_LEADER, 2, 1])
    known.slow = frozenset({1})

    view = known.routes.find("t").view

    assert list(view.available) == [0, 2, 3]
    assert view.slow == {0, 3}


@pytest.mark.rule("partitioner.rack")
def test_the_view_of_a_route_has_leaders_and_their_racks() -> None:
    known = Known()
    known.set_leaders([1, NO_LEADER, 2, 7], racks={2: "b"})  # the cluster lists no broker 7

    view = known.routes.find("t").view

    assert list(view.leaders) == [1, NO_LEADER, 2, NO_LEADER]
    assert view.racks == {2: "b"}


@pytest.mark.rule("partitioner.rack", "partitioner.news")
def test_a_broker_that_is_in_another_rack_gives_topics_a_new_view() -> None:
    known = Known()
    known.set_leaders([1, 2], racks={2: "b"})
    before = known.routes.find("t").view
    known.set_leaders([1, 2], racks={2: "c"})

    assert before.racks == {2: "b"}
    assert known.routes.find("t").view.racks == {2: "c"}


@pytest.mark.rule("partitioner.available")
def test_a_partition_with_an_unknown_leader_is_not_available() -> None:
    known = Known()
    known.set_leaders([1, 7, 2])  # the cluster lists no broker 7

    assert list(known.routes.find("t").view.available) == [0, 2]


@pytest.mark.rule("partitioner.adaptive")
def test_the_queue_sizes_of_a_view_are_live() -> None:
    known = Known()
    known.set_leaders([1, 1])
    view = known.routes.find("t").view
    assert list(view.queued_bytes) == [0, 0]

    known.queues.append(bytes(50), partition=1)

    assert view.queued_bytes[0] == 0
    assert view.queued_bytes[1] >= 50


@pytest.mark.rule("partitioner.news")
def test_a_cluster_change_renews_every_route() -> None:
    known = Known()
    known.set_leaders([1])
    before = known.routes.find("t")

    known.set_leaders([1, 2])

    assert "t" not in known.routes.known
    after = known.routes.find("t")
    assert after.view.partitions == 2
    assert after.queues[0] is before.queues[0]  # what was queued is where it was


@pytest.mark.rule("partitioner.news")
def test_a_cluster_change_while_a_route_is_found_is_not_missed() -> None:
    known = Known()
    known.set_leaders([1])

    def more_news() -> frozenset[int]:
        known.set_leaders([1, 2])
        return frozenset()

    known.routes._slow = more_news  # asked in the middle of `find`
    known.routes.find("t")

    assert "t" not in known.routes.known


@pytest.mark.rule("producer.send.refused.topic")
def test_an_unknown_topic_is_refused_after_the_wait() -> None:
    known = Known()

    with pytest.raises(TopicUnavailableError, match="topic 't' is not available: "):
        known.routes.find("t")
    assert known.routes.known == {}


def test_the_refusal_of_an_unknown_topic_gives_its_reason_once() -> None:
    unknown = Topic(name="t", error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    refused = not_available("t", unknown, None, WaitLimit(60, "max.block.ms"), last_error=None, setup="")

    assert str(refused).endswith(
        "(60 s): UNKNOWN_TOPIC_OR_PARTITION (3): The broker does not host this topic or partition; it may not exist, "
        "or this user may not describe it"
    )


@pytest.mark.rule("producer.send.refused.partition")
def test_a_missing_partition_is_refused_with_the_number_of_partitions() -> None:
    known = Known()
    known.set_leaders([1, 1])

    with pytest.raises(TopicUnavailableError, match="partition 2 does not exist; the topic has 2"):
        known.routes.await_partition("t", 2)


def test_a_partition_that_was_added_meanwhile_is_found() -> None:
    known = Known()
    known.set_leaders([1])
    known.routes.find("t")
    known.set_leaders([1, 2, 2])

    assert known.routes.await_partition("t", 2).view.partitions == 3


@pytest.mark.rule("producer.callback.send")
def test_a_callback_never_waits_for_a_topic() -> None:
    known = Known(max_block=3_600.0)

    with io_thread(), pytest.raises(TopicUnavailableError):
        known.routes.find("t")
    with io_thread(), pytest.raises(TopicUnavailableError):
        known.routes.await_partition("t", 1)


# Stays


@pytest.mark.rule("partitioner.sticky.batch")
def test_the_partitioner_gets_the_bytes_of_its_last_choice() -> None:
    known = Known()
    known.set_leaders([1, 1])
    route = known.routes.find("t")
    first = known.stay(route, bytes(1_000))
    assert known.partitioner.reported == []
    assert route.sticky_batch is not None
    route.sticky_batch.append(None, bytes(2_000), (), 0, None)

    second = known.stay(route, bytes(10))

    assert (first, second) == (0, 1)
    [(topic, partition, size)] = known.partitioner.reported
    assert (topic, partition) == ("t", 0)
    assert 3_000 <= size <= 3_100


@pytest.mark.rule("partitioner.sticky.batch")
def test_the_bytes_of_a_sticky_batch_are_reported_once() -> None:
    known = Known()
    known.set_leaders([1, 1])
    route = known.routes.find("t")
    known.stay(route, bytes(1_000))
    known.routes.next_sticky_partition("t", route)

    known.routes.next_sticky_partition("t", route)

    assert [size for _topic, _partition, size in known.partitioner.reported][1:] == [0]


def test_a_sticky_batch_that_continues_keeps_its_count() -> None:
    known = Known()
    known.set_leaders([1])
    route = known.routes.find("t")
    known.stay(route, bytes(1_000))
    known.stay(route, bytes(500))  # one partition only: the same batch
    known.routes.next_sticky_partition("t", route)

    sizes = [size for _topic, _partition, size in known.partitioner.reported]
    assert 1_000 <= sizes[0] <= 1_100
    assert 500 <= sizes[1] <= 550
    assert len(sizes) == 2


def test_a_partitioner_without_appended_gets_no_count() -> None:
    known = Known()
    known.set_leaders([1, 1])
    known.routes._appended = None
    route = known.routes.find("t")
    known.stay(route, bytes(1_000))

    assert known.stay(route, bytes(10)) == 1
