"""The steps of `Producer.send` that may wait: for a topic's metadata, and for memory.

`Producer.send` calls them if it does not know the topic's route, or if no open batch has room for the record. The
thread then blocks in `network.metadata` (`Metadata.wait_for`) or in `accumulator.buffer_pool` (`BufferPool.reserve`).
"""

from __future__ import annotations

from typing import Final

from ottla.accumulator.append_permission import CheckSendable
from ottla.accumulator.batch import UNASSIGNED, NewRecord, size_of
from ottla.accumulator.delivery import Delivery
from ottla.accumulator.partitioner_calls import ask_partitioner
from ottla.accumulator.topic_routes import Route
from ottla.producer.components import Engine
from ottla.producer.record_checks import check_record, check_size, check_topic_name

STICKY: Final = -2
"""In place of a partition: the one that records without a key go to at the moment."""


class BlockingSend:
    """Finds routes and queues records, for any thread; *check_sendable* raises if the producer takes no records.

    *timeout* limits a whole call in seconds; None means `max.block.ms`. *waited* is how much of it is over.
    """

    def __init__(self, engine: Engine, check_sendable: CheckSendable) -> None:
        queueing = engine.queueing
        self._check_sendable = check_sendable
        self._batching = engine.config.batching
        self._routes = queueing.routes
        self._appender = queueing.accumulator.appender
        self._keyed_appender = queueing.keyed_appender
        self._partitioner = queueing.partitioner
        self._metadata_wait = queueing.counters.producer.metadata_wait
        self._clock = engine.clock

    def wait_for_topic(self, topic: str, *, waited: float = 0.0, timeout: float | None = None) -> Route:
        """The route of a topic, from metadata, also of a producer that takes no records now."""
        check_topic_name(topic)
        with self._metadata_wait.timed(self._clock):
            return self._routes.find(topic, waited=waited, timeout=timeout)

    def find_route(self, topic: str, *, waited: float = 0.0, timeout: float | None = None) -> Route:
        """The route of a topic to which records are sent."""
        self._check_sendable()
        return self.wait_for_topic(topic, waited=waited, timeout=timeout)

    def find_partition(
        self, topic: str, partition: int | None, record: NewRecord, waited: float, timeout: float | None
    ) -> tuple[Route, float]:
        """The route of a topic, with that partition, and the seconds that the call has waited altogether.

        Raises for a record that cannot be sent, before it waits.
        """
        check_record(topic, partition, size_of(record), self._batching)
        started_at = self._clock()
        route = self._routes.known.get(topic) or self.find_route(topic, waited=waited, timeout=timeout)
        if partition is not None and partition >= route.view.partitions:
            self._check_sendable()
            waited_before = waited + self._clock() - started_at
            with self._metadata_wait.timed(self._clock):
                route = self._routes.await_partition(topic, partition, waited=waited_before, timeout=timeout)
        return route, waited + self._clock() - started_at

    def append(
        self,
        topic: str,
        partition: int | None,
        chosen: int,
        record: NewRecord,
        route: Route,
        waited: float,
        timeout: float | None,
        transaction: int,
    ) -> Delivery:
        """Queue a record for which no open batch has room, in this *transaction* or in none.

        *partition* is the one that the caller of `send` named, if any; *chosen* may be STICKY or UNASSIGNED.
        """
        size = size_of(record)
        check_size(topic, size, self._batching)
        sticky = chosen == STICKY
        if sticky:
            chosen = self._routes.next_sticky_partition(topic, route)
        if partition is None and self._partitioner.on_new_batch is not None:
            placed = self._appender.append_to_open(topic, chosen, record, size, transaction=transaction)
            if placed is not None:
                return Delivery(*placed)
            ask_partitioner(self._partitioner.on_new_batch, topic, chosen, route.view)
            chosen = self._partitioner.choose(topic, record, route.view)
        keyed = self._keyed_appender
        appender = self._appender if keyed is None or chosen != UNASSIGNED else keyed
        batch, index = appender.append(
            topic, chosen, record, size, waited=waited, timeout=timeout, transaction=transaction
        )
        if sticky:
            route.set_sticky_batch(batch)
        return Delivery(batch, index)
