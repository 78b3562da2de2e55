"""docs/other-clients.md is right about confluent-kafka, and about Ottla: both send to one cluster."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer as ConfluentProducer

from ottla import BufferExhaustedError, InvalidRecordError, Producer
from ottla.config.translation import Client, Given, translate
from ottla.plugins.partitioners.murmur2_hash import murmur2
from ottla_testkit.mock_cluster import MockCluster

PARTITIONS = 12
KEYS = [b"customer %d" % number for number in range(40)] + [b"\xff" * size for size in range(1, 9)]
WAIT = 30.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[MockCluster]:
    with MockCluster() as cluster:
        cluster.create_topic("orders", partitions=PARTITIONS)
        yield cluster


def confluent(cluster: MockCluster, **settings: Any) -> ConfluentProducer:
    return ConfluentProducer({"bootstrap.servers": cluster.bootstrap_servers, **settings})


def partitions_by_confluent(cluster: MockCluster, **settings: Any) -> list[int | None]:
    """Return the partitions that confluent-kafka chooses for the keys."""
    chosen: dict[bytes | None, int | None] = {}
    producer = confluent(cluster, **settings)
    for key in KEYS:
        producer.produce(
            "orders", b"v", key, on_delivery=lambda _error, sent: chosen.update({sent.key(): sent.partition()})
        )
    assert producer.flush(WAIT) == 0
    return [chosen[key] for key in KEYS]


def partitions_here(cluster: MockCluster) -> list[int | None]:
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        sent = [producer.send("orders", b"v", key) for key in KEYS]
        return [delivery.result(WAIT).partition for delivery in sent]


def test_keys_are_hashed_with_crc32_there_and_murmur2_here(cluster: MockCluster) -> None:
    here = [(murmur2(key) & 0x7FFFFFFF) % PARTITIONS for key in KEYS]

    assert partitions_by_confluent(cluster) == [zlib.crc32(key) % PARTITIONS for key in KEYS]
    assert partitions_here(cluster) == here
    assert partitions_by_confluent(cluster, partitioner="murmur2_random") == here


def test_a_translated_configuration_keeps_keys_in_their_partitions(cluster: MockCluster) -> None:
    given = {"metadata.broker.list": cluster.bootstrap_servers, "queue.buffering.max.ms": 5}
    ours = translate([Given(key=key, value=value, line=1) for key, value in given.items()], Client.LIBRDKAFKA)
    settings = dict(ours.added)
    for line in ours.lines:
        settings |= line.settings
    with Producer(settings) as producer:
        here = [producer.send("orders", b"v", key).result(WAIT).partition for key in KEYS]

    assert here == partitions_by_confluent(cluster)


PARTITIONERS = ("consistent", "consistent_random", "fnv1a", "fnv1a_random", "murmur2_random")


@pytest.mark.parametrize("partitioner", PARTITIONERS)
def test_a_partitioner_of_librdkafka_has_its_partitions_here(cluster: MockCluster, partitioner: str) -> None:
    with Producer(bootstrap_servers=cluster.bootstrap_servers, partitioner_class=partitioner) as producer:
        here = [producer.send("orders", b"v", key).result(WAIT).partition for key in KEYS]

    assert here == partitions_by_confluent(cluster, partitioner=partitioner)


@pytest.mark.parametrize("partitioner", ["consistent", "fnv1a"])
def test_records_without_a_key_go_to_one_partition_as_there(cluster: MockCluster, partitioner: str) -> None:
    sent: list[int | None] = []
    there = confluent(cluster, partitioner=partitioner)
    there.produce("orders", b"v", on_delivery=lambda _error, record: sent.append(record.partition()))
    assert there.flush(WAIT) == 0
    with Producer(bootstrap_servers=cluster.bootstrap_servers, partitioner_class=partitioner) as producer:
        deliveries = [producer.send("orders", b"v") for _ in range(5)]

        assert {delivery.result(WAIT).partition for delivery in deliveries} == set(sent)


def test_an_empty_key_is_none_only_for_consistent_random(cluster: MockCluster) -> None:
    settings: dict[str, Any] = {"bootstrap_servers": cluster.bootstrap_servers, "batch_size": 0, "linger_ms": 0}

    def partitions(partitioner: str) -> set[int | None]:
        with Producer(partitioner_class=partitioner, **settings) as producer:
            return {producer.send("orders", b"v", b"").result(WAIT).partition for _ in range(40)}

    assert len(partitions("consistent_random")) > 1
    assert len(partitions("fnv1a_random")) == 1
    assert partitions("fnv1a_random") == partitions("fnv1a")


def test_a_full_buffer_raises_at_once_there_and_waits_here(cluster: MockCluster) -> None:
    full = confluent(cluster, **{"queue.buffering.max.messages": 1, "linger.ms": 60_000})
    full.produce("orders", b"v")
    with pytest.raises(BufferError):
        full.produce("orders", b"v")
    full.purge()

    settings: dict[str, Any] = {"buffer_memory": 20_000, "batch_size": 5_000}
    with Producer(bootstrap_servers=cluster.bootstrap_servers, max_block_ms=5_000, **settings) as here:
        here.partitions_for("orders")
        cluster.set_rtt(1, 0.2)
        try:
            waited = [here.send("orders", bytes(4_000)) for _ in range(20)]  # four of them fill the buffer
            assert [delivery.result(WAIT) is not None for delivery in waited] == [True] * 20
        finally:
            cluster.set_rtt(1, 0.0)
    with Producer(bootstrap_servers=cluster.bootstrap_servers, max_block_ms=1_000, **settings) as here:
        here.partitions_for("orders")
        cluster.set_rtt(1, 2.0)
        try:
            with pytest.raises(BufferExhaustedError, match=r"max\.block\.ms"):
                [here.send("orders", bytes(4_000)) for _ in range(20)]
        finally:
            cluster.set_rtt(1, 0.0)


def test_text_is_encoded_there_and_refused_here(cluster: MockCluster) -> None:
    values: list[bytes | None] = []
    producer = confluent(cluster)
    producer.produce("orders", "drei Äpfel", on_delivery=lambda _error, sent: values.append(sent.value()))
    assert producer.flush(WAIT) == 0
    assert values == ["drei Äpfel".encode()]

    with (
        Producer(bootstrap_servers=cluster.bootstrap_servers) as here,
        pytest.raises(InvalidRecordError, match="bytes"),
    ):
        here.send("orders", "drei Äpfel")


def test_a_callback_with_two_arguments_is_called_there_and_refused_here(cluster: MockCluster) -> None:
    given: list[tuple[Any, ...]] = []

    def delivered(error: object, sent: object) -> None:
        given.append((error, sent))

    producer = confluent(cluster)
    producer.produce("orders", b"v", on_delivery=delivered)
    assert producer.flush(WAIT) == 0
    assert [(error, type(sent).__name__) for error, sent in given] == [(None, "Message")]

    with Producer(bootstrap_servers=cluster.bootstrap_servers) as here, pytest.raises(TypeError, match="delivered"):
        here.send("orders", b"v", on_delivery=delivered)  # type: ignore[arg-type]
