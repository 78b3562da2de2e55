"""Faults of single brokers: crashed, upgraded, frozen, outdated, missing in metadata, and their quotas."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from ottla_testkit.simulation.planned_faults.fault import Fault
from ottla_testkit.simulation.simulation import Simulation


@attrs.frozen(kw_only=True)
class FrozenBroker(Fault):
    """A broker reads nothing; its system still takes bytes."""

    broker: int

    def begin(self, simulation: Simulation) -> None:
        simulation.network.freeze(self.broker)

    def end(self, simulation: Simulation) -> None:
        simulation.network.thaw(self.broker)


@attrs.frozen(kw_only=True)
class CrashedBroker(Fault):
    """A broker is down, and *next_leader* leads its partitions from then on."""

    broker: int
    next_leader: int

    def begin(self, simulation: Simulation) -> None:
        simulation.cluster.brokers[self.broker].up = False
        simulation.cluster.controller.changed(self.broker)
        for topic in simulation.cluster.topics.values():
            for partition, leader in enumerate(topic.leaders):
                if leader == self.broker and partition not in topic.replicated:
                    topic.move_leader(partition, self.next_leader)
        if simulation.cluster.coordinates == self.broker:
            simulation.cluster.coordinator = self.next_leader
        if simulation.cluster.group_coordinator == self.broker:
            simulation.cluster.group_coordinator = self.next_leader

    def end(self, simulation: Simulation) -> None:
        simulation.cluster.brokers[self.broker].up = True
        simulation.cluster.controller.changed(self.broker)


@attrs.frozen(kw_only=True)
class UpgradedBroker(CrashedBroker):
    """A broker is down, and starts as one of another release: *newest* has its newest version of requests, by key."""

    newest: Mapping[int, int]

    def end(self, simulation: Simulation) -> None:
        versions = simulation.cluster.brokers[self.broker].versions
        for key, newest in self.newest.items():
            versions[key] = (versions[key][0], newest)
        super().end(simulation)


@attrs.frozen(kw_only=True)
class OutdatedFeatures(Fault):
    """A broker does not learn of other features than those of this moment."""

    broker: int

    def begin(self, simulation: Simulation) -> None:
        broker = simulation.cluster.brokers[self.broker]
        broker.outdated_features = broker.features

    def end(self, simulation: Simulation) -> None:
        simulation.cluster.brokers[self.broker].outdated_features = None


@attrs.frozen(kw_only=True)
class OutdatedMetadata(Fault):
    """A broker goes on to return the metadata of this moment."""

    broker: int

    def begin(self, simulation: Simulation) -> None:
        simulation.cluster.brokers[self.broker].outdated_metadata = simulation.cluster.answer_metadata(
            broker=self.broker
        )

    def end(self, simulation: Simulation) -> None:
        simulation.cluster.brokers[self.broker].outdated_metadata = None


@attrs.frozen(kw_only=True)
class UnlistedBroker(Fault):
    """Metadata leaves a broker out."""

    broker: int

    def begin(self, simulation: Simulation) -> None:
        simulation.cluster.unlisted.add(self.broker)

    def end(self, simulation: Simulation) -> None:
        simulation.cluster.unlisted.discard(self.broker)


@attrs.frozen(kw_only=True)
class ThrottlingBroker(Fault):
    """A broker's Produce responses ask the client to wait."""

    broker: int
    throttle_ms: int

    def begin(self, simulation: Simulation) -> None:
        broker = simulation.cluster.brokers[self.broker]
        broker.throttle_ms, broker.mutes = self.throttle_ms, True

    def end(self, simulation: Simulation) -> None:
        simulation.cluster.brokers[self.broker].throttle_ms = 0


@attrs.frozen(kw_only=True)
class ProduceQuota(Fault):
    """A broker lets a client write this number of bytes per second."""

    broker: int
    bytes_per_second: float

    def begin(self, simulation: Simulation) -> None:
        broker = simulation.cluster.brokers[self.broker]
        broker.quota, broker.mutes = self.bytes_per_second, True

    def end(self, simulation: Simulation) -> None:
        simulation.cluster.brokers[self.broker].quota = None
