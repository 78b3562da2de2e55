"""Faults of leaders and followers."""

from __future__ import annotations

import attrs

from ottla_testkit.simulation.planned_faults.fault import Fault
from ottla_testkit.simulation.simulation import Simulation


@attrs.frozen(kw_only=True)
class MovedLeader(Fault):
    """Another broker becomes the leader of a partition."""

    topic: str
    partition: int
    leader: int

    def begin(self, simulation: Simulation) -> None:
        topic = simulation.cluster.topics.get(self.topic)
        if topic is not None and self.partition < len(topic.leaders) and simulation.cluster.brokers[self.leader].up:
            topic.move_leader(self.partition, self.leader)


@attrs.frozen(kw_only=True)
class UncleanElection(Fault):
    """A replica becomes the leader of a partition although it may lack acknowledged records."""

    topic: str
    partition: int
    leader: int

    def begin(self, simulation: Simulation) -> None:
        topic = simulation.cluster.topics.get(self.topic)
        if topic is not None and self.partition in topic.replicated:
            topic.replicated[self.partition].elect_uncleanly(self.leader)


@attrs.frozen(kw_only=True)
class IsolatedBroker(Fault):
    """Clients reach a broker, but neither the controller nor other brokers do: it may still believe that it leads."""

    broker: int

    def begin(self, simulation: Simulation) -> None:
        simulation.cluster.controller.isolate(self.broker)

    def end(self, simulation: Simulation) -> None:
        simulation.cluster.controller.rejoin(self.broker)


@attrs.frozen(kw_only=True)
class SlowFollower(Fault):
    """Each fetch of a broker takes this number of seconds: it may not be in sync any more."""

    broker: int
    lag: float

    def begin(self, simulation: Simulation) -> None:
        simulation.cluster.controller.lags[self.broker] = self.lag

    def end(self, simulation: Simulation) -> None:
        simulation.cluster.controller.lags.pop(self.broker, None)
