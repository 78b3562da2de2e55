"""Faults of topics, and of the state of producers."""

from __future__ import annotations

import attrs

from ottla_testkit.simulation.planned_faults.fault import Fault
from ottla_testkit.simulation.simulation import Simulation


@attrs.frozen(kw_only=True)
class SmallBatches(Fault):
    """A topic refuses batches of more than `max_message_bytes` bytes."""

    topic: str
    max_message_bytes: int

    def begin(self, simulation: Simulation) -> None:
        if self.topic in simulation.cluster.topics:
            simulation.cluster.topics[self.topic].max_message_bytes = self.max_message_bytes

    def end(self, simulation: Simulation) -> None:
        if self.topic in simulation.cluster.topics:
            simulation.cluster.topics[self.topic].max_message_bytes = None


@attrs.frozen(kw_only=True)
class RecreatedTopic(Fault):
    """A topic is deleted, and created again when the fault ends: with another id, and no fewer partitions."""

    topic: str
    leaders: tuple[int, ...]

    def begin(self, simulation: Simulation) -> None:
        if self.topic in simulation.cluster.topics:
            simulation.cluster.delete(self.topic)

    def end(self, simulation: Simulation) -> None:
        if self.topic not in simulation.cluster.topics:
            before = next(topic for topic in reversed(simulation.cluster.deleted) if topic.name == self.topic)
            some = next(iter(simulation.cluster.brokers))
            added = [leader if leader in simulation.cluster.brokers else some for leader in before.leaders]
            leaders = (*self.leaders, *added[len(self.leaders) :])
            simulation.cluster.create(self.topic, *leaders, min_insync=before.min_insync)


@attrs.frozen(kw_only=True)
class CreatedTopic(Fault):
    """A topic that was missing is created."""

    topic: str
    leaders: tuple[int, ...]

    def begin(self, simulation: Simulation) -> None:
        if self.topic not in simulation.cluster.topics:
            simulation.cluster.create(self.topic, *self.leaders)


@attrs.frozen(kw_only=True)
class AddedPartition(Fault):
    """A topic gets one more partition."""

    topic: str
    leader: int

    def begin(self, simulation: Simulation) -> None:
        if self.topic in simulation.cluster.topics:
            simulation.cluster.add_partition(simulation.cluster.topics[self.topic], self.leader)


@attrs.frozen(kw_only=True)
class DeletedRecords(Fault):
    """The oldest records of a topic are deleted, by retention or DeleteRecords; each partition keeps `kept` of them.

    In a cluster with `older_logs`, brokers forget the producers whose records are deleted.
    """

    topic: str
    kept: int = 0

    def begin(self, simulation: Simulation) -> None:
        topic = simulation.cluster.topics.get(self.topic)
        if topic is None:
            return
        for partition, records in list(topic.log.items()):
            topic.delete_records(partition, len(records) - self.kept, forgets=simulation.cluster.older_logs)


@attrs.frozen(kw_only=True)
class ForgottenProducers(Fault):
    """The brokers lose the state of all producers of a topic, as after `producer.id.expiration.ms`."""

    topic: str

    def begin(self, simulation: Simulation) -> None:
        if self.topic in simulation.cluster.topics:
            simulation.cluster.topics[self.topic].forget_producers()
