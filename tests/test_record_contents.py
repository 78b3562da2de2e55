"""Single records with something special about them, on a real broker."""

from __future__ import annotations

import time

import pytest

from ottla import BrokerError, ErrorCode, InvalidRecord, Producer
from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.pytest_plugin import MakeTopic
from readback import read_back

pytestmark = pytest.mark.kafka
WAIT = 60.0


def test_null_and_empty_are_told_apart_in_keys_and_values(kafka: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = make_topic()
    sent: list[tuple[bytes | None, bytes | None]] = [(None, b"v"), (b"", b"v"), (b"k", None), (b"k", b""), (None, None)]

    with Producer(bootstrap_servers=kafka.bootstrap_servers, linger_ms=100) as producer:
        deliveries = [producer.send(topic, value, key) for key, value in sent]
        sizes = [(m.serialized_key_size, m.serialized_value_size) for m in (d.result(WAIT) for d in deliveries)]

    assert sent == [(record.key, record.value) for record in read_back(kafka.bootstrap_servers, topic)]
    assert sizes == [(-1, 1), (0, 1), (1, -1), (1, 0), (-1, -1)]


def test_a_record_of_its_own_time_keeps_it(kafka: KafkaCluster, make_topic: MakeTopic) -> None:
    """CreateTime is the default; one batch may hold times far apart and in any order."""
    topic = make_topic()
    now = time.time_ns() // 1_000_000
    times = [now, 0, now + 1_000, now - 86_400_000, 1]

    with Producer(bootstrap_servers=kafka.bootstrap_servers, linger_ms=100) as producer:
        deliveries = [producer.send(topic, b"v", timestamp_ms=moment) for moment in times]
        told = [delivery.result(WAIT).timestamp_ms for delivery in deliveries]

    assert times == told
    assert times == [record.timestamp_ms for record in read_back(kafka.bootstrap_servers, topic)]


def test_a_record_without_a_time_gets_the_time_of_send(kafka: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = make_topic()

    with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        before = time.time_ns() // 1_000_000
        delivery = producer.send(topic, b"v")
        after = time.time_ns() // 1_000_000
        told = delivery.result(WAIT).timestamp_ms

    [record] = read_back(kafka.bootstrap_servers, topic)
    assert before <= told <= after
    assert told == record.timestamp_ms


def test_the_brokers_time_is_the_one_that_its_log_holds(kafka: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = make_topic(message_timestamp_type="LogAppendTime")

    with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        told = [producer.send(topic, b"v", timestamp_ms=1).result(WAIT).timestamp_ms for _ in range(3)]

    assert told == [record.timestamp_ms for record in read_back(kafka.bootstrap_servers, topic)]


def test_many_headers_arrive_in_order(kafka: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = make_topic()
    headers = tuple((f"name {n % 3}", None if n % 5 == 0 else b"%d" % n) for n in range(300))

    with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        producer.send(topic, b"v", headers=headers).result(WAIT)

    [record] = read_back(kafka.bootstrap_servers, topic)
    assert headers == record.headers


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("size", [0, 1, 40_000, 1_000_000])
def test_a_lone_record_of_any_size_survives_every_codec(
    kafka: KafkaCluster, make_topic: MakeTopic, codec: str, size: int
) -> None:
    """Up to what compresses best (zeros of it), far above one block of any codec."""
    topic = make_topic()
    value = bytes(size // 2) + bytes(n * n % 251 for n in range(size - size // 2))

    with Producer(bootstrap_servers=kafka.bootstrap_servers, compression_type=codec) as producer:
        producer.send(topic, value).result(WAIT)

    assert [value] == [record.value for record in read_back(kafka.bootstrap_servers, topic)]


def test_a_name_that_no_topic_can_have_is_refused_without_asking_the_broker(kafka: KafkaCluster) -> None:
    with (
        Producer(bootstrap_servers=kafka.bootstrap_servers) as producer,
        pytest.raises(InvalidRecord, match="'größe' is no topic: a name is 1 to 249 of a-z"),
    ):
        producer.send("größe", b"v")


def test_a_bad_record_fails_alone_and_not_with_its_neighbours(kafka: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = make_topic()

    with Producer(bootstrap_servers=kafka.bootstrap_servers, linger_ms=1_000) as producer:
        before = producer.send(topic, b"before")
        with pytest.raises(InvalidRecord, match="header name"):
            producer.send(topic, b"bad", headers=[("\ud800", b"")])
        with pytest.raises(InvalidRecord, match="timestamp_ms"):
            producer.send(topic, b"bad", timestamp_ms=2**63)
        after = producer.send(topic, b"after")
        producer.flush(WAIT)

    assert (before.result().offset, after.result().offset) == (0, 1)


def test_a_compacted_topic_refuses_a_record_without_key_in_the_brokers_words(
    kafka: KafkaCluster, make_topic: MakeTopic
) -> None:
    topic = make_topic(cleanup_policy="compact")

    with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        error = producer.send(topic, b"v").exception(WAIT)
        after = producer.send(topic, b"v", b"k").result(WAIT)

    assert after.offset == 0
    assert error is not None
    assert "Compacted topic cannot accept message without key" in str(error)
    assert isinstance(error.__cause__, BrokerError)
    assert error.__cause__.code is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_however_acknowledged_everything_is_there(kafka: KafkaCluster, make_topic: MakeTopic, acks: object) -> None:
    topic = make_topic(partitions=3)
    count = 20_000

    with Producer(bootstrap_servers=kafka.bootstrap_servers, acks=acks) as producer:
        for number in range(count):
            producer.send(topic, b"%d" % number)
        report = producer.close()

    values = [record.value for record in read_back(kafka.bootstrap_servers, topic, partitions=3)]
    assert report.acknowledged == count
    assert {b"%d" % number for number in range(count)} == set(values)
    assert len(values) == count
