"""Shared parts of the tests of idempotence and transactions: other clients' readers, ids, seeds, other programs."""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import sys
import textwrap
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Consumer, KafkaError, TopicPartition

from ottla import Producer
from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.kafka_cluster.admin_requests import metadata, transaction_coordinator
from ottla_testkit.processes.free_ports import HOST
from ottla_testkit.proxy import CuttingProxy
from readback import end_offset

SEED = int(os.environ.get("OTTLA_SEED") or random.SystemRandom().randrange(1 << 32))
WAIT = 120.0
MINUTES = 600_000
LOOK_AGAIN = 0.02

COMMITTED = "read_committed"
UNCOMMITTED = "read_uncommitted"


def chance(purpose: str) -> random.Random:
    """Randomness of one purpose, the same again with the seed that a failing test shows."""
    print(f"again with OTTLA_SEED={SEED}")
    return random.Random(f"{SEED} {purpose}")


def new_id() -> str:
    """A transactional id that no other test has."""
    return f"id-{uuid.uuid4().hex[:12]}"


@contextmanager
def broker_behind_a_proxy() -> Iterator[tuple[KafkaCluster, CuttingProxy]]:
    """A broker that sends its clients to the proxy."""
    with CuttingProxy(HOST, 1) as proxy:
        advertised = {"advertised.listeners": f"PLAINTEXT://{proxy.bootstrap_servers}"}
        with KafkaCluster(config=advertised) as kafka:
            proxy.point_to(*kafka.address(1))
            yield kafka, proxy


def transactional(kafka: KafkaCluster, transactional_id: str | None = None, /, **settings: Any) -> Producer:
    """A transactional producer; not yet initialized."""
    usual: dict[str, Any] = {"max_block_ms": int(WAIT * 1000), "delivery_timeout_ms": 2 * int(WAIT * 1000)}
    return Producer(
        bootstrap_servers=kafka.bootstrap_servers, transactional_id=transactional_id or new_id(), **(usual | settings)
    )


def send(producer: Producer, topic: str, values: list[bytes], *, partitions: int = 3) -> None:
    """Each value to each partition."""
    for value in values:
        for partition in range(partitions):
            producer.send(topic, value, partition=partition)


def committed(kafka: KafkaCluster, topic: str) -> list[list[bytes]]:
    """The records that readers of committed records see, once no transaction is open."""
    return read(kafka.bootstrap_servers, topic, partitions=3)


def read(
    bootstrap_servers: str, topic: str, *, partitions: int = 1, isolation: str = COMMITTED, after_markers: bool = True
) -> list[list[bytes]]:
    """The values that a reader sees in each partition, by offset, up to what is its end now.

    `after_markers`: wait first until no transaction is open there, since markers follow the answer to a commit.
    """
    pairs = read_pairs(
        bootstrap_servers, topic, partitions=partitions, isolation=isolation, after_markers=after_markers
    )
    return [[value for _key, value in partition] for partition in pairs]


def read_pairs(
    bootstrap_servers: str, topic: str, *, partitions: int = 1, isolation: str = COMMITTED, after_markers: bool = True
) -> list[list[tuple[bytes | None, bytes]]]:
    """The same with keys."""
    if after_markers:
        await_markers(bootstrap_servers, topic, partitions=partitions)
    found: list[list[tuple[bytes | None, bytes]]] = [[] for _ in range(partitions)]
    with consumer(bootstrap_servers, isolation=isolation) as reader:
        places = [TopicPartition(topic, partition, 0) for partition in range(partitions)]
        unread = {place.partition: end_offset(reader, place) for place in places}
        reader.assign(places)
        deadline = time.monotonic() + WAIT
        while unread:
            assert time.monotonic() < deadline, f"partitions {sorted(unread)} of {topic} were not read to their end"
            for message in reader.consume(10_000, timeout=0.1):
                error, partition = message.error(), message.partition() or 0
                if error is None:
                    key, value = message.key(), message.value()
                    assert isinstance(value, bytes)
                    assert not isinstance(key, str)
                    found[partition].append((key, value))
                elif error.code() != KafkaError._PARTITION_EOF:
                    raise RuntimeError(str(error))
                elif (message.offset() or 0) >= unread.get(partition, 0):
                    unread.pop(partition, None)
    return found


def await_markers(bootstrap_servers: str, topic: str, *, partitions: int = 1) -> None:
    """Until what readers of committed records may read reaches to the end of every partition."""
    places = [TopicPartition(topic, partition) for partition in range(partitions)]

    def ends(reader: Consumer) -> list[int]:
        return [end_offset(reader, place) for place in places]

    with consumer(bootstrap_servers, isolation=UNCOMMITTED) as all_seeing:
        high = ends(all_seeing)
    with consumer(bootstrap_servers, isolation=COMMITTED) as reader:
        await_true(lambda: all(stable >= end for stable, end in zip(ends(reader), high, strict=True)))


def group_offsets(bootstrap_servers: str, group: str, topic: str, *, partitions: int = 1) -> list[int]:
    """The group's offset in each partition, -1 where it has none, once no transaction is about to change it."""
    with consumer(bootstrap_servers, isolation=COMMITTED, group=group) as reader:
        places = reader.committed([TopicPartition(topic, partition) for partition in range(partitions)], timeout=WAIT)
    return [max(-1, place.offset) for place in places]


@contextmanager
def consumer(bootstrap_servers: str, *, isolation: str, group: str | None = None) -> Iterator[Consumer]:
    """A consumer of librdkafka's, without a place in any group."""
    reader = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": group or str(uuid.uuid4()),
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 10,
            "log_level": 0,
        }
    )
    try:
        yield reader
    finally:
        reader.close()


def await_true(condition: Callable[[], bool], *, within: float = WAIT) -> None:
    """Nothing reports an event in a broker: poll until it is there."""
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline, f"not within {within} s"
        time.sleep(LOOK_AGAIN)


def coordinator(kafka: KafkaCluster, transactional_id: str) -> int:
    """The node that coordinates an id's transactions, among those that run."""
    deadline = time.monotonic() + WAIT
    while time.monotonic() < deadline:
        running = kafka.running
        for node in running:
            with contextlib.suppress(OSError):  # it may be starting, or ending
                found = transaction_coordinator(kafka.address(node), transactional_id, timeout=5)
                if found in running:
                    return found
        time.sleep(LOOK_AGAIN)
    raise AssertionError(f"{transactional_id} has no coordinator")


def await_in_sync(kafka: KafkaCluster, *topics: str) -> None:
    """Until every node is in sync with every leader: only then can any one of them be lost without standing still."""

    def in_sync(topic: str) -> bool:
        partitions = metadata(kafka.address(kafka.running[0]), topic=topic).partitions.values()
        return bool(partitions) and all(each.in_sync == set(kafka.nodes) and each.leader > 0 for each in partitions)

    await_true(lambda: all(map(in_sync, topics)))


@contextmanager
def program(text: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Another process that runs *text*, its output a pipe; killed at the end if it still runs."""
    child = subprocess.Popen(
        [sys.executable, "-u", "-c", textwrap.dedent(text), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with child:
        try:
            yield child
        finally:
            child.kill()


def said(child: subprocess.Popen[str], word: str) -> None:
    """Wait until the program prints a line of this word; its error otherwise."""
    assert child.stdout is not None
    for line in child.stdout:
        if line.strip() == word:
            return
    assert child.stderr is not None
    raise AssertionError(f"the program ended before it said {word!r}:\n{child.stderr.read()}")


def finished(child: subprocess.Popen[str]) -> str:
    """The program's output until it succeeds."""
    out, log = child.communicate(timeout=WAIT)
    assert child.returncode == 0, log
    return out


def numbered(numbers: Sequence[int], *, prefix: bytes = b"") -> list[bytes]:
    """One value for each number."""
    return [prefix + b"%d" % number for number in numbers]
