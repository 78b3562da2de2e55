"""Where the records of each topic go for now: remembered, so that the way of most records asks nobody.

A route is forgotten whenever the cluster or its slow brokers change; the next record finds a new one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from ottla.accumulator.appender import Intake
from ottla.accumulator.batch import ProducerBatch
from ottla.accumulator.batch_outcome import Failed
from ottla.accumulator.partition_queue import TopicQueues
from ottla.accumulator.partitioner_calls import ask_partitioner, partition_of
from ottla.concurrency import io_threads
from ottla.interfaces import Partitioner, TopicView
from ottla.network.cluster import Topic
from ottla.network.metadata import Metadata


class Route:
    """One topic's queues, and the batch that records without a partition or key go to while it has room."""

    __slots__ = ("_counted", "_lock", "queues", "run", "stay", "topic", "view")

    def __init__(self, topic: TopicQueues) -> None:
        assert topic.view is not None
        self.topic = topic
        self.view = topic.view
        self.queues = topic.queues
        self.run = topic.run
        self.stay: ProducerBatch | None = None
        self._counted = 0
        self._lock = threading.RLock()  # a signal handler may interrupt it, and come here

    def begin_stay(self, batch: ProducerBatch) -> None:
        """Records may go to this batch from now on."""
        with self._lock:
            if self.stay is not batch:
                self.stay = batch
                self._counted = 0

    def end_stay(self, batch: ProducerBatch) -> None:
        """Records go to this batch no longer."""
        with self._lock:
            if self.stay is batch:
                self.stay = None

    def count_stay(self) -> tuple[int, int] | None:
        """The partition of the stay, and the bytes that went there since they were counted last; None: no stay."""
        with self._lock:
            batch = self.stay
            if batch is None:
                return None
            size = batch.columns.size_estimate()
            counted, self._counted = self._counted, size
            return batch.partition, size - counted


class Routes:
    """The routes of a producer, `known` by topic. For any thread."""

    def __init__(
        self,
        *,
        metadata: Metadata,
        intake: Intake,
        partitioner: Partitioner,
        slow: Callable[[], frozenset[int]],
        max_block: float,
    ) -> None:
        self.known: Final[dict[str, Route]] = {}
        self._metadata = metadata
        self._intake = intake
        self._partitioner = partitioner
        self._slow = slow
        self._max_block = max_block
        self._appended = getattr(partitioner, "appended", None)

    def find(self, topic: str) -> Route:
        """The route of a topic, waiting at most `max.block.ms` for metadata. Raises TopicUnavailable."""
        topic = str.__str__(topic)  # an enum's member is a name, too, but not for code that is compiled
        known = self._metadata.cluster.topics.get(topic)
        if known is None or not known.leaders:
            known = self._metadata.wait_for(topic, partition=None, timeout=self._patience())
        return self._route_to(topic, known)

    def await_partition(self, topic: str, partition: int, *, waited: float = 0.0) -> Route:
        """A route of the topic that has this partition, waiting for metadata. Raises TopicUnavailable.

        The seconds that the same call has *waited* already are part of `max.block.ms`.
        """
        topic = str.__str__(topic)
        known = self._metadata.wait_for(topic, partition=partition, timeout=self._patience(), waited=waited)
        return self._route_to(topic, known)

    def _route_to(self, topic: str, known: Topic) -> Route:
        cluster = self._metadata.cluster
        view = TopicView(
            partitions=len(known.leaders),
            available=tuple(p for p in range(len(known.leaders)) if cluster.leader(topic, p) is not None),
            queued_bytes=(),
            slow=self._slow_partitions(known),
        )
        route = self.known[topic] = Route(self._intake.queues(topic, view))
        if self._metadata.cluster is not cluster:  # changed meanwhile, perhaps before there was anything to forget
            self.known.pop(topic, None)
        return route

    def next_stay(self, topic: str, route: Route) -> int:
        """Where records without a key go now that the batch they went to has no room."""
        counted = route.count_stay()
        if counted is not None and self._appended is not None:
            ask_partitioner(self._appended, topic, *counted)
        return partition_of(self._partitioner.partition, topic, None, route.view)

    def let_go_of_failed(self) -> None:
        """Keep no batch that has failed: its end, when no delivery is left either, is where its loss is logged."""
        for route in list(self.known.values()):
            batch = route.stay
            if batch is not None and isinstance(batch.outcome, Failed):
                route.end_stay(batch)

    def forget(self) -> None:
        """The cluster is not what it was."""
        self.known.clear()

    def _slow_partitions(self, topic: Topic) -> frozenset[int]:
        nodes = self._slow()
        return frozenset(p for p, leader in enumerate(topic.leaders) if leader in nodes) if nodes else frozenset()

    def _patience(self) -> float:
        """How long to wait for metadata: not at all inside a callback, where nothing could bring it."""
        return 0.0 if io_threads.here() else self._max_block
