"""Cached routes: the queues and the sticky batch of each topic, so that most records need no lookup of metadata.

A route is removed whenever the cluster or the set of slow brokers changes; the next record makes a new one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from ottla.accumulator.batch import ProducerBatch
from ottla.accumulator.batch_outcome import Failed
from ottla.accumulator.partition_appender import PartitionAppender
from ottla.accumulator.partition_queue import TopicQueues
from ottla.accumulator.partitioner_abilities import PartitionerAbilities
from ottla.accumulator.partitioner_calls import ask_partitioner, partition_of
from ottla.concurrency import io_threads
from ottla.config.wait_limit import WaitLimit
from ottla.interfaces import TopicView
from ottla.network.cluster import NO_LEADER, Topic
from ottla.network.metadata import Metadata
from ottla.network.nonblocking_metadata_wait import MetadataWait


class Route:
    """One topic's queues, and its sticky batch, to which records without partition and key go while it has room."""

    __slots__ = ("_counted", "_lock", "queues", "sticky_batch", "topic", "unassigned", "view")

    def __init__(self, topic: TopicQueues) -> None:
        assert topic.view is not None
        self.topic = topic
        self.view = topic.view
        self.queues = topic.queues
        self.unassigned = topic.unassigned
        self.sticky_batch: ProducerBatch | None = None
        self._counted = 0
        self._lock = threading.RLock()  # a signal handler may interrupt its holder, and take it, too

    def set_sticky_batch(self, batch: ProducerBatch) -> None:
        """Make this the sticky batch."""
        with self._lock:
            if self.sticky_batch is not batch:
                self.sticky_batch = batch
                self._counted = 0

    def clear_sticky_batch(self, batch: ProducerBatch) -> None:
        """Have no sticky batch any more, if it is this one."""
        with self._lock:
            if self.sticky_batch is batch:
                self.sticky_batch = None

    def take_sticky_bytes(self) -> tuple[int, int] | None:
        """The sticky batch's partition, and the bytes that went there since the last call; None if there is none."""
        with self._lock:
            batch = self.sticky_batch
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
        appender: PartitionAppender,
        partitioner: PartitionerAbilities,
        slow: Callable[[], frozenset[int]],
        max_block: float,
    ) -> None:
        self.known: Final[dict[str, Route]] = {}
        self._metadata = metadata
        self._appender = appender
        self._partitioner = partitioner
        self._slow = slow
        self._max_block = max_block
        self._appended = partitioner.appended

    def find(self, topic: str, *, waited: float = 0.0, timeout: float | None = None) -> Route:
        """The route of a topic, waiting for metadata. Raises TopicUnavailableError.

        The call may wait *timeout* seconds altogether, None: `max.block.ms`, and has *waited* some of them already.
        """
        topic = str.__str__(topic)  # a member of a str enum is a name, too, but compiled code takes only str itself
        known = self._metadata.cluster.topics.get(topic)
        if known is None or not known.leaders:
            known = self._wait_for(topic, None, waited=waited, timeout=timeout)
        return self._route_to(topic, known)

    def try_find(self, topic: str, *, partition: int | None = None) -> Route | MetadataWait:
        """The route of a topic, with this partition, without blocking; until metadata has it, a wait for it."""
        topic = str.__str__(topic)
        route = self.known.get(topic)
        if route is not None and (partition is None or partition < route.view.partitions):
            return route
        found = self._metadata.find(topic, partition=partition)
        return found if isinstance(found, MetadataWait) else self._route_to(topic, found)

    def time_out(self, wait: MetadataWait, *, timeout: float | None = None) -> None:
        """End a wait whose time has run out: raises TopicUnavailableError as `find` does; returns if it is over."""
        self._metadata.time_out(wait, limit=WaitLimit.of(timeout, max_block=self._max_block))

    def await_partition(
        self, topic: str, partition: int, *, waited: float = 0.0, timeout: float | None = None
    ) -> Route:
        """The route of a topic once it has this partition, waiting for metadata as `find` does."""
        topic = str.__str__(topic)
        return self._route_to(topic, self._wait_for(topic, partition, waited=waited, timeout=timeout))

    def _wait_for(self, topic: str, partition: int | None, *, waited: float, timeout: float | None) -> Topic:
        limit = WaitLimit.of(timeout, max_block=self._max_block)
        # A callback cannot wait: it runs on the thread that fetches metadata.
        seconds = 0.0 if io_threads.on_io_thread() else limit.seconds
        return self._metadata.wait_for(topic, partition=partition, timeout=seconds, waited=waited, limit=limit.name)

    def _route_to(self, topic: str, known: Topic) -> Route:
        cluster = self._metadata.cluster
        leaders = tuple(leader if leader in cluster.brokers else NO_LEADER for leader in known.leaders)
        view = TopicView(
            partitions=len(leaders),
            available=tuple(p for p, leader in enumerate(leaders) if leader != NO_LEADER),
            queued_bytes=(),
            slow=self._slow_partitions(known),
            leaders=leaders,
            racks={node: broker.rack for node, broker in cluster.brokers.items() if broker.rack},
        )
        route = self.known[topic] = Route(self._appender.queues(topic, view))
        if self._metadata.cluster is not cluster:  # changed meanwhile, perhaps before `known` had this route
            self.known.pop(topic, None)
        return route

    def next_sticky_partition(self, topic: str, route: Route) -> int:
        """The partition for records without a key, if there is no sticky batch or it has no room."""
        counted = route.take_sticky_bytes()
        if counted is not None and self._appended is not None:
            ask_partitioner(self._appended, topic, *counted)
        return partition_of(self._partitioner.partition, topic, None, route.view)

    def drop_failed_batches(self) -> None:
        """Release sticky batches that have failed: a lost record is logged only when its batch is dropped."""
        for route in list(self.known.values()):
            batch = route.sticky_batch
            if batch is not None and isinstance(batch.outcome, Failed):
                route.clear_sticky_batch(batch)

    def forget(self) -> None:
        """Remove all routes, because the cluster has changed."""
        self.known.clear()

    def _slow_partitions(self, topic: Topic) -> frozenset[int]:
        nodes = self._slow()
        return frozenset(p for p, leader in enumerate(topic.leaders) if leader in nodes) if nodes else frozenset()
