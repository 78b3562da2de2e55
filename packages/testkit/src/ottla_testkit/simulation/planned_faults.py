"""Faults that begin at a planned time of a simulation, and end after a while."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import attrs

from ottla.errors import ErrorCode
from ottla_testkit.simulation.link_conditions import LinkConditions
from ottla_testkit.simulation.planned_network import PlannedNetwork, PlannedTreatment
from ottla_testkit.simulation.simulation import Simulation


@attrs.frozen(kw_only=True)
class Fault:
    """A fault from the time `at`, for `seconds`. `begin` and `end` change the simulation."""

    at: float
    seconds: float = 0.0

    @property
    def until(self) -> float:
        """The time at which the fault ends."""
        return self.at + self.seconds

    def begin(self, world: Simulation) -> None:
        """Begin the fault."""

    def end(self, world: Simulation) -> None:
        """End the fault."""


@attrs.frozen(kw_only=True)
class TreatedRequests(Fault):
    """The next Produce requests to a broker are treated as planned; those that do not come in time, as usual."""

    broker: int
    treatments: tuple[PlannedTreatment, ...]

    def begin(self, world: Simulation) -> None:
        _planned(world).treatments[self.broker].extend(self.treatments)

    def end(self, world: Simulation) -> None:
        _planned(world).treatments[self.broker].clear()

    def __str__(self) -> str:
        planned = ", ".join(map(str, self.treatments))
        return f"Produce requests to broker {self.broker} within {self.seconds:.1f} s: {planned}"


@attrs.frozen(kw_only=True)
class CoordinatorRefusals(Fault):
    """A broker refuses the next requests of this name, with these codes."""

    broker: int
    request: str
    codes: tuple[ErrorCode, ...]

    def begin(self, world: Simulation) -> None:
        broker = world.cluster.brokers[self.broker]
        for code in self.codes:
            broker.errand_codes.setdefault(self.request, deque()).append(code)

    def end(self, world: Simulation) -> None:
        world.cluster.brokers[self.broker].errand_codes.clear()


@attrs.frozen(kw_only=True)
class MovedCoordinator(Fault):
    """Another broker becomes the coordinator of all transactions."""

    broker: int

    def begin(self, world: Simulation) -> None:
        if world.cluster.brokers[self.broker].up:
            world.cluster.coordinator = self.broker


@attrs.frozen(kw_only=True)
class FencedProducer(Fault):
    """Another producer takes a transactional id over."""

    transactional_id: str

    def begin(self, world: Simulation) -> None:
        world.cluster.transactions.initialize(self.transactional_id, None)


@attrs.frozen(kw_only=True)
class TimedOutTransaction(Fault):
    """The coordinator aborts an open transaction, as after `transaction.timeout.ms`."""

    transactional_id: str

    def begin(self, world: Simulation) -> None:
        world.cluster.transactions.time_out(self.transactional_id)


@attrs.frozen(kw_only=True)
class SlowMarkers(Fault):
    """The markers of transactions that end are written after this number of seconds."""

    marker_seconds: float

    def begin(self, world: Simulation) -> None:
        world.cluster.transactions.marker_seconds = self.marker_seconds

    def end(self, world: Simulation) -> None:
        world.cluster.transactions.marker_seconds = 0.0


@attrs.frozen(kw_only=True)
class DeniedTopic(Fault):
    """The client may neither describe nor write a topic."""

    topic: str

    def begin(self, world: Simulation) -> None:
        world.cluster.denied_topics.add(self.topic)

    def end(self, world: Simulation) -> None:
        world.cluster.denied_topics.discard(self.topic)


@attrs.frozen(kw_only=True)
class DeniedTransactionalId(Fault):
    """The client may not use a transactional id."""

    transactional_id: str

    def begin(self, world: Simulation) -> None:
        world.cluster.denied_ids.add(self.transactional_id)

    def end(self, world: Simulation) -> None:
        world.cluster.denied_ids.discard(self.transactional_id)


@attrs.frozen(kw_only=True)
class RefusedLogin(Fault):
    """A broker refuses the logins of all users."""

    broker: int

    def begin(self, world: Simulation) -> None:
        login = world.cluster.brokers[self.broker].login
        if login is not None:
            login.refusing = True

    def end(self, world: Simulation) -> None:
        login = world.cluster.brokers[self.broker].login
        if login is not None:
            login.refusing = False


@attrs.frozen(kw_only=True)
class CutConnections(Fault):
    """The connections to a broker end; *gently*: bytes that the broker has sent still arrive."""

    broker: int
    gently: bool = False

    def begin(self, world: Simulation) -> None:
        (world.network.hang_up if self.gently else world.network.cut)(self.broker)


@attrs.frozen(kw_only=True)
class HalfOpenConnections(Fault):
    """All bytes of a broker's connections are lost, in one direction or both, and neither side notices."""

    broker: int
    out: bool
    back: bool

    def begin(self, world: Simulation) -> None:
        world.network.half_open(self.broker, out=self.out, back=self.back)


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
class UnreachableBroker(Fault):
    """A broker's host refuses new connections or, as a *black_hole*, never answers their first packet."""

    broker: int
    black_hole: bool

    def begin(self, world: Simulation) -> None:
        self._hosts(world).add(f"broker-{self.broker}")

    def end(self, world: Simulation) -> None:
        self._hosts(world).discard(f"broker-{self.broker}")

    def _hosts(self, world: Simulation) -> set[str]:
        return world.network.hosts.black_holes if self.black_hole else world.network.hosts.refusing


@attrs.frozen(kw_only=True)
class DistantBroker(Fault):
    """New connections to a broker have this round trip time, and this number of bytes per second."""

    broker: int
    round_trip: float
    bandwidth: float | None = None

    def begin(self, world: Simulation) -> None:
        world.network.wires[self.broker] = LinkConditions(round_trip=self.round_trip, bandwidth=self.bandwidth)
        world.network.cut(self.broker)

    def end(self, world: Simulation) -> None:
        world.network.wires.pop(self.broker, None)
        world.network.hang_up(self.broker)


@attrs.frozen(kw_only=True)
class MovedLeader(Fault):
    """Another broker becomes the leader of a partition."""

    topic: str
    partition: int
    leader: int

    def begin(self, world: Simulation) -> None:
        topic = world.cluster.topics.get(self.topic)
        if topic is not None and self.partition < len(topic.leaders) and world.cluster.brokers[self.leader].up:
            topic.move_leader(self.partition, self.leader)


@attrs.frozen(kw_only=True)
class UncleanElection(Fault):
    """A replica becomes the leader of a partition although it may lack acknowledged records."""

    topic: str
    partition: int
    leader: int

    def begin(self, world: Simulation) -> None:
        topic = world.cluster.topics.get(self.topic)
        if topic is not None and self.partition in topic.replicated:
            topic.replicated[self.partition].elect_uncleanly(self.leader)


@attrs.frozen(kw_only=True)
class IsolatedBroker(Fault):
    """Clients reach a broker, but neither the controller nor other brokers do: it may still believe that it leads."""

    broker: int

    def begin(self, world: Simulation) -> None:
        world.cluster.controller.isolate(self.broker)

    def end(self, world: Simulation) -> None:
        world.cluster.controller.rejoin(self.broker)


@attrs.frozen(kw_only=True)
class SlowFollower(Fault):
    """Each fetch of a broker takes this number of seconds: it may not be in sync any more."""

    broker: int
    lag: float

    def begin(self, world: Simulation) -> None:
        world.cluster.controller.lags[self.broker] = self.lag

    def end(self, world: Simulation) -> None:
        world.cluster.controller.lags.pop(self.broker, None)


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


@attrs.frozen(kw_only=True)
class SmallBatches(Fault):
    """A topic refuses batches of more than this number of bytes."""

    topic: str
    max_message_bytes: int

    def begin(self, world: Simulation) -> None:
        if self.topic in world.cluster.topics:
            world.cluster.topics[self.topic].max_message_bytes = self.max_message_bytes

    def end(self, world: Simulation) -> None:
        if self.topic in world.cluster.topics:
            world.cluster.topics[self.topic].max_message_bytes = None


@attrs.frozen(kw_only=True)
class RecreatedTopic(Fault):
    """A topic is deleted, and created again when the fault ends: with another id, and no fewer partitions."""

    topic: str
    leaders: tuple[int, ...]

    def begin(self, world: Simulation) -> None:
        if self.topic in world.cluster.topics:
            world.cluster.delete(self.topic)

    def end(self, world: Simulation) -> None:
        if self.topic not in world.cluster.topics:
            before = next(topic for topic in reversed(world.cluster.deleted) if topic.name == self.topic)
            some = next(iter(world.cluster.brokers))
            added = [leader if leader in world.cluster.brokers else some for leader in before.leaders]
            leaders = (*self.leaders, *added[len(self.leaders) :])
            world.cluster.create(self.topic, *leaders, min_insync=before.min_insync)


@attrs.frozen(kw_only=True)
class AddedPartition(Fault):
    """A topic gets one more partition."""

    topic: str
    leader: int

    def begin(self, world: Simulation) -> None:
        if self.topic in world.cluster.topics:
            world.cluster.add_partition(world.cluster.topics[self.topic], self.leader)


@attrs.frozen(kw_only=True)
class ForgottenProducers(Fault):
    """The brokers lose the state of all producers of a topic, as after `producer.id.expiration.ms`."""

    topic: str

    def begin(self, world: Simulation) -> None:
        if self.topic in world.cluster.topics:
            world.cluster.topics[self.topic].forget_producers()


@attrs.frozen(kw_only=True)
class InterruptedProgram(Fault):
    """Ctrl-C raises KeyboardInterrupt in a program, if it waits in a call of a producer."""

    program: int

    def begin(self, world: Simulation) -> None:
        world.threads.interrupt(self.program)


@attrs.frozen(kw_only=True)
class StoppedProcess(Fault):
    """No thread of the process runs, as after SIGSTOP, or while its machine sleeps."""

    def begin(self, world: Simulation) -> None:
        world.threads.suspend(self.seconds)


def plan(world: Simulation, faults: Iterable[Fault]) -> None:
    """Have faults begin and end at their times."""
    for fault in faults:
        world.network.schedule.at(fault.at, lambda fault=fault: fault.begin(world))  # type: ignore[misc]
        world.network.schedule.at(fault.until, lambda fault=fault: fault.end(world))  # type: ignore[misc]


def _planned(world: Simulation) -> PlannedNetwork:
    assert isinstance(world.network, PlannedNetwork), "this fault needs a PlannedNetwork"
    return world.network
