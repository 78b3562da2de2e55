"""Brokers of a real cluster are stopped and started again in their turn, while records are sent without a pause.

The short form restarts two of three; `test_rebootstrap` does so with all, and moves them. `OTTLA_SOAK_RECORDS` asks for
more records than the short form sends.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

import pytest
from long_forms import LONG

from ottla import Producer
from ottla_testkit.kafka_cluster import KafkaCluster
from readback import Found, read_back, repeated_stretches

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

RECORDS = int(os.environ.get("OTTLA_SOAK_RECORDS", "6000"))
CHUNK = RECORDS // (1_500 if LONG else 600)
BETWEEN_CHUNKS = 0.01 if LONG else 0.02
KEYS = 30
PARTITIONS = 6
HANG_GUARD = 300.0
LONG_TIMEOUTS: dict[str, Any] = {"delivery_timeout_ms": 120_000, "max_block_ms": 120_000, "acks": "all"}


def restart_each(kafka: KafkaCluster, topics: Iterable[str]) -> None:
    for node in kafka.nodes if LONG else kafka.nodes[:2]:
        kafka.stop(node)
        kafka.start(node)
        for topic in topics:
            kafka.wait_in_sync(topic)


def _by_key(found: Iterable[Found]) -> dict[int, list[int]]:
    """The numbers that each key's records have, as they stand in the log."""
    numbers: dict[int, list[int]] = defaultdict(list)
    for record in found:
        numbers[int(record.key or b"")].append(int(record.value or b""))
    return numbers


@pytest.mark.thorough("the gate shuts one node down, kills one, and moves all")
def test_a_rolling_restart_loses_fails_and_reorders_nothing(three_kafkas: KafkaCluster) -> None:
    """With several in flight a retry may come behind a later batch; without idempotence either may write one twice."""
    topics = ["in-order", "usual"]
    kafka = three_kafkas
    with ThreadPoolExecutor(1) as pool:
        for topic in topics:
            kafka.create_topic(topic, partitions=PARTITIONS, replication=3, config={"min.insync.replicas": 2})
        with (
            Producer(
                bootstrap_servers=kafka.bootstrap_servers, max_in_flight_requests_per_connection=1, **LONG_TIMEOUTS
            ) as in_order,
            Producer(bootstrap_servers=kafka.bootstrap_servers, **LONG_TIMEOUTS) as usual,
        ):
            restart, count = pool.submit(restart_each, kafka, topics), 0
            while count < RECORDS or not restart.done():
                for position in range(count, count + CHUNK):
                    number, key = divmod(position, KEYS)
                    for topic, producer in zip(topics, (in_order, usual), strict=True):
                        producer.send(topic, b"%d" % number, b"%d" % key)
                count += CHUNK
                wait([restart], BETWEEN_CHUNKS)
            restart.result()
            reports = [producer.flush(HANG_GUARD) for producer in (in_order, usual)]
        ordered, unordered = [read_back(kafka.bootstrap_servers, topic, partitions=PARTITIONS) for topic in topics]

    assert [(report.acknowledged, report.failed, report.pending) for report in reports] == [(count, 0, 0)] * 2
    print(f"{count} records each; there twice: {len(ordered) - count} in order, {len(unordered) - count} as usual")
    each = {key: set(range(len(range(key, count, KEYS)))) for key in range(KEYS)}
    assert {key: set(numbers) for key, numbers in _by_key(unordered).items()} == each
    assert {key: set(numbers) for key, numbers in _by_key(ordered).items()} == each
    for key, numbers in _by_key(ordered).items():
        repeated_stretches(numbers, count=len(each[key]))
