"""Faults of machines, networks, operators and clocks under a stream of records: nothing lost, doubled or reordered.

Killed and frozen brokers, rolling restarts and moved leaders have modules of their own. The short form of each test
runs with one encoder, the long form with both.
"""

from __future__ import annotations

import contextlib
import resource
import struct
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions  # type: ignore[attr-defined]
from fault_streams import WAIT, assert_once_and_in_order, encoders, stream
from long_forms import LONG, only_long

from ottla import Producer, TopicUnavailableError
from ottla_testkit.errors import ClusterError, KafkaUnavailableError
from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.kafka_cluster.admin_requests import call, metadata
from ottla_testkit.proxy import DelayingProxy, Direction
from ottla_testkit.pytest_plugin import go_without
from readback import read_back
from transactions_kit import await_true, finished, program, said

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

ALTER_CLIENT_QUOTAS = 49
DISK = 64 << 20


@pytest.fixture(scope="module")
def linked_kafka() -> Iterator[KafkaCluster]:
    """A broker behind a proxy without a delay."""
    try:
        with KafkaCluster(round_trip=0.0) as kafka:
            yield kafka
    except KafkaUnavailableError as error:
        go_without(error)


# Machines


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 MB in memory."""
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", str(tmp_path)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"only root may mount a file system: {mounted.stderr.decode().strip()}")
    yield tmp_path
    subprocess.run(["umount", "--lazy", str(tmp_path)], check=True)


def fill(ballast: Path) -> None:
    """Write a file until its file system is full."""
    with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(1 << 16))


@pytest.mark.thorough("needs a broker of its own")
@encoders("native")
def test_a_full_disk_of_a_broker_loses_nothing(small_disk: Path, encoder: str) -> None:
    """The broker ends by itself when it cannot write, and is started again when there is room."""
    config: dict[str, str | int] = {"log.dirs": str(small_disk / "data"), "log.index.size.max.bytes": 1 << 20}
    with KafkaCluster(config=config) as kafka:
        kafka.create_topic("full-disk")
        with stream(kafka.bootstrap_servers, "full-disk", encoder=encoder, padding=b"x" * 5_000) as running:
            ballast = small_disk / "ballast"
            fill(ballast)
            await_true(lambda: 1 not in kafka.running)
            ballast.unlink()
            kafka.start(1)
            running.wait_for()
            report = running.stop()

        assert report.failed == 0
        assert_once_and_in_order(kafka, "full-disk", running)


@pytest.mark.thorough("the gate takes those of the program")
@only_long("the broker may end, or go on, depending on the file that it opens next")
@encoders("python")
def test_a_broker_without_file_descriptors_loses_nothing(spare_kafka: KafkaCluster, encoder: str) -> None:
    """Existing connections stay; a new producer gets an error within max.block.ms, and works afterwards."""
    spare_kafka.create_topic("descriptors")
    pid = spare_kafka.pid(1)
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    with stream(spare_kafka.bootstrap_servers, "descriptors", encoder=encoder) as running:
        used = len(list(Path(f"/proc/{pid}/fd").iterdir()))
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (used - 8, before[1]))
        try:
            with (
                Producer(bootstrap_servers=spare_kafka.bootstrap_servers, max_block_ms=2_000) as other,
                pytest.raises(TopicUnavailableError),
            ):
                other.send("descriptors", b"unanswered")
        finally:
            resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
        acknowledged = running.acknowledged
        await_true(lambda: running.acknowledged > acknowledged or 1 not in spare_kafka.running)
        if 1 not in spare_kafka.running:  # it ends by itself when it cannot open a file of its log
            spare_kafka.start(1)
        running.wait_for()
        report = running.stop()

    assert report.failed == 0
    assert_once_and_in_order(spare_kafka, "descriptors", running)
    with Producer(bootstrap_servers=spare_kafka.bootstrap_servers) as other:
        assert other.send("descriptors", b"answered").result(WAIT).offset == len(running.deliveries)


WITHOUT_DESCRIPTORS = """
import os, resource, sys
from ottla import Producer, TopicUnavailableError

with Producer(bootstrap_servers=sys.argv[1], record_encoder=sys.argv[2], max_block_ms=1000) as producer:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = len(os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(taken, 3), hard))
    try:
        producer.send("few-descriptors", b"too early")
    except TopicUnavailableError as error:
        text = str(error)
    print(text.replace(chr(10), " "), flush=True)
    sys.stdin.readline()
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    producer.send("few-descriptors", b"0").result(60)
"""


@encoders("native")
def test_a_program_without_file_descriptors_reads_why_and_goes_on(spare_kafka: KafkaCluster, encoder: str) -> None:
    """No connection can be older than the limit: the port accepts none before the program has read why."""
    spare_kafka.create_topic("few-descriptors")
    port = DelayingProxy(*spare_kafka.address(1), round_trip=0.0)

    with program(WITHOUT_DESCRIPTORS, port.bootstrap_servers, encoder) as child:
        assert child.stdout is not None
        refusal = child.stdout.readline()
        with port:
            child.communicate("go on\n", timeout=WAIT)

    assert "Too many open files" in refusal
    assert child.returncode == 0
    assert [record.value for record in read_back(spare_kafka.bootstrap_servers, "few-descriptors")] == [b"0"]


# Links


@pytest.mark.thorough("the gate has links that work in one direction")
@encoders("python")
def test_a_link_of_a_few_bytes_per_second_loses_nothing(linked_kafka: KafkaCluster, encoder: str) -> None:
    """Requests and responses arrive in pieces of 20 bytes, until requests time out; then the link is good again."""
    linked_kafka.create_topic("slow-link")
    link = linked_kafka.links[1]
    settings: dict[str, Any] = {"request_timeout_ms": 1_000, "retry_backoff_ms": 50}
    with stream(
        linked_kafka.bootstrap_servers, "slow-link", encoder=encoder, padding=b"x" * 200, **settings
    ) as running:
        link.bytes_per_second = 1_000.0
        connections = link.traffic.connections
        await_true(lambda: link.traffic.connections > connections + 1)  # a request has timed out, and its retry, too
        link.bytes_per_second = None
        running.wait_for()
        report = running.stop()

    assert report.failed == 0
    assert_once_and_in_order(linked_kafka, "slow-link", running)


@pytest.mark.parametrize("way", [Direction.OUT, Direction.BACK])
@encoders("native")
def test_a_link_that_works_in_one_direction_loses_nothing(
    linked_kafka: KafkaCluster, way: Direction, encoder: str
) -> None:
    topic = f"one-way-{way.name.lower()}"
    linked_kafka.create_topic(topic)
    link = linked_kafka.links[1]
    settings: dict[str, Any] = {"request_timeout_ms": 1_000, "retry_backoff_ms": 50}
    with stream(linked_kafka.bootstrap_servers, topic, encoder=encoder, **settings) as running:
        link.hold(way)
        connections = link.traffic.connections
        await_true(lambda: link.traffic.connections > connections + 1)
        link.release()
        running.wait_for()
        report = running.stop()

    assert report.failed == 0
    assert_once_and_in_order(linked_kafka, topic, running)


# Operators


def set_quota(kafka: KafkaCluster, client_id: str, rate: float | None) -> None:
    """Limit the bytes per second of a client id; None removes the limit."""
    kind, name, key = b"client-id", client_id.encode(), b"producer_byte_rate"
    entity = struct.pack(">ih", 1, len(kind)) + kind + struct.pack(">h", len(name)) + name
    change = struct.pack(">ih", 1, len(key)) + key + struct.pack(">d?", rate or 0.0, rate is None)
    answer = call(kafka.address(1), ALTER_CLIENT_QUOTAS, 0, struct.pack(">i", 1) + entity + change + b"\0", WAIT)
    [code] = struct.unpack_from(">h", answer, 8)
    if code:
        raise ClusterError(f"the broker refused the quota: error {code}")


@encoders("native")
def test_a_throttled_producer_waits_and_loses_nothing(spare_kafka: KafkaCluster, encoder: str) -> None:
    spare_kafka.create_topic("quota")
    set_quota(spare_kafka, "throttled", 10_000.0)
    settings: dict[str, Any] = {"client_id": "throttled", "linger_ms": 20}
    try:
        with stream(spare_kafka.bootstrap_servers, "quota", encoder=encoder, padding=b"x" * 500, **settings) as running:
            producer = running._producer
            await_true(lambda: _most(producer, "produce-throttle-time-max") > 0)
            with Producer(bootstrap_servers=spare_kafka.bootstrap_servers, client_id="other") as other:
                spare_kafka.create_topic("unlimited")
                other.send("unlimited", bytes(100_000)).result(WAIT)
            set_quota(spare_kafka, "throttled", None)
            report = running.stop()
    finally:
        set_quota(spare_kafka, "throttled", None)

    assert report.failed == 0
    assert_once_and_in_order(spare_kafka, "quota", running)


def _most(producer: Producer, name: str) -> float:
    values = (value for metric, value in producer.metrics().items() if metric.name == name)
    return max((value for value in values if isinstance(value, float)), default=0.0)


@encoders("python")
def test_partitions_added_during_a_stream_are_used(spare_kafka: KafkaCluster, encoder: str) -> None:
    spare_kafka.create_topic("more-partitions")
    admin = AdminClient({"bootstrap.servers": spare_kafka.bootstrap_servers})
    settings: dict[str, Any] = {"metadata_max_age_ms": 200, "batch_size": 1_000, "record_encoder": encoder}
    with Producer(bootstrap_servers=spare_kafka.bootstrap_servers, **settings) as producer:
        sent = [producer.send("more-partitions", b"0").result(WAIT)]
        for added in admin.create_partitions([NewPartitions("more-partitions", 4)]).values():
            added.result(WAIT)
        deadline = time.monotonic() + WAIT
        while {metadata.partition for metadata in sent} != {0, 1, 2, 3}:
            assert time.monotonic() < deadline
            value = b"%d" % len(sent) + b"x" * 500
            sent.append(producer.send("more-partitions", value).result(WAIT))

    found = read_back(spare_kafka.bootstrap_servers, "more-partitions", partitions=4)
    values = sorted(int((record.value or b"").rstrip(b"x")) for record in found)
    assert values == list(range(len(sent)))
    assert {(each.partition, each.offset) for each in found} == {(each.partition, each.offset) for each in sent}


@encoders("native")
def test_a_topic_created_again_gets_all_later_records_in_order(spare_kafka: KafkaCluster, encoder: str) -> None:
    """Records acknowledged before are lost with the topic. What is sent meanwhile waits, and none is doubled."""
    spare_kafka.create_topic("again")
    admin = AdminClient({"bootstrap.servers": spare_kafka.bootstrap_servers})
    settings: dict[str, Any] = {"retry_backoff_max_ms": 200, "metadata_max_age_ms": 1_000}
    with stream(spare_kafka.bootstrap_servers, "again", encoder=encoder, **settings) as running:
        for deleted in admin.delete_topics(["again"]).values():
            deleted.result(WAIT)
        await_true(lambda: not metadata(spare_kafka.address(1), topic="again").partitions)
        spare_kafka.create_topic("again")
        first = len(running.deliveries)
        running.wait_for()
        report = running.stop()

    assert report.failed == 0
    found = [int(record.value or b"") for record in read_back(spare_kafka.bootstrap_servers, "again")]
    assert found == list(range(found[0], len(running.deliveries)))
    assert found[0] <= first


@pytest.mark.thorough("test_lost_nodes.py has too few replicas")
@encoders("python")
def test_a_stream_waits_for_replicas_and_loses_nothing(three_kafkas: KafkaCluster, encoder: str) -> None:
    three_kafkas.create_topic("replicas", replication=3, config={"min.insync.replicas": 3})
    victim = next(node for node in three_kafkas.nodes if node != three_kafkas.leader("replicas"))
    settings: dict[str, Any] = {"retry_backoff_max_ms": 200, "request_timeout_ms": 3_000}
    with stream(three_kafkas.bootstrap_servers, "replicas", encoder=encoder, **settings) as running:
        three_kafkas.stop(victim)
        stalled_at = running.acknowledged
        await_true(lambda: len(running.deliveries) > stalled_at + 200)
        three_kafkas.start(victim)
        running.wait_for()
        report = running.stop()

    assert report.failed == 0
    assert_once_and_in_order(three_kafkas, "replicas", running)


@only_long("leaders are killed in other tests, and one of them may be the controller")
@encoders("native")
def test_a_lost_controller_disturbs_no_stream(three_kafkas: KafkaCluster, encoder: str) -> None:
    """The controller's partitions move to others, and a topic that is created afterwards is found."""
    controller = metadata(three_kafkas.address(1)).controller
    three_kafkas.create_topic("controller", partitions=3, replication=3, config={"min.insync.replicas": 2})
    with stream(three_kafkas.bootstrap_servers, "controller", encoder=encoder, partitions=3) as running:
        three_kafkas.kill(controller)
        running.wait_for(60)
        three_kafkas.create_topic("created-by-another", replication=2)
        three_kafkas.start(controller)
        report = running.stop()
    with Producer(bootstrap_servers=three_kafkas.bootstrap_servers) as producer:
        assert producer.send("created-by-another", b"found").result(WAIT).offset == 0

    assert report.failed == 0
    assert_once_and_in_order(three_kafkas, "controller", running, partitions=3)


# Clocks


CLOCK_PROGRAM = """
import sys, time
from ottla import Producer

servers, topic, encoder = sys.argv[1:]
with Producer(bootstrap_servers=servers, record_encoder=encoder, linger_ms=20, delivery_timeout_ms=60000) as producer:
    producer.send(topic, b"0").result(60)
    print("started", flush=True)
    sys.stdin.readline()
    began, wall = time.monotonic(), time.time()
    deliveries = [producer.send(topic, b"%d" % number) for number in range(1, 200)]
    for delivery in deliveries:
        delivery.result(60)
    print("jumped", round(time.time()), round(time.monotonic() - began, 3), flush=True)
"""
LIBFAKETIME = [
    *Path("/usr/lib").glob("*/faketime/libfaketime.so.1"),
    *Path("/usr/lib/faketime").glob("libfaketime.so.1"),
]


@pytest.mark.thorough("the clock of simulated histories jumps in the gate")
@pytest.mark.skipif(not LIBFAKETIME, reason="libfaketime is not installed (Debian: apt install libfaketime)")
@pytest.mark.parametrize("jump", ["-3d", "+30m"] if LONG else ["-3d"])
@encoders("python")
def test_a_jump_of_the_wall_clock_delays_and_fails_nothing(
    spare_kafka: KafkaCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jump: str, encoder: str
) -> None:
    """Brokers refuse timestamps that are more than an hour ahead, so the jump into the future is smaller."""
    topic = f"clock{jump.replace('+', '-')}"
    spare_kafka.create_topic(topic)
    offset = tmp_path / "offset"
    offset.write_text("+0\n")
    monkeypatch.setenv("LD_PRELOAD", str(LIBFAKETIME[0]))
    monkeypatch.setenv("FAKETIME_TIMESTAMP_FILE", str(offset))
    monkeypatch.setenv("FAKETIME_NO_CACHE", "1")
    monkeypatch.setenv("FAKETIME_DONT_FAKE_MONOTONIC", "1")
    with program(CLOCK_PROGRAM, spare_kafka.bootstrap_servers, topic, encoder) as child:
        said(child, "started")
        offset.write_text(f"{jump}\n")
        assert child.stdin is not None
        child.stdin.write("\n")
        child.stdin.flush()
        output = finished(child)

    [wall] = [float(line.split()[1]) for line in output.splitlines() if line.startswith("jumped")]
    assert abs(wall - time.time()) > 1_000
    found = read_back(spare_kafka.bootstrap_servers, topic)
    assert [int(record.value or b"") for record in found] == list(range(200))
