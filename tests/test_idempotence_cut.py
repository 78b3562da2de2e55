"""Connections cut in the middle of requests and answers: everything is there exactly once, and in order."""

from __future__ import annotations

import random

import pytest
from long_forms import LONG

from ottla import Producer
from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.proxy import Cut, CuttingProxy
from transactions_kit import MINUTES, WAIT, chance, numbered, read

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

CUTS = 500 if LONG else 60
RECORDS = 200_000 if LONG else 25_000
PARTITIONS = 4
EPOCH_MS = 1_700_000_000_000
"""The timestamps of records begin here."""


def plan(random: random.Random, *, cuts: int) -> list[Cut]:
    """Requests cut more often than answers: answers lost after the write are what tempts to write twice."""
    return [
        Cut(after=random.randint(1, 600), from_target=True)
        if random.random() < 0.5
        else Cut(after=random.randint(1, 12_000))
        for _ in range(cuts)
    ]


@pytest.mark.parametrize("in_flight", [5, pytest.param(1, marks=pytest.mark.thorough("the gate has five in flight"))])
def test_randomly_cut_connections_duplicate_lose_and_reorder_nothing(
    proxied_kafka: tuple[KafkaCluster, CuttingProxy], in_flight: int
) -> None:
    kafka, proxy = proxied_kafka
    cuts, records = (CUTS, RECORDS) if in_flight == 5 else (CUTS // 10, RECORDS // 4)  # enough bytes for every plan
    kafka.create_topic("t", partitions=PARTITIONS)
    with Producer(
        bootstrap_servers=kafka.bootstrap_servers,
        max_in_flight_requests_per_connection=in_flight,
        batch_size=800,
        batch_growth_enable=False,
        linger_ms=1,
        retry_backoff_ms=1,
        retry_backoff_max_ms=20,
        reconnect_backoff_ms=1,
        reconnect_backoff_max_ms=20,
        delivery_timeout_ms=MINUTES,
    ) as producer:
        producer.send("t", b"0", partition=0).result(WAIT)
        proxy.cut_by(plan(chance("cuts"), cuts=cuts))
        sent = [
            producer.send("t", b"%d" % n, partition=n % PARTITIONS, timestamp_ms=EPOCH_MS + n)
            for n in range(1, records)
        ]
        results = [delivery.result(5 * WAIT) for delivery in sent]
    found = read(kafka.bootstrap_servers, "t", partitions=PARTITIONS)

    expected = [numbered(range(each, records, PARTITIONS)) for each in range(PARTITIONS)]
    assert [len(values) for values in found] == [len(values) for values in expected]
    assert found == expected
    assert [result.offset for result in results] == [n // PARTITIONS for n in range(1, records)]
    assert [result.timestamp_ms - EPOCH_MS for result in results] == list(range(1, records))
    assert proxy.cuts == cuts
