"""Three real brokers of which one is killed or frozen under way: nothing lost, in order, or told in time.

`OTTLA_SOAK=1` asks for the long form: more records, longer pauses.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from ottla import Delivery, DeliveryTimeout, Producer
from ottla_testkit.kafka_cluster import KafkaCluster
from readback import read_back

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

SOAK = os.environ.get("OTTLA_SOAK", "") not in ("", "0")
RECORDS = 200_000 if SOAK else 40_000
PAUSE = 20.0 if SOAK else 6.0
PARTITIONS = 3
DELIVERY_TIMEOUT_MS = 120_000
HANG_GUARD = 10 * DELIVERY_TIMEOUT_MS / 1000
SOON_MISSED = {"broker.session.timeout.ms": 3_000, "broker.heartbeat.interval.ms": 500}
SURVIVES_ONE = {"min.insync.replicas": 2}


@pytest.fixture(scope="module")
def trio() -> Iterator[KafkaCluster]:
    """Three nodes that miss one another soon; a test brings back what it took away."""
    with KafkaCluster(nodes=3, config=SOON_MISSED) as cluster:
        yield cluster


def _topic(cluster: KafkaCluster, name: str) -> str:
    cluster.create_topic(name, partitions=PARTITIONS, replication=3, config=SURVIVES_ONE)
    return name


def _log(cluster: KafkaCluster, topic: str) -> list[list[bytes]]:
    """The values that each partition holds, by offset."""
    found = read_back(cluster.bootstrap_servers, topic, partitions=PARTITIONS)
    return [[record.value or b"" for record in found if record.partition == each] for each in range(PARTITIONS)]


def _producer(cluster: KafkaCluster, **settings: Any) -> Producer:
    usual = {"acks": "all", "max_in_flight_requests_per_connection": 1, "delivery_timeout_ms": DELIVERY_TIMEOUT_MS}
    return Producer(bootstrap_servers=cluster.bootstrap_servers, **usual | settings)


def _see_where_they_are(log: Sequence[bytes], deliveries: Sequence[Delivery]) -> None:
    """Each record is where its delivery says, each behind the one before."""
    offsets = [delivery.result(0).offset for delivery in deliveries]
    assert offsets == sorted(set(offsets))
    assert [log[offset] for offset in offsets] == [b"%d" % number for number in range(len(deliveries))]


def told_again(numbers: Sequence[int], *, count: int) -> list[int]:
    """How many of 0, 1, .. *count* - 1 come once more, each time that some do; fails when they jump or end early.

    A retry whose first answer was lost writes a stretch again, right behind the first time: 0 1 2 3 2 3 4.
    """
    backs: list[int] = []
    expected = 0
    for number in numbers:
        assert number <= expected, f"{number} stands where {expected} is due"
        if number < expected:
            backs.append(expected - number)
        expected = number + 1
    assert expected == count, f"the last is {expected - 1} of {count}"
    return backs


def test_a_leader_killed_under_a_stream_loses_nothing_and_reorders_nothing(trio: KafkaCluster) -> None:
    """Without idempotence the one request that was in flight to it may be there twice; nothing else."""
    topic = _topic(trio, "killed")
    victim = trio.leader(topic, 0)
    led = sum(trio.leader(topic, partition) == victim for partition in range(PARTITIONS))
    sent: list[Delivery] = []
    with _producer(trio) as producer:
        for number in range(RECORDS):
            if number == RECORDS // 2:
                trio.kill(victim)
            sent.append(producer.send(topic, b"%d" % (number // PARTITIONS), partition=number % PARTITIONS))
        report = producer.flush(HANG_GUARD)
    trio.start(victim)

    assert (report.acknowledged, report.failed, report.pending) == (RECORDS, 0, 0)
    again: list[int] = []
    for partition, log in enumerate(_log(trio, topic)):
        again += told_again([int(value) for value in log], count=len(sent[partition::PARTITIONS]))
        _see_where_they_are(log, sent[partition::PARTITIONS])
    assert len(again) <= led


def test_a_leader_frozen_for_a_while_loses_nothing_and_acknowledges_in_order(trio: KafkaCluster) -> None:
    """What it took before it froze, or finds in its sockets afterwards, may double records anywhere."""
    topic = _topic(trio, "frozen")
    victim = trio.leader(topic, 0)
    sent: list[Delivery] = []
    thaw = threading.Timer(PAUSE, trio.resume, args=(victim,))
    with _producer(trio, request_timeout_ms=2_000) as producer:
        for number in range(RECORDS):
            if number == RECORDS // 2:
                trio.pause(victim)
                thaw.start()
            sent.append(producer.send(topic, b"%d" % (number // PARTITIONS), partition=number % PARTITIONS))
        report = producer.flush(HANG_GUARD)
    thaw.join(HANG_GUARD)

    assert (report.acknowledged, report.failed, report.pending) == (RECORDS, 0, 0)
    for partition, log in enumerate(_log(trio, topic)):
        _see_where_they_are(log, sent[partition::PARTITIONS])


def test_a_leader_frozen_for_longer_than_a_delivery_may_take_is_told_of_in_time(trio: KafkaCluster) -> None:
    topic = _topic(trio, "frozen-for-long")
    victim = trio.leader(topic, 0)
    with _producer(trio, request_timeout_ms=500, delivery_timeout_ms=1_000) as producer:
        producer.send(topic, b"known", partition=0).result(HANG_GUARD)
        trio.pause(victim)
        try:
            sent = [producer.send(topic, b"%d" % number, partition=0) for number in range(1_000)]
            errors = [delivery.exception(10.0) for delivery in sent]  # while it is still frozen
        finally:
            trio.resume(victim)

    failed = [error for error in errors if error is not None]
    assert failed
    assert {type(error) for error in failed} == {DeliveryTimeout}
    assert {(error.topic, error.partition) for error in failed} == {(topic, 0)}
    assert "delivery.timeout.ms" in str(failed[0])
    assert f"last to broker {victim}" in str(failed[0])
    assert failed[0].possibly_persisted
