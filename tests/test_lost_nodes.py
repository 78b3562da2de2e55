"""A cluster of three where the replicas in sync become fewer than is good: the producer goes on while it may."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from ottla import BrokerError, DeliveryTimeoutError, ErrorCode, Producer
from ottla_testkit.kafka_cluster import KafkaCluster
from readback import read_back

pytestmark = [pytest.mark.kafka, pytest.mark.slow]
WAIT = 60.0
MINUTES = 600_000


@pytest.fixture(scope="module")
def trio() -> Iterator[KafkaCluster]:
    """Three nodes; a test starts again what it stopped."""
    with KafkaCluster(nodes=3) as cluster:
        yield cluster


def test_with_min_insync_replicas_2_a_node_may_be_shut_down(trio: KafkaCluster) -> None:
    """Without idempotence a retry may double a record; none may be missing."""
    trio.create_topic("two", partitions=3, replication=3, config={"min.insync.replicas": 2})
    victim = trio.leader("two", 0)
    shut_down = threading.Thread(target=trio.stop, args=(victim,))
    with Producer(bootstrap_servers=trio.bootstrap_servers, delivery_timeout_ms=MINUTES) as producer:
        sent = [producer.send("two", b"%d" % number, partition=number % 3) for number in range(10_000)]
        shut_down.start()
        while shut_down.is_alive():
            sent.append(producer.send("two", b"%d" % len(sent), partition=len(sent) % 3))
            sent[-1].result(WAIT)
        sent += [producer.send("two", b"%d" % (len(sent) + more), partition=more) for more in range(3)]
        report = producer.flush(WAIT)
    trio.start(victim)

    assert report.acknowledged == len(sent)
    found = {record.value for record in read_back(trio.bootstrap_servers, "two", partitions=3)}
    assert found == {b"%d" % number for number in range(len(sent))}


def test_with_too_few_replicas_a_record_waits_and_fails_with_the_reason(trio: KafkaCluster) -> None:
    trio.create_topic("three", replication=3, config={"min.insync.replicas": 3})
    victim = next(node for node in trio.nodes if node != trio.leader("three"))
    with Producer(
        bootstrap_servers=trio.bootstrap_servers, delivery_timeout_ms=3_000, request_timeout_ms=1_500
    ) as producer:
        trio.stop(victim)
        error = producer.send("three", b"during").exception(WAIT)
    trio.start(victim)

    assert isinstance(error, DeliveryTimeoutError)
    assert error.attempts > 1
    assert isinstance(error.__cause__, BrokerError)
    assert error.__cause__.code in (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
    assert error.__cause__.code.name in str(error)
