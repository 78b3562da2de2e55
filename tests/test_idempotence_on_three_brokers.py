"""Leaders killed under an idempotent stream with five requests in flight: once, and in order."""

from __future__ import annotations

import pytest
from long_forms import LONG

from ottla import Producer
from ottla_testkit.kafka_cluster import KafkaCluster
from transactions_kit import MINUTES, WAIT, await_in_sync, chance, numbered, read

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

KILLS = 10 if LONG else 1
PARTITIONS = 3


def test_killed_leaders_duplicate_lose_and_reorder_nothing(three_kafkas: KafkaCluster) -> None:
    random = chance("leaders")
    sent = 0
    three_kafkas.create_topic("t", partitions=PARTITIONS, replication=3, config={"min.insync.replicas": 2})
    with Producer(
        bootstrap_servers=three_kafkas.bootstrap_servers, batch_size=2_000, linger_ms=1, delivery_timeout_ms=MINUTES
    ) as producer:

        def send(count: int) -> None:
            nonlocal sent
            for number in range(sent, sent + count):
                producer.send("t", b"%d" % number, partition=number % PARTITIONS)
            sent += count

        for _ in range(KILLS):
            send(random.randint(1_000, 10_000))
            victim = three_kafkas.leader("t", random.randrange(PARTITIONS))
            three_kafkas.kill(victim)
            send(random.randint(1_000, 10_000))
            three_kafkas.start(victim)
            await_in_sync(three_kafkas, "t")
        report = producer.flush(3 * WAIT)
    found = read(three_kafkas.bootstrap_servers, "t", partitions=PARTITIONS)

    assert (report.acknowledged, report.failed) == (sent, 0)
    assert found == [numbered(range(each, sent, PARTITIONS)) for each in range(PARTITIONS)]
