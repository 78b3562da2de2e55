"""A cluster of three where the replicas in sync become fewer than is good: the producer goes on while it may."""

from __future__ import annotations

import threading

import pytest

from ottla import BrokerError, DeliveryTimeoutError, ErrorCode, Producer
from ottla_testkit.kafka_cluster import KafkaCluster
from readback import read_back

pytestmark = [pytest.mark.kafka, pytest.mark.slow]
WAIT = 60.0
MINUTES = 600_000


def test_with_min_insync_replicas_2_a_node_may_be_shut_down(three_kafkas: KafkaCluster) -> None:
    """Without idempotence a retry may double a record; none may be missing."""
    three_kafkas.create_topic("two", partitions=3, replication=3, config={"min.insync.replicas": 2})
    victim = three_kafkas.leader("two", 0)
    shut_down = threading.Thread(target=three_kafkas.stop, args=(victim,))
    with Producer(bootstrap_servers=three_kafkas.bootstrap_servers, delivery_timeout_ms=MINUTES) as producer:
        sent = [producer.send("two", b"%d" % number, partition=number % 3) for number in range(10_000)]
        shut_down.start()
        while shut_down.is_alive():
            sent.append(producer.send("two", b"%d" % len(sent), partition=len(sent) % 3))
            sent[-1].result(WAIT)
        sent += [producer.send("two", b"%d" % (len(sent) + more), partition=more) for more in range(3)]
        report = producer.flush(WAIT)
    three_kafkas.start(victim)

    assert report.acknowledged == len(sent)
    found = {record.value for record in read_back(three_kafkas.bootstrap_servers, "two", partitions=3)}
    assert found == {b"%d" % number for number in range(len(sent))}


def test_with_too_few_replicas_a_record_waits_and_fails_with_the_reason(three_kafkas: KafkaCluster) -> None:
    three_kafkas.create_topic("three", replication=3, config={"min.insync.replicas": 3})
    victim = next(node for node in three_kafkas.nodes if node != three_kafkas.leader("three"))
    with Producer(
        bootstrap_servers=three_kafkas.bootstrap_servers, delivery_timeout_ms=3_000, request_timeout_ms=1_500
    ) as producer:
        three_kafkas.stop(victim)
        error = producer.send("three", b"during").exception(WAIT)
    three_kafkas.start(victim)

    assert isinstance(error, DeliveryTimeoutError)
    assert error.attempts > 1
    assert isinstance(error.__cause__, BrokerError)
    assert error.__cause__.code in (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
    assert error.__cause__.code.name in str(error)
