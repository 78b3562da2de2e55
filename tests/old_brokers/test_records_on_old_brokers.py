"""Records as old brokers store them, read back by another client."""

from __future__ import annotations

import time

import pytest
from old_brokers.versions import VERSIONS, magic, on_brokers, one_of, with_each_codec

from ottla import DeliveryError, Producer
from ottla.errors import UnsupportedVersionError
from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.pytest_plugin import MakeTopic
from readback import read_back

pytestmark = [pytest.mark.kafka, pytest.mark.slow]
WAIT = 60.0
AHEAD_MS = 1_800_000  # new brokers refuse what is an hour ahead of them


def records(count: int) -> list[tuple[bytes | None, bytes | None, int]]:
    """Keys, values and times of which some are null, empty, early or late."""
    now = time.time_ns() // 1_000_000
    keys = (b"", b"key %d", None)
    values = (b"value %d " * 20, b"%d", b"", None)
    return [
        (numbered(keys[n % 3], n), numbered(values[n % 4], n), now + (AHEAD_MS if n % 5 == 0 else -n))
        for n in range(count)
    ]


def numbered(pattern: bytes | None, number: int) -> bytes | None:
    return None if pattern is None else pattern.replace(b"%d", b"%d" % number)


@with_each_codec
def test_records_are_read_back_unchanged(old_kafka: KafkaCluster, make_old_topic: MakeTopic, codec: str) -> None:
    topic, sent = make_old_topic(), records(300)

    with Producer(
        bootstrap_servers=old_kafka.bootstrap_servers, compression_type=codec, batch_size=8_000, linger_ms=20
    ) as producer:
        deliveries = [producer.send(topic, value, key, timestamp_ms=moment) for key, value, moment in sent]
        reported = [(metadata.offset, metadata.timestamp_ms) for metadata in (d.result(WAIT) for d in deliveries)]

    found = read_back(old_kafka.bootstrap_servers, topic)
    assert [(record.key, record.value, record.timestamp_ms) for record in found] == sent
    assert reported == [(record.offset, record.timestamp_ms) for record in found]


@pytest.mark.parametrize(("acks", "offsets"), [("all", [0, 1, 2]), (1, [0, 1, 2]), (0, [-1, -1, -1])])
@on_brokers()
def test_with_any_acks_all_records_are_there(
    old_kafka: KafkaCluster, make_old_topic: MakeTopic, acks: int | str, offsets: list[int]
) -> None:
    topic = make_old_topic()

    with Producer(bootstrap_servers=old_kafka.bootstrap_servers, acks=acks) as producer:
        deliveries = [producer.send(topic, b"%d" % number) for number in range(3)]
        assert [delivery.result(WAIT).offset for delivery in deliveries] == offsets

    # Nothing reports when a broker has stored a record that it need not acknowledge.
    deadline = time.monotonic() + WAIT
    while old_kafka.end_offset(topic) < 3 and time.monotonic() < deadline:
        pass
    assert [record.value for record in read_back(old_kafka.bootstrap_servers, topic)] == [b"0", b"1", b"2"]


@on_brokers()
def test_records_are_sent_to_their_explicit_partitions(old_kafka: KafkaCluster, make_old_topic: MakeTopic) -> None:
    topic = make_old_topic(partitions=3)

    with Producer(bootstrap_servers=old_kafka.bootstrap_servers, linger_ms=50) as producer:
        for number in range(30):
            producer.send(topic, b"%d" % number, partition=number % 3)

    found = [(record.partition, record.value) for record in read_back(old_kafka.bootstrap_servers, topic, partitions=3)]
    assert found == [(partition, b"%d" % number) for partition in range(3) for number in range(partition, 30, 3)]


@on_brokers()
def test_the_log_append_time_is_reported_if_the_topic_uses_it(
    old_kafka: KafkaCluster, make_old_topic: MakeTopic
) -> None:
    topic = make_old_topic(message_timestamp_type="LogAppendTime")
    before = time.time_ns() // 1_000_000 - 1_000

    with Producer(bootstrap_servers=old_kafka.bootstrap_servers) as producer:
        deliveries = [producer.send(topic, b"v", timestamp_ms=before - 1_000) for _ in range(3)]
        reported = [delivery.result(WAIT).timestamp_ms for delivery in deliveries]

    assert min(reported) >= before
    assert reported == [record.timestamp_ms for record in read_back(old_kafka.bootstrap_servers, topic)]


@on_brokers(since="0.11.0")
def test_headers_arrive_if_the_broker_supports_them(old_kafka: KafkaCluster, make_old_topic: MakeTopic) -> None:
    topic = make_old_topic()
    headers = (("a", b"1"), ("a", b"2"), ("ü", None), ("empty", b""))

    with Producer(bootstrap_servers=old_kafka.bootstrap_servers, compression_type="gzip") as producer:
        producer.send(topic, b"v", headers=headers)
        producer.send(topic, b"w")

    assert [record.headers for record in read_back(old_kafka.bootstrap_servers, topic)] == [headers, ()]


@on_brokers(before="0.11.0")
def test_headers_are_refused_if_the_broker_does_not_support_them(
    old_kafka: KafkaCluster, make_old_topic: MakeTopic
) -> None:
    topic = make_old_topic()

    with Producer(bootstrap_servers=old_kafka.bootstrap_servers) as producer:
        error = producer.send(topic, b"v", headers=[("a", b"1")]).exception(WAIT)
        after = producer.send(topic, b"w").result(WAIT)

    assert isinstance(error, DeliveryError)
    assert isinstance(error.__cause__, UnsupportedVersionError)
    assert "headers" in str(error)
    assert after.offset == 0
    assert [record.value for record in read_back(old_kafka.bootstrap_servers, topic)] == [b"w"]


@on_brokers(before="2.1")
def test_zstd_is_refused_if_the_broker_does_not_support_it(old_kafka: KafkaCluster, make_old_topic: MakeTopic) -> None:
    topic = make_old_topic()

    with Producer(bootstrap_servers=old_kafka.bootstrap_servers, compression_type="zstd") as producer:
        error = producer.send(topic, b"v").exception(WAIT)

    assert isinstance(error, DeliveryError)
    assert isinstance(error.__cause__, UnsupportedVersionError)
    assert "zstd" in str(error)
    assert old_kafka.end_offset(topic) == 0


@pytest.mark.parametrize("old_kafka", [one_of(version) for version in VERSIONS], indirect=True)
def test_a_broker_stores_the_newest_format_that_it_supports(old_kafka: KafkaCluster, make_old_topic: MakeTopic) -> None:
    topic = make_old_topic()

    with Producer(bootstrap_servers=old_kafka.bootstrap_servers, compression_type="lz4") as producer:
        producer.send(topic, b"stored", b"key").result(WAIT)

    assert f"magic: {magic(old_kafka.version)} " in old_kafka.dump_log(topic)
