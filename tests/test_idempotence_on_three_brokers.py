"""Leaders killed under an idempotent stream with five requests in flight: once, and in order."""

from __future__ import annotations

import pytest

from ottla import Producer
from ottla_testkit.kafka_cluster import KafkaCluster
from transactions_kit import LONG, MINUTES, WAIT, await_in_sync, chance, numbered, read

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

KILLS = 10 if LONG else 1
SOON_MISSED = {"broker.session.timeout.ms": 2_500, "broker.heartbeat.interval.ms": 250}
PARTITIONS = 3


def test_killed_leaders_duplicate_lose_and_reorder_nothing() -> None:
    random = chance("leaders")
    sent = 0
    with KafkaCluster(nodes=3, config=SOON_MISSED) as kafka:
        kafka.create_topic("t", partitions=PARTITIONS, replication=3, config={"min.insync.replicas": 2})
        with Producer(
            bootstrap_servers=kafka.bootstrap_servers, batch_size=2_000, linger_ms=1, delivery_timeout_ms=MINUTES
        ) as producer:

            def send(count: int) -> None:
                nonlocal sent
                for number in range(sent, sent + count):
                    producer.send("t", b"%d" % number, partition=number % PARTITIONS)
                sent += count

            for _ in range(KILLS):
                send(random.randint(1_000, 10_000))
                victim = kafka.leader("t", random.randrange(PARTITIONS))
                kafka.kill(victim)
                send(random.randint(1_000, 10_000))
                kafka.start(victim)
                await_in_sync(kafka, "t")
            report = producer.flush(3 * WAIT)
        found = read(kafka.bootstrap_servers, "t", partitions=PARTITIONS)

    assert (report.acknowledged, report.failed) == (sent, 0)
    assert found == [numbered(range(each, sent, PARTITIONS)) for each in range(PARTITIONS)]
