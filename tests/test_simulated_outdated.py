"""A coordinator that was frozen and replaced answers from what it knew before, as a simulated one does."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from types import SimpleNamespace
from typing import Any, Final

import pytest
from conversations import CLIENT_ID, Conversation, RealPeer, SimulatedPeer
from shared_clusters import started
from transaction_conversations import BEFORE_KIP_890, SINCE_KIP_890, Owner

from ottla.protocol import Message, read_response_header, request_header
from ottla.protocol.messages.add_partitions_to_txn import (
    ADD_PARTITIONS_TO_TXN,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from ottla.protocol.messages.end_txn import END_TXN, EndTxnRequest
from ottla.protocol.messages.find_coordinator import FIND_COORDINATOR, FindCoordinatorRequest
from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.kafka_cluster.features import TRANSACTION_VERSION, set_feature
from ottla_testkit.simulation import SimulatedCluster, Simulation
from ottla_testkit.simulation.planned_faults import ReplacedCoordinator, plan

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(300)]

CONFIG: Final = {
    "transaction.state.log.replication.factor": 3,
    "transaction.state.log.min.isr": 1,
    "offsets.topic.replication.factor": 1,
    "broker.session.timeout.ms": 3_000,
    "broker.heartbeat.interval.ms": 500,
}
"""Another broker becomes the coordinator after three seconds."""

Asked = tuple[Message[Any, Any], int, Any]


@pytest.fixture(scope="module")
def three() -> Iterator[KafkaCluster]:
    with started(nodes=3, config=CONFIG) as kafka:
        yield kafka


def requests(owner: Owner, topic: str, before: tuple[int, int], partition: int) -> Sequence[Asked]:
    """Requests that need no write: the next transaction, and that of before, for the coordinator of before."""

    def end(who: tuple[int, int], *, commit: bool) -> Asked:
        request = EndTxnRequest(transactional_id=owner.id, producer_id=who[0], producer_epoch=who[1], committed=commit)
        return END_TXN, owner.versions.end, request

    newer = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=owner.id,
        v3_and_below_producer_id=owner.producer_id,
        v3_and_below_producer_epoch=owner.epoch + 1,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=[partition])],
    )
    return [
        (FIND_COORDINATOR, 4, FindCoordinatorRequest(key_type=1, coordinator_keys=[owner.id])),
        end(owner.now, commit=True),
        end(before, commit=True),
        end(before, commit=False),
        end((owner.producer_id, owner.epoch + 1), commit=True),
        (ADD_PARTITIONS_TO_TXN, 3, newer),
    ]


def frame_of(asked: Asked) -> bytes:
    message, version, request = asked
    return request_header(message, version, 7, CLIENT_ID) + message.request(version).encode(request)


def answer_in(asked: Asked, answer: bytes) -> str:
    """What a response says, without its address."""
    message, version, _request = asked
    _correlation_id, offset = read_response_header(message, version, answer)
    response = message.response(version).decode(memoryview(answer)[offset:])
    if message is FIND_COORDINATOR:
        [found] = response.coordinators
        return f"FindCoordinator: {found.error_code}, broker {found.node_id}"
    if message is ADD_PARTITIONS_TO_TXN:
        [topic] = response.results_by_topic_v3_and_below
        return f"AddPartitionsToTxn: {topic.results_by_partition[0].partition_error_code}"
    return f"EndTxn: {response.error_code}"


def queued(address: tuple[str, int], frames: Sequence[bytes], resume: Any) -> Sequence[bytes]:
    """Send requests to a frozen broker, and return its responses once it goes on."""
    with socket.create_connection(address, timeout=60) as connection, connection.makefile("rb") as read:
        connection.sendall(b"".join(struct.pack(">i", len(frame)) + frame for frame in frames))
        resume()
        return [read.read(struct.unpack(">i", read.read(4))[0]) for _ in frames]


def transaction(owner: Owner, near: Conversation, leader: Conversation, topic: str, partition: int) -> None:
    """Write a batch in a transaction at a coordinator."""
    owner.talk = near
    if owner.versions is BEFORE_KIP_890:
        owner.add("add", topic, partition=partition)
    owner.talk = leader
    owner.send("send", partition=partition)
    owner.talk = near


def real_answers(kafka: KafkaCluster, level: int) -> Sequence[str]:
    set_feature(kafka.address(1), TRANSACTION_VERSION, level)
    topic = f"replaced-{level}-{time.monotonic_ns()}"
    kafka.create_topic(topic, partitions=6)
    with (
        closing(RealPeer(kafka.address(1))) as one,
        closing(RealPeer(kafka.address(2))) as two,
        closing(RealPeer(kafka.address(3))) as three,
    ):
        talks = {1: Conversation(one), 2: Conversation(two), 3: Conversation(three)}
        owner = Owner(
            talks[1],
            SimpleNamespace(plain=topic, level=level),  # type: ignore[arg-type]
            versions=SINCE_KIP_890 if level == 2 else BEFORE_KIP_890,
        )

        def find(node: int) -> int:
            request = FindCoordinatorRequest(key_type=1, coordinator_keys=[owner.id])
            found = talks[node].ask("find", FIND_COORDINATOR, 4, request, until_not_busy=True)
            return int(found.coordinators[0].node_id)

        first = find(1)
        others = [node for node in talks if node != first]
        partition = next(number for number in range(6) if kafka.leader(topic, number) != first)
        leader = talks[kafka.leader(topic, partition)]
        owner.talk = talks[first]
        owner.initialize("new")
        before = owner.now
        transaction(owner, talks[first], leader, topic, partition)
        owner.end("end")
        kafka.pause(first)
        try:
            deadline = time.monotonic() + 60
            while first in (second := find(others[0]), find(others[1])):
                assert time.monotonic() < deadline
                time.sleep(0.1)
            transaction(owner, talks[second], leader, topic, partition)
            asked = requests(owner, topic, before, partition)
            address, frames = kafka.address(first), [frame_of(each) for each in asked]
            answers = queued(address, frames, lambda: kafka.resume(first))
        finally:
            kafka.resume(first)
        owner.end("end at the next coordinator")
    found = [answer_in(each, answer) for each, answer in zip(asked, answers, strict=True)]
    return [line.replace(f"broker {first}", "the first broker") for line in found]


def simulated_answers(level: int) -> Sequence[str]:
    cluster = SimulatedCluster.of(1, 2, 3)
    cluster.transaction_version = level
    cluster.create("t", 3)
    simulation = Simulation(cluster)
    plan(
        simulation,
        [ReplacedCoordinator(at=1.0, seconds=2.0, broker=1, next_coordinator=2, elected=0.5, unaware=1.0)],
    )
    talks = {node: Conversation(SimulatedPeer(broker)) for node, broker in cluster.brokers.items()}
    owner = Owner(
        talks[1],
        SimpleNamespace(plain="t", level=level),  # type: ignore[arg-type]
        versions=SINCE_KIP_890 if level == 2 else BEFORE_KIP_890,
    )

    def wait(seconds: float) -> None:
        for _ in range(round(seconds * 10)):
            simulation.clock.advance(0.1)
            simulation.network.schedule.run()

    owner.initialize("new")
    before = owner.now
    transaction(owner, talks[1], talks[3], "t", 0)
    owner.end("end")
    wait(1.8)
    assert cluster.coordinates == 2
    transaction(owner, talks[2], talks[3], "t", 0)
    wait(1.4)
    asked = requests(owner, "t", before, 0)
    answers = [talks[1].peer.exchange(frame_of(each)) or b"" for each in asked]
    found = [answer_in(each, answer) for each, answer in zip(asked, answers, strict=True)]
    return [line.replace("broker 1", "the first broker") for line in found]


@pytest.mark.parametrize("level", [1, 2])
def test_an_outdated_coordinator_answers_as_a_real_one(three: KafkaCluster, level: int) -> None:
    assert real_answers(three, level) == simulated_answers(level)
