"""One of three real brokers is killed or frozen: nothing is lost, order is kept, and failures are reported in time.

`OTTLA_SOAK_RECORDS` asks for more records than the short form sends, `OTTLA_SOAK_SILENCE` for a longer silence.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from typing import Any

import pytest
from long_forms import share

from ottla import Delivery, DeliveryTimeoutError, Producer
from ottla_testkit.kafka_cluster import KafkaCluster
from readback import read_back, repeated_stretches

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

RECORDS = int(os.environ.get("OTTLA_SOAK_RECORDS", "40000"))
SILENCE = float(os.environ.get("OTTLA_SOAK_SILENCE", "6"))  # longer than a session, so that others lead meanwhile
PARTITIONS = 3
DELIVERY_TIMEOUT_MS = 120_000
LONG = DELIVERY_TIMEOUT_MS // 2
HANG_GUARD = 10 * DELIVERY_TIMEOUT_MS / 1000
SURVIVES_ONE = {"min.insync.replicas": 2}


def _topic(cluster: KafkaCluster, name: str) -> str:
    cluster.create_topic(name, partitions=PARTITIONS, replication=3, config=SURVIVES_ONE)
    return name


def _log(cluster: KafkaCluster, topic: str) -> list[list[bytes]]:
    """The values that each partition holds, by offset."""
    cluster.wait_in_sync(topic)
    found = read_back(cluster.bootstrap_servers, topic, partitions=PARTITIONS)
    return [[record.value or b"" for record in found if record.partition == each] for each in range(PARTITIONS)]


def _producer(cluster: KafkaCluster, **settings: Any) -> Producer:
    """In order; with so little memory that who sends keeps step with the brokers, and much is always under way."""
    usual: dict[str, Any] = {
        "acks": "all",
        "max_in_flight_requests_per_connection": 1,
        "delivery_timeout_ms": DELIVERY_TIMEOUT_MS,
        "max_block_ms": DELIVERY_TIMEOUT_MS,
        "buffer_memory": 300_000,
        "batch_size": 8_000,
        "batch_growth_enable": False,
    }
    return Producer(bootstrap_servers=cluster.bootstrap_servers, **usual | settings)


def _see_where_they_are(log: Sequence[bytes], deliveries: Sequence[Delivery]) -> None:
    """Each record is where its delivery says, each behind the one before."""
    offsets = [delivery.result(0).offset for delivery in deliveries]
    assert offsets == sorted(set(offsets))
    assert [log[offset] for offset in offsets] == [b"%d" % number for number in range(len(deliveries))]


@pytest.mark.thorough("test_idempotence_on_three_brokers.py kills leaders, too")
def test_a_killed_leader_loses_and_reorders_nothing(three_kafkas: KafkaCluster) -> None:
    """Without idempotence the one request that was in flight to it may be there twice; nothing else."""
    topic = _topic(three_kafkas, "killed")
    victim = three_kafkas.leader(topic, 0)
    led = sum(three_kafkas.leader(topic, partition) == victim for partition in range(PARTITIONS))
    killer = threading.Thread(target=three_kafkas.kill, args=(victim,))  # not here: something is to be in flight
    sent: list[Delivery] = []
    with _producer(three_kafkas) as producer:
        for number in range(RECORDS):
            if number == RECORDS // 2:
                killer.start()
            sent.append(producer.send(topic, b"%d" % (number // PARTITIONS), partition=number % PARTITIONS))
        report = producer.flush(HANG_GUARD)
    killer.join(HANG_GUARD)
    three_kafkas.start(victim)

    assert (report.acknowledged, report.failed, report.pending) == (RECORDS, 0, 0)
    again: list[int] = []
    for partition, log in enumerate(_log(three_kafkas, topic)):
        again += repeated_stretches([int(value) for value in log], count=len(sent[partition::PARTITIONS]))
        _see_where_they_are(log, sent[partition::PARTITIONS])
    assert len(again) <= led


@pytest.mark.thorough("the gate kills the leader, and freezes one for long")
def test_a_briefly_frozen_leader_loses_nothing_and_keeps_the_order(three_kafkas: KafkaCluster) -> None:
    """Requests from before it froze, or in its sockets afterwards, may duplicate records anywhere."""
    topic = _topic(three_kafkas, "frozen")
    victim = three_kafkas.leader(topic, 0)
    sent: list[Delivery] = []
    thaw = threading.Timer(SILENCE, three_kafkas.resume, args=(victim,))
    with _producer(three_kafkas, request_timeout_ms=2_000) as producer:
        for number in range(RECORDS):
            if number == RECORDS // 2:
                three_kafkas.pause(victim)
                thaw.start()
            sent.append(producer.send(topic, b"%d" % (number // PARTITIONS), partition=number % PARTITIONS))
        report = producer.flush(HANG_GUARD)
    thaw.join(HANG_GUARD)

    assert (report.acknowledged, report.failed, report.pending) == (RECORDS, 0, 0)
    for partition, log in enumerate(_log(three_kafkas, topic)):
        _see_where_they_are(log, sent[partition::PARTITIONS])


def test_a_leader_frozen_beyond_the_delivery_timeout_is_reported_in_time(three_kafkas: KafkaCluster) -> None:
    topic = _topic(three_kafkas, "frozen-for-long")
    victim = three_kafkas.leader(topic, 0)
    with _producer(three_kafkas, request_timeout_ms=500, delivery_timeout_ms=1_000) as producer:
        producer.send(topic, b"known", partition=0).result(HANG_GUARD)
        three_kafkas.pause(victim)
        try:
            sent = [producer.send(topic, b"%d" % number, partition=0) for number in range(1_000)]
            errors = [delivery.exception(10.0) for delivery in sent]  # while it is still frozen
        finally:
            three_kafkas.resume(victim)

    failed = [error for error in errors if error is not None]
    assert failed
    assert {type(error) for error in failed} == {DeliveryTimeoutError}
    assert {(error.topic, error.partition) for error in failed} == {(topic, 0)}
    assert "delivery.timeout.ms" in str(failed[0])
    assert "s in flight" in str(failed[0])
    assert f"last to broker {victim}" in str(failed[0])
    assert failed[0].possibly_persisted


@pytest.mark.parametrize(
    "request_timeout_ms", [500, pytest.param(LONG, marks=pytest.mark.thorough("the gate has the short time-out"))]
)
def test_a_frozen_broker_delays_only_its_own_partitions(
    three_kafkas: KafkaCluster, caplog: pytest.LogCaptureFixture, request_timeout_ms: int
) -> None:
    """Each partition has its only replica, so that no other broker takes over.

    The others' records come through before the frozen broker's time is up, or while it is up again and again.
    """
    topic = f"alone-{request_timeout_ms}"
    three_kafkas.create_topic(topic, partitions=PARTITIONS)
    victim = three_kafkas.leader(topic, 0)
    others = [partition for partition in range(PARTITIONS) if three_kafkas.leader(topic, partition) != victim]
    assert others
    with Producer(
        bootstrap_servers=three_kafkas.bootstrap_servers,
        request_timeout_ms=request_timeout_ms,
        delivery_timeout_ms=DELIVERY_TIMEOUT_MS,
    ) as producer:
        for partition in range(PARTITIONS):
            producer.send(topic, b"before", partition=partition).result(HANG_GUARD)
        three_kafkas.pause(victim)
        try:
            waiting = producer.send(topic, b"during", partition=0)
            for _ in range(50):
                for partition in others:
                    producer.send(topic, b"during", partition=partition).result(HANG_GUARD)
            assert not waiting.done()
            if request_timeout_ms == LONG:
                assert not [message for message in caplog.messages if "did not answer" in message]
        finally:
            three_kafkas.resume(victim)
        assert waiting.result(HANG_GUARD).partition == 0


@pytest.mark.rule("partitioner.rack")
@pytest.mark.parametrize(
    ("rack", "nodes"),
    share(
        [pytest.param("rack-2", {2}), pytest.param("rack-3", {3}), pytest.param("elsewhere", {1, 2, 3})],
        gate=1,
        why="the gate has one rack",
    ),
)
def test_records_without_a_key_go_to_brokers_in_the_rack_of_the_client(
    three_kafkas: KafkaCluster, rack: str, nodes: set[int]
) -> None:
    topic = f"racks-{rack}"
    three_kafkas.create_topic(topic, partitions=6, replication=1)
    with _producer(three_kafkas, partitioner_rack_aware=True, client_rack=rack) as producer:
        leaders = [each.leader for each in producer.partitions_for(topic)]
        deliveries = [producer.send(topic, bytes(4_000)) for _ in range(200)]
        places = {delivery.result(HANG_GUARD).partition for delivery in deliveries}

    brokers = [leader for leader in leaders if leader is not None]
    assert [(leader.id, leader.rack) for leader in brokers] == [(each.id, f"rack-{each.id}") for each in brokers]
    assert {brokers[place].id for place in places} == nodes
