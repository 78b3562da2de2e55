"""Log lines while three real brokers restart, lose replicas, lose records, and lack a topic.

Each story has a line when it begins and one when it ends, and they say what happened, to what, and for how long.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

import pytest
from long_forms import LONG

from ottla import Producer, UndeliveredError
from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.kafka_cluster.admin_requests import metadata

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

HANG_GUARD = 60.0
PARTITIONS = 6


@pytest.fixture(autouse=True)
def everything(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="ottla")


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [f"{record.levelname} {record.getMessage()}" for record in caplog.records]


def wait_for(happened: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + HANG_GUARD
    while not happened():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def wait_for_line(caplog: pytest.LogCaptureFixture, *parts: str) -> str:
    found: list[str] = []

    def look() -> list[str]:
        found[:] = [line for line in lines(caplog) if all(part in line for part in parts)]
        return found

    wait_for(look, f"no line has {parts}: {lines(caplog)}")
    return found[0]


def follower(cluster: KafkaCluster, topic: str) -> int:
    leader = cluster.leader(topic)
    return next(node for node in cluster.nodes if node != leader)


def in_sync(cluster: KafkaCluster, topic: str) -> frozenset[int]:
    """The replicas in sync of partition 0, according to its leader."""
    return metadata(cluster.address(cluster.leader(topic)), topic=topic).partitions[0].in_sync


def test_a_rolling_restart_is_logged_broker_by_broker(
    three_kafkas: KafkaCluster, caplog: pytest.LogCaptureFixture
) -> None:
    three_kafkas.create_topic("rolling", partitions=PARTITIONS, replication=3, config={"min.insync.replicas": 2})
    over = threading.Event()
    with Producer(
        bootstrap_servers=three_kafkas.bootstrap_servers, client_id="shop", metadata_max_age_ms=1_000
    ) as producer:

        def send() -> None:
            while not over.wait(0.01):
                producer.send("rolling", b"x")

        sending = threading.Thread(target=send)
        sending.start()
        try:
            for node in three_kafkas.nodes if LONG else three_kafkas.nodes[:1]:
                three_kafkas.stop(node)
                wait_for_line(caplog, f"INFO shop: broker {node} at ", " has left the cluster; brokers now: 2")
                three_kafkas.start(node)
                three_kafkas.wait_in_sync("rolling")
                wait_for_line(caplog, f"INFO shop: broker {node} at ", " has joined the cluster; brokers now: 3")
        finally:
            over.set()
            sending.join(HANG_GUARD)
        report = producer.flush()

    assert report.failed == 0
    warned = [line for line in lines(caplog) if line.startswith("WARNING")]
    assert len(warned) <= 12
    if any("did not take records" in line for line in warned):
        wait_for_line(caplog, "INFO shop: records for ", " are acknowledged again, after ")


@pytest.mark.thorough("test_operators_log.py has the lines, with simulated brokers")
def test_too_few_in_sync_replicas_are_logged_from_beginning_to_end(
    three_kafkas: KafkaCluster, caplog: pytest.LogCaptureFixture
) -> None:
    three_kafkas.create_topic("replicas", replication=3, config={"min.insync.replicas": 3})
    with Producer(bootstrap_servers=three_kafkas.bootstrap_servers, client_id="shop") as producer:
        producer.send("replicas", b"1").result(HANG_GUARD)
        node = follower(three_kafkas, "replicas")
        three_kafkas.kill(node)
        try:
            # A leader that still counts on the lost replica answers only when the request's time is over.
            wait_for(lambda: node not in in_sync(three_kafkas, "replicas"), "the replica stays in sync")
            delivery = producer.send("replicas", b"2")
            begun = wait_for_line(
                caplog, "WARNING shop: broker ", " take records for partition replicas-0: NOT_ENOUGH_REPL"
            )
        finally:
            three_kafkas.start(node)
        delivery.result(HANG_GUARD)
        three_kafkas.wait_in_sync("replicas")

        ended = wait_for_line(caplog, "INFO shop: records for partition replicas-0 are acknowledged again, after ")
    assert begun.endswith("; retrying until delivery.timeout.ms (120 s) has passed")
    assert ended.endswith((" failed attempt", " failed attempts"))


@pytest.mark.thorough("test_unretrieved_errors.py has the line, with simulated brokers")
def test_a_lost_record_is_logged_although_nothing_reads_its_error(
    three_kafkas: KafkaCluster, caplog: pytest.LogCaptureFixture
) -> None:
    three_kafkas.create_topic("lost", replication=1)
    leader = three_kafkas.leader("lost")
    producer = Producer(
        bootstrap_servers=three_kafkas.bootstrap_servers,
        client_id="shop",
        delivery_timeout_ms=4_000,
        request_timeout_ms=2_000,
    )
    producer.send("lost", b"1").result(HANG_GUARD)
    three_kafkas.kill(leader)
    try:
        producer.send("lost", b"2")

        lost = wait_for_line(caplog, "ERROR shop: 1 record failed, and no delivery or callback is left to report")
        wait_for_line(caplog, f"WARNING shop: broker {leader} at ", "; connecting again, ")
    finally:
        three_kafkas.start(leader)
    producer.send("lost", b"3").result(HANG_GUARD)
    wait_for_line(caplog, f"INFO shop: broker {leader} at ")  # it answers again, or left the cluster and joined it
    with pytest.raises(UndeliveredError):
        producer.close()

    assert "for topic 'lost', partition 0 was not delivered within delivery.timeout.ms: 4.0" in lost


def test_a_missing_topic_is_logged_until_it_exists(
    three_kafkas: KafkaCluster, caplog: pytest.LogCaptureFixture
) -> None:
    with Producer(bootstrap_servers=three_kafkas.bootstrap_servers, client_id="shop", max_block_ms=60_000) as producer:
        maker = threading.Timer(3.0, three_kafkas.create_topic, args=("later",), kwargs={"replication": 1})
        maker.start()
        producer.send("later", b"1").result(HANG_GUARD)
        maker.join()

    reported = [line for line in lines(caplog) if "topic 'later'" in line]
    assert len(reported) == 2
    assert reported[0].startswith("WARNING shop: topic 'later' cannot be used: UNKNOWN_TOPIC_OR_PARTITION (3): ")
    assert reported[1].startswith("INFO shop: topic 'later' can be used again, after ")
