"""Random workloads under random faults on three real brokers: the simulated ones give the same answers to them.

Each round has one kind of fault, and three producers of different kinds. Proxies note what brokers answer. Every answer
must be one that a simulated broker gives under the same kind of fault, with the same kinds of producers; and what
readers find must agree with what the producers reported. `OTTLA_SOAK_MINUTES` is the length of the long form.
"""

from __future__ import annotations

import os
import random
import struct
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import pytest
from cluster_behind_proxies import ClusterBehindProxies
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewPartitions,
    ResourcePatternType,
    ResourceType,
)
from long_forms import LONG
from observed_answers import Answer, Observed, RecordingProxy
from random_workloads import IDEMPOTENT, KINDS, PLAIN, TRANSACTIONAL, Work, World, Written, check, in_threads, run
from random_workloads import random_settings as settings_of

from ottla import Producer
from ottla.errors import ErrorCode
from ottla_testkit.errors import KafkaUnavailableError
from ottla_testkit.kafka_cluster.admin_requests import call, delete_topics, metadata
from ottla_testkit.kafka_cluster.features import TRANSACTION_VERSION, feature_level
from ottla_testkit.kafka_cluster.node_settings import Setting
from ottla_testkit.manual_clock import ManualClock
from ottla_testkit.proxy import Direction
from ottla_testkit.pytest_plugin import go_without
from ottla_testkit.simulation import Chance, Link, SimulatedCluster
from ottla_testkit.simulation.fault_injection import (
    COORDINATOR_REFUSALS,
    COORDINATOR_REQUESTS,
    random_link_conditions,
)
from ottla_testkit.simulation.pending_response import Response, changed
from ottla_testkit.simulation.planned_faults import (
    AddedPartition,
    CoordinatorRefusals,
    CrashedBroker,
    CutConnections,
    DeniedTopic,
    DeniedTransactionalId,
    Fault,
    FaultyRequests,
    FrozenBroker,
    IsolatedBroker,
    MovedCoordinator,
    MovedLeader,
    OutdatedMetadata,
    RecreatedTopic,
    SlowFollower,
    SlowMarkers,
    plan,
)
from ottla_testkit.simulation.planned_network import (
    PlannedNetwork,
    PlannedRequestFault,
    RequestFault,
    random_request_fault,
)
from ottla_testkit.simulation.simulation import Simulation
from readback import read_back
from transactions_kit import SEED, await_in_sync, await_markers, await_true

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.thorough("needs three brokers of its own; test_simulated_answers.py compares single requests"),
]

MINUTES: Final = float(os.environ.get("OTTLA_SOAK_MINUTES", "10"))
SECONDS: Final = 8.0
"""How long the producers of a round send."""
NODES: Final = (1, 2, 3)
USER, PASSWORD = "client", "secret"
SEEDS: Final = 100 if LONG else 30
"""Seeds of simulations of one state, at most, in which an answer of a real broker has to be found."""
SETTINGS: Final[Mapping[str, Setting]] = {
    "broker.session.timeout.ms": 2_500,
    "broker.heartbeat.interval.ms": 250,
    "auto.leader.rebalance.enable": "false",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "super.users": "User:ANONYMOUS",  # the brokers
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.clients.plain.sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required "
    f'user_{USER}="{PASSWORD}";',
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 1_000,
}
ALTER_PARTITION_REASSIGNMENTS, ELECT_LEADERS = 45, 43


class ObservedCluster(ClusterBehindProxies):
    """Three brokers, whose answers to clients are noted."""

    def __init__(self) -> None:
        self.observed = Observed()
        super().__init__(
            config=SETTINGS,
            protocol="SASL_PLAINTEXT",
            proxy=lambda host, port: RecordingProxy(host, port, self.observed),
        )


class RealWorld(World):
    """The real cluster."""

    def __init__(self, kafka: ObservedCluster, topic: str, transactional_id: str) -> None:
        self.topic, self.transactional_id = topic, transactional_id
        self._kafka = kafka
        self._began_at = time.monotonic()

    def producer(self, settings: Mapping[str, Any]) -> Producer:
        login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
        user = {"sasl.username": USER, "sasl.password": PASSWORD}
        return Producer({"bootstrap.servers": self._kafka.client_servers, **login, **user, **settings})

    def clock(self) -> float:
        return time.monotonic() - self._began_at

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


# What happens to the real brokers. Each returns faults of the same kind with the times at which they came.

RealFault = Callable[[ObservedCluster, RealWorld, random.Random], Sequence[Fault]]


def _nothing(_kafka: ObservedCluster, world: RealWorld, _chance: random.Random) -> Sequence[Fault]:
    world.sleep(SECONDS)
    return ()


def _cut(kafka: ObservedCluster, world: RealWorld, chance: random.Random) -> Sequence[Fault]:
    while world.clock() < SECONDS:
        way = chance.choice((Direction.OUT, Direction.BACK))
        proxy = kafka.proxies[chance.choice(NODES)]
        proxy.cut_after(
            chance.choice((0, chance.randrange(100), chance.randrange(3_000))), way, reset=chance.random() < 0.5
        )
        world.sleep(chance.choice((0.05, 0.3, 1.0)))
    return ()


def _kill(kafka: ObservedCluster, world: RealWorld, chance: random.Random) -> Sequence[Fault]:
    world.sleep(chance.uniform(0.5, 2.0))
    node = chance.choice(NODES)
    kafka.kill(node)
    world.sleep(chance.uniform(0.0, 4.0))
    kafka.start(node)
    world.sleep(1.0)
    return ()


def _stop(kafka: ObservedCluster, world: RealWorld, chance: random.Random) -> Sequence[Fault]:
    world.sleep(chance.uniform(0.5, 2.0))
    node = chance.choice(NODES)
    kafka.stop(node)
    kafka.start(node)
    world.sleep(1.0)
    return ()


def _freeze(kafka: ObservedCluster, world: RealWorld, chance: random.Random) -> Sequence[Fault]:
    for _ in range(chance.choice((1, 2))):
        world.sleep(chance.uniform(0.2, 1.0))
        node = chance.choice(NODES)
        kafka.pause(node)
        world.sleep(chance.choice((0.3, 1.5, 4.5)))
        kafka.resume(node)
    world.sleep(1.5)
    return ()


def _move(kafka: ObservedCluster, world: RealWorld, chance: random.Random) -> Sequence[Fault]:
    name = world.topic.encode()
    while world.clock() < SECONDS:
        world.sleep(chance.choice((0.05, 0.5, 1.5)))
        partition = chance.randrange(3)
        order = chance.sample(NODES, len(NODES))
        wanted = struct.pack(">iB", 20_000, 2) + bytes([len(name) + 1]) + name
        wanted += struct.pack(">BiB3iBBB", 2, partition, len(NODES) + 1, *order, 0, 0, 0)
        elected = struct.pack(">ih", 1, len(name)) + name + struct.pack(">iii", 1, partition, 20_000)
        with suppress(OSError):
            call(kafka.address(1), ALTER_PARTITION_REASSIGNMENTS, 0, b"\0" + wanted, 20.0)
            call(kafka.address(1), ELECT_LEADERS, 0, elected, 20.0)
    return ()


def _add(kafka: ObservedCluster, world: RealWorld, chance: random.Random) -> Sequence[Fault]:
    admin = AdminClient({"bootstrap.servers": kafka.near_servers})
    for more in range(1, 4):
        world.sleep(chance.uniform(0.5, 2.5))
        for done in admin.create_partitions([NewPartitions(world.topic, 3 + more)]).values():
            done.result(30)
    world.sleep(1.0)
    return ()


def _recreate(kafka: ObservedCluster, world: RealWorld, chance: random.Random) -> Sequence[Fault]:
    world.sleep(chance.uniform(1.0, 3.0))
    began = world.clock()
    delete_topics(kafka.address(1), [world.topic])
    world.sleep(chance.uniform(0.0, 1.5))
    await_true(lambda: all(not metadata(kafka.address(node), topic=world.topic).partitions for node in NODES))
    kafka.create_topic(world.topic, partitions=3, replication=3, config={"min.insync.replicas": 2})
    fault = RecreatedTopic(at=began, seconds=world.clock() - began, topic=world.topic, leaders=(1, 2, 3))
    world.sleep(2.0)
    return [fault]


def _deny(kafka: ObservedCluster, world: RealWorld, chance: random.Random, kind: Any, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": kafka.near_servers})
    rule = kind, name, ResourcePatternType.LITERAL, f"User:{USER}", "*", AclOperation.ALL, AclPermissionType.DENY
    world.sleep(chance.uniform(0.5, 2.0))
    for done in admin.create_acls([AclBinding(*rule)]).values():
        done.result(30)
    world.sleep(chance.uniform(1.0, 3.0))
    for done in admin.delete_acls([AclBindingFilter(*rule)]).values():
        done.result(30)
    world.sleep(1.5)


def _deny_topic(kafka: ObservedCluster, world: RealWorld, chance: random.Random) -> Sequence[Fault]:
    began = world.clock()
    _deny(kafka, world, chance, ResourceType.TOPIC, world.topic)
    return [DeniedTopic(at=began, seconds=world.clock() - began, topic=world.topic)]


def _deny_id(kafka: ObservedCluster, world: RealWorld, chance: random.Random) -> Sequence[Fault]:
    _deny(kafka, world, chance, ResourceType.TRANSACTIONAL_ID, world.transactional_id)
    return ()


REAL_FAULTS: Final[Mapping[str, RealFault]] = {
    "nothing": _nothing,
    "connections cut": _cut,
    "a broker killed": _kill,
    "a broker stopped": _stop,
    "brokers frozen": _freeze,
    "leaders moved": _move,
    "partitions added": _add,
    "the topic created again": _recreate,
    "the topic denied": _deny_topic,
    "the transactional id denied": _deny_id,
}


def play_real(kafka: ObservedCluster, state: str, chance: random.Random) -> None:
    """One round in the real cluster; its answers are noted, and what readers find is checked."""
    world = RealWorld(kafka, f"round-{uuid.uuid4().hex[:8]}", f"id-{uuid.uuid4().hex[:8]}")
    kafka.create_topic(world.topic, partitions=3, replication=3, config={"min.insync.replicas": 2})
    world._began_at = time.monotonic()
    works = [Work(kind, settings_of(kind, chance)) for kind in KINDS]
    seeds = [chance.random() for _ in works]
    faults: list[Fault] = []
    kafka.observed.state = state
    in_threads(
        lambda: faults.extend(REAL_FAULTS[state](kafka, world, random.Random(chance.random()))),
        *(
            lambda work=work, seed=seed: run(world, work, random.Random(seed), until=SECONDS)
            for work, seed in zip(works, seeds, strict=True)
        ),
    )
    kafka.observed.state = ""
    await_in_sync(kafka, world.topic, "__transaction_state")
    partitions = len(metadata(kafka.address(1), topic=world.topic).partitions)
    await_markers(kafka.near_servers, world.topic, partitions=partitions)
    logs: dict[int, dict[int, Written]] = {partition: {} for partition in range(partitions)}
    for found in read_back(kafka.near_servers, world.topic, partitions=partitions):
        logs[found.partition][found.offset] = Written(found.value or b"", found.timestamp_ms)
    for work in works:
        check(work, world.topic, logs, faults)


# The simulated cluster

TOPIC, ID = "t", "id"
_AT_THE_BEGINNING: Final = {
    "InitProducerId": (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR),
    "FindCoordinator": (ErrorCode.COORDINATOR_NOT_AVAILABLE,),
}


class RecordingNetwork(PlannedNetwork):
    """A network that has the responses of brokers noted."""

    observed: Observed

    def take(self, link: Link, frame: bytes) -> Response:
        response = super().take(link, frame)

        def noted(content: bytes | None) -> bytes | None:
            if content is not None:
                self.observed.note(frame, content)
            return content

        return changed(response, noted)


class SimulatedWorld(World):
    """A simulated cluster with one program."""

    topic, transactional_id = TOPIC, ID

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation

    def producer(self, settings: Mapping[str, Any]) -> Producer:
        return self._simulation.producer({**settings, "record.encoder": "python"})

    def clock(self) -> float:
        return self._simulation.clock()

    def sleep(self, seconds: float) -> None:
        self._simulation.sleep(seconds)


def _of_a_busy_machine(chance: Chance) -> Sequence[Fault]:
    """Faults that may be real in every state: brokers that have just started, or get no processor for a while."""
    busy: list[Fault] = []
    if chance.happens(0.5):
        busy += [MovedCoordinator(at=chance.choice((0.0, 0.05, 1.0)), seconds=0.2, broker=chance.choice(NODES))]
    if chance.happens(0.5):
        lag = chance.choice((1.0, 3.0))
        busy += [SlowFollower(at=chance.uniform(0.0, 5.0), seconds=3.0, broker=chance.choice(NODES), lag=lag)]
    return busy


def _not_known_yet(chance: Chance, at: float) -> Sequence[Fault]:
    """Refusals of brokers that do not know of a change yet, or that others do not know of: planned, not modelled."""
    codes = [chance.choice((ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)) for _ in NODES]
    refused = [(PlannedRequestFault(kind=RequestFault.REFUSED, code=code),) for code in codes]
    return [
        FaultyRequests(at=at, seconds=2.0, broker=node, request_faults=faults)
        for node, faults in zip(NODES, refused, strict=True)
    ]


def _simulated_faults(state: str, chance: Chance) -> Sequence[Fault]:
    """Faults of the kind that is real in this state."""

    def at() -> float:
        return chance.uniform(0.5, 6.0)

    def broker() -> int:
        return chance.choice(NODES)

    match state:
        case "connections cut":
            cuts: list[Fault] = [
                CutConnections(at=at(), broker=broker(), graceful=chance.happens(0.5)) for _ in range(10)
            ]
            lost = tuple(random_request_fault(chance, [0], longest=1.0) for _ in range(6))
            return [*cuts, FaultyRequests(at=at(), seconds=4.0, broker=broker(), request_faults=lost)]
        case "a broker killed" | "a broker stopped" | "brokers frozen":
            node, when, seconds = broker(), at(), chance.uniform(0.5, 5.0)
            follower = chance.choice([other for other in NODES if other != node])
            refused = [
                CoordinatorRefusals(
                    at=at(),
                    seconds=2.0,
                    broker=other,
                    request=chance.choice(COORDINATOR_REQUESTS),
                    codes=tuple(chance.choice(COORDINATOR_REFUSALS) for _ in range(2)),
                )
                for other in NODES
            ]
            moved = MovedCoordinator(at=when + chance.uniform(0.0, 1.0), seconds=0.4, broker=follower)
            outdated = OutdatedMetadata(at=when, seconds=chance.uniform(0.1, 2.0), broker=follower)
            away: list[Fault] = (
                [
                    FrozenBroker(at=when, seconds=seconds, broker=node),
                    IsolatedBroker(at=when, seconds=seconds + 0.3, broker=node),
                ]
                if state == "brokers frozen"
                else [CrashedBroker(at=when, seconds=seconds, broker=node, next_leader=follower)]
            )
            if state == "a broker stopped":  # it hands its leaders over first
                away += [
                    MovedLeader(at=when - 0.2, topic=TOPIC, partition=partition, leader=follower)
                    for partition in range(3)
                ]
            slow = SlowFollower(at=when, seconds=4.0, broker=follower, lag=chance.choice((0.2, 3.0)))
            lost = tuple(random_request_fault(chance, [0], longest=1.0) for _ in range(3))  # what was under way
            requests = FaultyRequests(at=when, seconds=1.0, broker=node, request_faults=lost)
            return [*away, *refused, moved, outdated, slow, requests]
        case "leaders moved":
            return [
                MovedLeader(at=at(), topic=TOPIC, partition=chance.randrange(3), leader=broker()) for _ in range(10)
            ]
        case "partitions added":
            return [
                *(AddedPartition(at=at(), topic=TOPIC, leader=broker()) for _ in range(3)),
                *_not_known_yet(chance, at()),
            ]
        case "the topic created again":
            leaders = tuple(broker() for _ in range(3))
            when = at()
            again = RecreatedTopic(at=when, seconds=chance.uniform(0.0, 2.0), topic=TOPIC, leaders=leaders)
            return [again, *_not_known_yet(chance, when - 0.3)]
        case "the topic denied":
            return [DeniedTopic(at=when, seconds=0.5, topic=TOPIC) for when in range(1, 7)]
        case "the transactional id denied":
            return [DeniedTransactionalId(at=at(), seconds=0.3, transactional_id=ID) for _ in range(5)]
    return ()


def play_simulated(state: str, kind: str, seed: int, observed: Observed, *, transaction_version: int) -> None:
    """One round of one producer in a simulated cluster; its answers are noted."""
    chance = Chance(seed)
    cluster = SimulatedCluster.of(*NODES)
    cluster.create(TOPIC, *NODES, min_insync=2)
    cluster.transaction_version = transaction_version
    cluster.wall_clock = lambda: 1_000_000.0 + simulation.clock()
    made: list[RecordingNetwork] = []

    def network(cluster: SimulatedCluster, clock: ManualClock, seed: int) -> RecordingNetwork:
        made.append(RecordingNetwork(cluster, clock, seed))
        made[0].observed = observed
        return made[0]

    simulation = Simulation(cluster, seed=seed, network=network)
    cluster.wall_clock = lambda: 1_000_000.0 + simulation.clock()
    made[0].wire = random_link_conditions(chance)
    markers = SlowMarkers(at=0.0, seconds=1_000.0, marker_seconds=chance.choice((0.005, 0.1)))
    plan(simulation, [markers, *_of_a_busy_machine(chance), *_simulated_faults(state, chance)])
    for each in cluster.brokers.values():
        each.hints = chance.happens(0.7)
        # Brokers that have just started have no block of producer ids, and no topic for the state of transactions.
        for request, codes in _AT_THE_BEGINNING.items():
            each.errors_by_request[request] = deque([chance.choice(codes)] * chance.choice((0, 1)))
    observed.state = state
    drawn = random.Random(seed)
    work = Work(kind, settings_of(kind, drawn))
    simulation.run(lambda: run(SimulatedWorld(simulation), work, drawn, until=SECONDS))


def missing(real: Sequence[Answer], *, transaction_version: int) -> list[Answer]:
    """The answers that no simulated broker gives in their state."""
    lacking: list[Answer] = []
    for state in REAL_FAULTS:
        wanted = {answer for answer in real if answer.state == state}
        observed = Observed()
        for seed in range(SEEDS):
            if wanted <= observed.answers.keys():
                break
            for kind in (PLAIN, IDEMPOTENT, TRANSACTIONAL):
                play_simulated(state, kind, seed, observed, transaction_version=transaction_version)
        lacking += sorted(wanted - observed.answers.keys())
    return lacking


@pytest.fixture(scope="module")
def proxied() -> Iterator[ObservedCluster]:
    """The cluster."""
    try:
        with ObservedCluster() as kafka:
            yield kafka
    except KafkaUnavailableError as error:
        go_without(error)


@pytest.mark.timeout(int(60 * MINUTES) + 1_800 if LONG else 300)
def test_real_brokers_answer_nothing_that_simulated_ones_do_not(proxied: ObservedCluster) -> None:
    print(f"again with OTTLA_SEED={SEED}")
    chance = random.Random(SEED)
    states = list(REAL_FAULTS) if LONG else ["leaders moved"]
    until = time.monotonic() + 60 * MINUTES
    rounds = 0
    while rounds < len(states) or (LONG and time.monotonic() < until):
        play_real(proxied, states[rounds % len(states)], chance)
        rounds += 1

    found = proxied.observed.answers
    level = feature_level(proxied.address(1), TRANSACTION_VERSION)
    lacking = missing(sorted(found), transaction_version=level)
    print(f"{rounds} rounds, {found.total()} answers, {len(found)} of them different")
    assert not lacking, "\n".join(f"{answer.state}: {answer.api} {answer.version}: {answer.said}" for answer in lacking)
