"""Faults of single brokers: crashed, frozen, outdated, missing in metadata, and their quotas."""

from __future__ import annotations

import attrs

from ottla_testkit.simulation.planned_faults.fault import Fault
from ottla_testkit.simulation.simulation import Simulation


@attrs.frozen(kw_only=True)
class FrozenBroker(Fault):
    """A broker reads nothing; its system still takes bytes."""

    broker: int

    def begin(self, world: Simulation) -> None:
        world.network.freeze(self.broker)

    def end(self, world: Simulation) -> None:
        world.network.thaw(self.broker)


@attrs.frozen(kw_only=True)
class CrashedBroker(Fault):
    """A broker is down, and *heir* leads its partitions from then on."""

    broker: int
    heir: int

    def begin(self, world: Simulation) -> None:
        world.cluster.brokers[self.broker].up = False
        world.cluster.controller.changed(self.broker)
        for topic in world.cluster.topics.values():
            for partition, leader in enumerate(topic.leaders):
                if leader == self.broker and partition not in topic.replicated:
                    topic.move_leader(partition, self.heir)
        if world.cluster.coordinates == self.broker:
            world.cluster.coordinator = self.heir

    def end(self, world: Simulation) -> None:
        world.cluster.brokers[self.broker].up = True
        world.cluster.controller.changed(self.broker)


@attrs.frozen(kw_only=True)
class OutdatedMetadata(Fault):
    """A broker goes on to return the metadata of this moment."""

    broker: int

    def begin(self, world: Simulation) -> None:
        world.cluster.brokers[self.broker].outdated_metadata = world.cluster.answer_metadata((), broker=self.broker)

    def end(self, world: Simulation) -> None:
        world.cluster.brokers[self.broker].outdated_metadata = None


@attrs.frozen(kw_only=True)
class UnlistedBroker(Fault):
    """Metadata leaves a broker out."""

    broker: int

    def begin(self, world: Simulation) -> None:
        world.cluster.unlisted.add(self.broker)

    def end(self, world: Simulation) -> None:
        world.cluster.unlisted.discard(self.broker)


@attrs.frozen(kw_only=True)
class ThrottlingBroker(Fault):
    """A broker's Produce responses ask the client to wait."""

    broker: int
    throttle_ms: int

    def begin(self, world: Simulation) -> None:
        broker = world.cluster.brokers[self.broker]
        broker.throttle_ms, broker.mutes = self.throttle_ms, True

    def end(self, world: Simulation) -> None:
        world.cluster.brokers[self.broker].throttle_ms = 0


@attrs.frozen(kw_only=True)
class ProduceQuota(Fault):
    """A broker lets a client write this number of bytes per second."""

    broker: int
    bytes_per_second: float

    def begin(self, world: Simulation) -> None:
        broker = world.cluster.brokers[self.broker]
        broker.quota, broker.mutes = self.bytes_per_second, True

    def end(self, world: Simulation) -> None:
        world.cluster.brokers[self.broker].quota = None
