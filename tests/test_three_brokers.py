"""Three brokers, one of which dies or falls silent: nothing is lost, and order is kept where it is promised."""

from __future__ import annotations

import os
import time
from itertools import pairwise

import pytest

from ottla import DeliveryTimeout, Producer
from ottla_testkit.kafka_cluster import KafkaCluster
from readback import read_back

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

COUNT = int(os.environ.get("OTTLA_SOAK_RECORDS", "40000"))
SILENCE_SECONDS = float(os.environ.get("OTTLA_SOAK_SILENCE", "6"))
MINUTES = 600_000
HANG_GUARD = 300.0


def test_a_leader_killed_in_the_middle_loses_nothing_and_order_is_kept() -> None:
    """Without idempotence what was retried may be there twice, as a whole; apart from that, order holds."""
    partitions = 3
    with KafkaCluster(nodes=3) as kafka:
        kafka.create_topic("t", partitions=partitions, replication=3)
        with Producer(
            bootstrap_servers=kafka.bootstrap_servers,
            acks="all",
            max_in_flight_requests_per_connection=1,
            delivery_timeout_ms=MINUTES,
        ) as producer:
            for number in range(COUNT):
                if number == COUNT // 2:
                    kafka.kill(kafka.leader("t", 0))
                producer.send("t", b"%d" % number, partition=number % partitions)
            report = producer.flush(HANG_GUARD)
        alive = ",".join("{}:{}".format(*kafka.address(node)) for node in kafka.running)
        found = read_back(alive, "t", partitions=partitions)

    assert report.acknowledged == COUNT
    for partition in range(partitions):
        numbers = [int(record.value or b"-1") for record in found if record.partition == partition]
        assert set(numbers) == set(range(partition, COUNT, partitions))
        steps_back = [(one, other) for one, other in pairwise(numbers) if other <= one]
        assert len(steps_back) <= 1, "only the batch that was under way may be there twice"


def test_a_broker_that_falls_silent_delays_its_own_partitions_and_no_others() -> None:
    with KafkaCluster(nodes=3) as kafka:
        kafka.create_topic("t", partitions=3, replication=1)
        silent = kafka.leader("t", 0)
        others = [partition for partition in range(3) if kafka.leader("t", partition) != silent]
        with Producer(
            bootstrap_servers=kafka.bootstrap_servers, delivery_timeout_ms=MINUTES, request_timeout_ms=2_000
        ) as producer:
            for partition in range(3):
                producer.send("t", b"before", partition=partition).result(HANG_GUARD)
            kafka.pause(silent)
            waiting = producer.send("t", b"during", partition=0)
            ends_at = time.monotonic() + SILENCE_SECONDS
            while time.monotonic() < ends_at:
                for partition in others:
                    producer.send("t", b"during", partition=partition).result(HANG_GUARD)
            assert not waiting.done()
            kafka.resume(silent)
            assert waiting.result(HANG_GUARD).partition == 0


def test_a_broker_that_stays_silent_ends_with_the_delivery_timeout() -> None:
    with KafkaCluster() as kafka:
        kafka.create_topic("t")
        with Producer(
            bootstrap_servers=kafka.bootstrap_servers, delivery_timeout_ms=4_000, request_timeout_ms=1_000
        ) as producer:
            producer.send("t", b"before").result(HANG_GUARD)
            kafka.pause(1)
            error = producer.send("t", b"during").exception(HANG_GUARD)
            kafka.resume(1)

    assert isinstance(error, DeliveryTimeout)
    assert error.possibly_persisted
    assert "s in flight" in str(error)
