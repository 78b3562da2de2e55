"""Between the answer to EndTxn and the last marker, a simulated coordinator answers as a real one does.

The leader of one of two partitions is frozen meanwhile, so that its marker cannot be written.
"""

from __future__ import annotations

import difflib
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from types import SimpleNamespace
from typing import Final, Protocol

import attrs
import pytest
from confluent_kafka import Consumer, TopicPartition
from conversations import Conversation, Peer, RealPeer, SimulatedPeer
from shared_clusters import started
from transaction_conversations import BEFORE_KIP_890, SINCE_KIP_890, Owner

from ottla_testkit.kafka_cluster import KafkaCluster, admin_requests
from ottla_testkit.kafka_cluster.features import TRANSACTION_VERSION, set_feature
from ottla_testkit.simulation import SimulatedCluster, Simulation
from ottla_testkit.simulation.committed_reader import CommittedReader
from ottla_testkit.simulation.planned_faults import SeparateMarkers, plan
from transactions_kit import await_true

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(300)]

ONE_COPY: Final = {"transaction.state.log.replication.factor": 1, "offsets.topic.replication.factor": 1}
"""No request waits for a frozen follower."""

STEP: Final = 0.01
"""Seconds of a simulation after which what is due happens."""


@pytest.fixture(scope="module")
def three() -> Iterator[KafkaCluster]:
    with started(nodes=3, config=ONE_COPY) as kafka:
        yield kafka


@attrs.frozen(kw_only=True)
class Place:
    """A topic, the leaders of its partitions, and the coordinator of its transaction."""

    topic: str
    leaders: Sequence[int]
    coordinator: int

    @property
    def near(self) -> int:
        """A partition that the coordinator leads."""
        return self.leaders.index(self.coordinator)

    @property
    def empty(self) -> int:
        """Another one that it leads."""
        return self.leaders.index(self.coordinator, self.near + 1)

    @property
    def away(self) -> int:
        """A partition that another broker leads, which is frozen later."""
        return next(number for number, leader in enumerate(self.leaders) if leader != self.coordinator)


class Side(Protocol):
    """One of the two clusters."""

    def peer(self, node: int) -> Peer:
        """A connection to a broker."""

    def freeze(self, node: int) -> None:
        """Freeze a broker."""

    def thaw(self, node: int) -> None:
        """Let it go on."""

    def is_readable(self, partition: int) -> bool:
        """Whether a reader of committed records can read everything in this partition."""

    def await_readable(self, partition: int) -> None:
        """Wait until it can."""


@attrs.frozen
class RealSide:
    kafka: KafkaCluster
    topic: str
    stack: ExitStack

    def peer(self, node: int) -> Peer:
        return self.stack.enter_context(closing(RealPeer(self.kafka.address(node))))

    def freeze(self, node: int) -> None:
        self.kafka.pause(node)

    def thaw(self, node: int) -> None:
        self.kafka.resume(node)

    def is_readable(self, partition: int) -> bool:
        return self._end(partition, "read_committed") == self._end(partition, "read_uncommitted")

    def _end(self, partition: int, level: str) -> int:
        """Return the offset at which a consumer with this isolation level waits."""
        settings = {"bootstrap.servers": self.kafka.bootstrap_servers, "group.id": "g", "isolation.level": level}
        with closing(Consumer(settings)) as consumer:
            _start, end = consumer.get_watermark_offsets(TopicPartition(self.topic, partition), timeout=10)
        return int(end)

    def await_readable(self, partition: int) -> None:
        await_true(lambda: self.is_readable(partition))


class SimulatedSide:
    def __init__(self, place: Place, level: int) -> None:
        self.cluster = SimulatedCluster.of(1, 2, 3)
        self.cluster.transaction_version, self.cluster.coordinator = level, place.coordinator
        self.topic = self.cluster.create(place.topic, *place.leaders)
        self.simulation = Simulation(self.cluster)
        plan(self.simulation, [SeparateMarkers(at=0.0, seconds=1_000.0, slowest=STEP)])
        self.pass_time(STEP)
        self.readers = {number: CommittedReader(self.topic, number) for number in range(len(place.leaders))}

    def pass_time(self, seconds: float) -> None:
        for _ in range(round(seconds / STEP)):
            self.simulation.clock.advance(STEP)
            self.simulation.network.schedule.run()

    def peer(self, node: int) -> Peer:
        return SimulatedPeer(self.cluster.brokers[node])

    def freeze(self, node: int) -> None:
        self.simulation.network.freeze(node)

    def thaw(self, node: int) -> None:
        self.simulation.network.thaw(node)

    def is_readable(self, partition: int) -> bool:
        self.readers[partition].poll()
        return self.readers[partition].waits_for is None

    def await_readable(self, partition: int) -> None:
        self.pass_time(3.0)
        assert self.is_readable(partition)


def conversation(side: Side, place: Place, level: int, *, commit: bool) -> Sequence[str]:
    """End a transaction of two partitions while the leader of one is frozen, and ask for what is possible meanwhile."""
    talk = Conversation(side.peer(place.coordinator), exact_offsets=False)
    away = Conversation(side.peer(place.leaders[place.away]), talk.lines, talk.names, exact_offsets=False)
    versions = SINCE_KIP_890 if level == 2 else BEFORE_KIP_890
    owner = Owner(talk, SimpleNamespace(plain=place.topic, level=level), versions=versions)  # type: ignore[arg-type]
    owner.initialize("new")
    owner.begin(partition=place.near)
    if level == 1:
        owner.add("add the other", place.topic, partition=place.away)
    owner.talk = away
    owner.send("to the other", partition=place.away)
    owner.talk, owner.waits, before = talk, False, owner.now
    assert not side.is_readable(place.near)
    side.freeze(place.leaders[place.away])
    try:
        owner.end("end", commit=commit)
        side.await_readable(place.near)
        now = owner.now
        owner.initialize("another process")
        owner.initialize("a new epoch", now)
        owner.initialize("the old epoch", before)
        owner.end("end again", commit=commit, who=before)
        owner.end("end the next", commit=commit)
        owner.end("the opposite", commit=not commit, who=before)
        owner.add("the marked partition", place.topic, partition=place.near)
        owner.add("the marked partition, by the old epoch", place.topic, partition=place.near, who=before)
        owner.add("by a newer epoch", place.topic, partition=place.near, who=(now[0], now[1] + 5))
        owner.add("by another producer", place.topic, partition=place.near, who=(now[0] + 1_000_000, 0))
        owner.add_group("a group")
        for version in (11, versions.produce):
            owner.send(f"the next, {version}", partition=place.near, version=version, sequence=0 if level == 2 else 1)
        owner.send("more of the old", partition=place.near, who=before, sequence=1)
        owner.send("the old again", partition=place.near, who=before, sequence=0)
        owner.send("the old, where it has written nothing", partition=place.empty, who=before, sequence=0)
        owner.send("the next there", partition=place.empty, sequence=0)
        owner.send("a newer one there", partition=place.empty, who=(now[0], now[1] + 5), sequence=0)
        owner.send("another producer there", partition=place.empty, who=(now[0] + 1_000_000, 0), sequence=0)
    finally:
        side.thaw(place.leaders[place.away])
    side.await_readable(place.away)
    talk.peer.await_end(owner.id)
    owner.waits = True
    owner.end("end again, later", commit=commit, who=before)
    if level == 2:
        owner.send("the next, later", partition=place.near, sequence=0)
    else:
        owner.initialize("a new epoch, later", owner.now)
    return talk.lines


def place_in(three: KafkaCluster) -> Place:
    """A new topic; a broker that has just come back may lead none or one of its partitions."""
    topic = f"markers-{uuid.uuid4().hex[:8]}"
    three.create_topic(topic, partitions=12, replication=1)
    await_true(lambda: admin_requests.transaction_coordinator(three.address(1), f"{topic}-1") > 0)
    return Place(
        topic=topic,
        leaders=[three.leader(topic, number) for number in range(12)],
        coordinator=admin_requests.transaction_coordinator(three.address(1), f"{topic}-1"),
    )


@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
@pytest.mark.parametrize("level", [1, 2])
def test_a_coordinator_without_all_markers_answers_as_a_real_one(three: KafkaCluster, level: int, commit: bool) -> None:
    set_feature(three.address(1), TRANSACTION_VERSION, level)
    await_true(
        lambda: len(admin_requests.metadata(three.address(1)).brokers) == len(three.nodes)
    )  # not fenced any more
    place = place_in(three)
    while place.leaders.count(place.coordinator) < 2:
        place = place_in(three)

    with ExitStack() as stack:
        real = conversation(RealSide(three, place.topic, stack), place, level, commit=commit)
    simulated = conversation(SimulatedSide(place, level), place, level, commit=commit)

    differences = [line for line in difflib.ndiff(real, simulated) if line[:1] in "-+"]
    assert not differences, "\n".join(["- the real broker, + the simulated one:", *differences])
    assert any("CONCURRENT_TRANSACTIONS" in line for line in real)
