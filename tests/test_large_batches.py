"""Batches that a topic finds too large are split: all records arrive, once and in order, and deliveries know where."""

from __future__ import annotations

import random

import pytest
from long_forms import share

from distance_kit import near_or_distant
from ottla import Delivery, DeliveryError, ErrorCode, Producer
from ottla.errors import BrokerError
from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.pytest_plugin import MakeTopic
from readback import read_back

kafka = near_or_distant

pytestmark = pytest.mark.kafka

HANG_GUARD = 300.0
TOPIC_TAKES = 20_000


def held(producer: Producer) -> int:
    """Bytes of buffer.memory that are not free."""
    pool = producer._accumulator.pool
    return pool.capacity - pool.free


@pytest.mark.distance
@pytest.mark.parametrize("codec", share(["none", "gzip", "lz4", "zstd"], gate=2, why="the gate has two codecs"))
@pytest.mark.parametrize("batch_size", share([16_384, 60_000, 500_000], gate=1, why="the gate has one size of batches"))
def test_too_large_batches_are_split_without_other_changes(
    kafka: KafkaCluster, make_topic: MakeTopic, codec: str, batch_size: int
) -> None:
    topic = make_topic(2, max_message_bytes=TOPIC_TAKES)
    rng = random.Random(batch_size)
    values = [b"%06d " % number + rng.randbytes(300) for number in range(2_000)]
    reported: list[Delivery] = []
    with Producer(
        bootstrap_servers=kafka.bootstrap_servers,
        batch_size=batch_size,
        linger_ms=200,
        compression_type=codec,
        max_in_flight_requests_per_connection=1,
    ) as producer:
        deliveries = [
            producer.send(topic, value, partition=number % 2, on_delivery=reported.append)
            for number, value in enumerate(values)
        ]
        report = producer.flush(HANG_GUARD)
        assert held(producer) == 0

    found = read_back(kafka.bootstrap_servers, topic, partitions=2)
    assert [record.value for record in found] == values[0::2] + values[1::2]
    assert report.acknowledged == len(values)
    assert [delivery.result(0).offset for delivery in deliveries] == [number // 2 for number in range(len(values))]
    offsets = [delivery.result().offset for delivery in reported if delivery.partition == 1]
    assert offsets == list(range(len(values) // 2))


def test_a_topic_that_refused_a_large_batch_gets_no_other(kafka: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = make_topic(max_message_bytes=TOPIC_TAKES)
    with Producer(bootstrap_servers=kafka.bootstrap_servers, batch_size=100_000, linger_ms=100) as producer:
        for _ in range(3):
            for _ in range(500):
                producer.send(topic, bytes(300))
            producer.flush(HANG_GUARD)
        queues = producer._accumulator._batches.topic(topic, 1)

    assert queues.max_bytes is not None
    assert queues.max_bytes <= TOPIC_TAKES


def test_a_record_too_large_by_itself_fails_alone_with_a_remedy(kafka: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = make_topic(max_message_bytes=TOPIC_TAKES)
    with Producer(bootstrap_servers=kafka.bootstrap_servers, batch_size=200_000, linger_ms=200) as producer:
        small = [producer.send(topic, b"small %d" % number) for number in range(10)]
        large = producer.send(topic, bytes(TOPIC_TAKES))
        more = [producer.send(topic, b"more %d" % number) for number in range(10)]
        error = large.exception(HANG_GUARD)
        offsets = [delivery.result(HANG_GUARD).offset for delivery in small + more]
        assert held(producer) == 0

    assert isinstance(error, DeliveryError)
    assert isinstance(error.__cause__, BrokerError)
    assert error.__cause__.code is ErrorCode.MESSAGE_TOO_LARGE
    assert "1 record" in str(error)
    assert "max.message.bytes" in str(error)
    assert offsets == list(range(20))
