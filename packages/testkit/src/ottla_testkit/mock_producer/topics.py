"""The topics of a mock producer's cluster, which enter its metadata when they are first used."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from ottla.accumulator.append_permission import CheckSendable
from ottla.accumulator.topic_routes import Route
from ottla.concurrency import io_threads
from ottla.errors import ErrorCode, TopicUnavailableError
from ottla.network.cluster import Broker, Topic
from ottla.network.metadata import Metadata
from ottla.producer.blocking_send import BlockingSend
from ottla.producer.components import Engine
from ottla_testkit.mock_producer.completion_rounds import call_at_end_of_round, completion_round
from ottla_testkit.mock_producer.sent_batches import NODE


class MockTopics:
    """Topics with their numbers of partitions; with None, every topic exists, with *partitions*.

    Raises TypeError and ValueError for what is no number of partitions.
    """

    def __init__(self, topics: Mapping[str, int] | None, *, partitions: int) -> None:
        if topics is not None and not isinstance(topics, Mapping):
            raise TypeError(f"topics={topics!r}: give a dict of topics with their numbers of partitions")
        _check_count("partitions", partitions)
        for name, count in (topics or {}).items():
            _check_count(f"topics: {name!r}", count)
        self._topics = topics
        self._partitions = partitions

    def add(self, topic: str, metadata: Metadata) -> None:
        """Add a topic to the metadata unless it is there, as a broker's response would."""
        if topic in metadata.cluster.topics:
            return
        count = self._partitions if self._topics is None else self._topics.get(topic, 0)
        known = Topic(name=topic, leaders=(NODE,) * count, epochs=(0,) * count)
        if not count:
            known = Topic(name=topic, error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        metadata.use(topic, 0.0)
        metadata.update({NODE: Broker(id=NODE, host="mock", port=9092)}, {topic: known}, 0.0, partial=True)


def _check_count(what: str, count: object) -> None:
    if not isinstance(count, int) or isinstance(count, bool):
        raise TypeError(f"{what}: {count!r} is no number of partitions")
    if count < 1:
        raise ValueError(f"{what}: {count} is no number of partitions; a topic has at least one")


class MockBlockingSend(BlockingSend):
    """Finds the routes of topics that enter the metadata when they are looked up."""

    def __init__(self, engine: Engine, check_sendable: CheckSendable, *, topics: MockTopics) -> None:
        super().__init__(engine, check_sendable)
        self._topics = topics
        self._metadata = engine.metadata

    def wait_for_topic(self, topic: str, *, waited: float = 0.0, timeout: float | None = None) -> Route:
        if not isinstance(topic, str):
            return super().wait_for_topic(topic, waited=waited, timeout=timeout)
        if not io_threads.on_io_thread():
            self._topics.add(topic, self._metadata)
            return super().wait_for_topic(topic, waited=waited, timeout=timeout)
        try:  # a callback cannot wait for a topic that is not known yet: metadata arrives after it
            return super().wait_for_topic(topic, waited=waited, timeout=timeout)
        except TopicUnavailableError:
            with completion_round():
                call_at_end_of_round(partial(self._topics.add, topic, self._metadata))
            raise
