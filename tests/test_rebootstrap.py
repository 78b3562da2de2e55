"""Every address of a real cluster changes while records are sent: one node after the other, or all at once."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

import pytest
from long_forms import LONG

from ottla import Producer
from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.proxy import CuttingProxy
from readback import read_back

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

RECORDS = int(os.environ.get("OTTLA_SOAK_RECORDS", "2000"))
CHUNK = RECORDS // (1_000 if LONG else 400)
BETWEEN_CHUNKS = 0.01 if LONG else 0.02
PARTITIONS = 3
HANG_GUARD = 300.0


def _stream(kafka: KafkaCluster, topic: str, moving: Callable[[], object], **settings: Any) -> None:
    """Send without a pause from before *moving* begins until after its end; every record is to arrive.

    The last one goes to each partition when all is over, so that the new addresses are known to be used.
    """
    kafka.create_topic(topic, partitions=PARTITIONS, replication=3, config={"min.insync.replicas": 2})
    with (
        ThreadPoolExecutor(1) as pool,
        Producer(acks="all", delivery_timeout_ms=120_000, max_block_ms=120_000, **settings) as producer,
    ):
        producer.send(topic, b"0", partition=0).result(HANG_GUARD)
        moved, count = pool.submit(moving), 1
        while count < RECORDS or not moved.done():
            for number in range(count, count + CHUNK):
                producer.send(topic, b"%d" % number, partition=number % PARTITIONS)
            count += CHUNK
            wait([moved], BETWEEN_CHUNKS)
        moved.result()
        for partition in range(PARTITIONS):
            producer.send(topic, b"%d" % count, partition=partition).result(HANG_GUARD)
            count += 1
        report = producer.flush(HANG_GUARD)
    found = Counter(record.value for record in read_back(kafka.bootstrap_servers, topic, partitions=PARTITIONS))
    print(f"{count} records; there twice: {found.total() - count}")

    assert (report.acknowledged, report.failed, report.pending) == (count, 0, 0)
    assert found.keys() == {b"%d" % number for number in range(count)}


@pytest.mark.thorough("the gate moves all nodes at once, and shuts one down")
def test_nodes_that_move_one_by_one_are_followed_without_bootstrap(three_kafkas: KafkaCluster) -> None:
    before = {three_kafkas.address(node) for node in three_kafkas.nodes}

    def move_each() -> None:
        for node in three_kafkas.nodes:
            three_kafkas.stop(node)
            three_kafkas.move(node)
            three_kafkas.start(node)
            three_kafkas.wait_in_sync("one-by-one")

    _stream(three_kafkas, "one-by-one", move_each, bootstrap_servers=three_kafkas.bootstrap_servers)

    assert not before & {three_kafkas.address(node) for node in three_kafkas.nodes}


def test_a_moved_cluster_is_found_again_through_its_bootstrap_server(three_kafkas: KafkaCluster) -> None:
    """A proxy, used by bootstrap connections only, stands for a name with a new address."""
    before = {three_kafkas.address(node) for node in three_kafkas.nodes}
    with CuttingProxy(*three_kafkas.address(1)) as entrance:

        def move_all() -> None:
            entrance.refuse()
            for node in three_kafkas.nodes:
                three_kafkas.kill(node)
                three_kafkas.move(node)
            three_kafkas.start(*three_kafkas.nodes)
            entrance.point_to(*three_kafkas.address(1))
            entrance.accept()

        _stream(three_kafkas, "all-at-once", move_all, bootstrap_servers=entrance.bootstrap_servers)

    assert not before & {three_kafkas.address(node) for node in three_kafkas.nodes}
