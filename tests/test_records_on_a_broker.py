"""Records of every kind on a real broker: what is in them, where they go, what their deliveries and others say of them.

Everything is read back by a client that is not ours.
"""

from __future__ import annotations

import re
import threading
import time

import pytest
from confluent_kafka import Producer as Librdkafka
from long_forms import share

from distance_kit import near_or_distant
from ottla import (
    BrokerError,
    Delivery,
    DeliveryError,
    ErrorCode,
    InvalidRecordError,
    Producer,
    TopicUnavailableError,
    UndeliveredError,
)
from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.mock_producer import MockProducer
from ottla_testkit.pytest_plugin import MakeTopic
from readback import read_back

kafka = near_or_distant

pytestmark = pytest.mark.kafka
WAIT = 60.0
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


# What is in them


@pytest.mark.distance
@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_is_read_by_other_clients_and_named_in_the_log(
    kafka: KafkaCluster, make_topic: MakeTopic, codec: str
) -> None:
    topic = make_topic()
    sent = [(b"key %d" % (n % 7), b"value %d " % n * 20, (("n", b"%d" % n), ("null", None))) for n in range(2_000)]

    with Producer(bootstrap_servers=kafka.bootstrap_servers, compression_type=codec) as producer:
        for number, (key, value, headers) in enumerate(sent):
            producer.send(topic, value, key, headers=headers, timestamp_ms=1_700_000_000_000 + number)

    found = read_back(kafka.bootstrap_servers, topic)
    assert [(record.key, record.value, record.headers) for record in found] == sent
    assert [record.timestamp_ms for record in found] == [1_700_000_000_000 + number for number in range(2_000)]
    assert f"compresscodec: {codec}" in kafka.dump_log(topic)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("size", share([0, 1, 1_000_000, 40_000], gate=1, why="the gate has the largest size"))
def test_a_single_record_of_any_size_survives_every_codec(
    kafka: KafkaCluster, make_topic: MakeTopic, codec: str, size: int
) -> None:
    """Up to what compresses best (zeros of it), far above one block of any codec."""
    topic = make_topic()
    value = bytes(size // 2) + bytes(n * n % 251 for n in range(size - size // 2))

    with Producer(bootstrap_servers=kafka.bootstrap_servers, compression_type=codec) as producer:
        producer.send(topic, value).result(WAIT)

    assert [record.value for record in read_back(kafka.bootstrap_servers, topic)] == [value]


@pytest.mark.distance
def test_null_and_empty_keys_and_values_stay_different(kafka: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = make_topic()
    sent: list[tuple[bytes | None, bytes | None]] = [(None, b"v"), (b"", b"v"), (b"k", None), (b"k", b""), (None, None)]

    with Producer(bootstrap_servers=kafka.bootstrap_servers, linger_ms=100) as producer:
        deliveries = [producer.send(topic, value, key) for key, value in sent]
        sizes = [(m.serialized_key_size, m.serialized_value_size) for m in (d.result(WAIT) for d in deliveries)]

    assert [(record.key, record.value) for record in read_back(kafka.bootstrap_servers, topic)] == sent
    assert sizes == [(-1, 1), (0, 1), (1, -1), (1, 0), (-1, -1)]


@pytest.mark.rule("producer.record.headers")
@pytest.mark.parametrize(
    "headers",
    [
        (("a", b"1"), ("a", b"2"), ("ü", None), ("a", b"")),
        tuple((f"name {n % 3}", None if n % 5 == 0 else b"%d" % n) for n in range(300)),
    ],
    ids=["repeated", "many"],
)
def test_headers_arrive_in_order_with_nulls_empties_and_repeated_names(
    kafka: KafkaCluster, make_topic: MakeTopic, headers: tuple[tuple[str, bytes | None], ...]
) -> None:
    topic = make_topic()

    with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        producer.send(topic, b"v", headers=headers).result(WAIT)

    [record] = read_back(kafka.bootstrap_servers, topic)
    assert record.headers == headers


def test_a_record_with_a_timestamp_keeps_it(kafka: KafkaCluster, make_topic: MakeTopic) -> None:
    """CreateTime is the default; one batch may hold times far apart and in any order."""
    topic = make_topic()
    now = time.time_ns() // 1_000_000
    times = [now, 0, now + 1_000, now - 86_400_000, 1]

    with Producer(bootstrap_servers=kafka.bootstrap_servers, linger_ms=100) as producer:
        deliveries = [producer.send(topic, b"v", timestamp_ms=moment) for moment in times]
        reported = [delivery.result(WAIT).timestamp_ms for delivery in deliveries]

    assert reported == times
    assert [record.timestamp_ms for record in read_back(kafka.bootstrap_servers, topic)] == times


def test_a_mock_refuses_a_timestamp_far_ahead_as_the_broker_does(kafka: KafkaCluster, make_topic: MakeTopic) -> None:
    topic, errors = make_topic(), []
    with Producer(bootstrap_servers=kafka.bootstrap_servers) as real, MockProducer() as mock:
        for producer in (real, mock):
            delivery = producer.send(topic, b"v", timestamp_ms=time.time_ns() // 1000)  # microseconds
            errors.append(delivery.exception(WAIT))

    of_broker, of_mock = [re.sub(r"-?\d{5,}", "N", f"{error} {error and error.__cause__}") for error in errors]
    assert of_mock == of_broker
    assert "INVALID_TIMESTAMP" in of_broker


def test_a_record_without_a_timestamp_gets_the_time_of_send(kafka: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = make_topic()

    with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        before = time.time_ns() // 1_000_000
        delivery = producer.send(topic, b"v")
        after = time.time_ns() // 1_000_000
        reported = delivery.result(WAIT).timestamp_ms

    [record] = read_back(kafka.bootstrap_servers, topic)
    assert before <= reported <= after
    assert reported == record.timestamp_ms


@pytest.mark.rule("producer.record.timestamp")
def test_the_log_append_time_is_reported_and_stored_if_configured(kafka: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = make_topic(message_timestamp_type="LogAppendTime")
    before = time.time_ns() // 1_000_000

    with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        reported = [producer.send(topic, b"v", timestamp_ms=1).result(WAIT).timestamp_ms for _ in range(3)]

    assert min(reported) >= before
    assert reported == [record.timestamp_ms for record in read_back(kafka.bootstrap_servers, topic)]


# Where they go


@pytest.mark.distance
@pytest.mark.rule("partitioner.keyed")
def test_keys_get_the_same_partitions_as_in_librdkafka_with_murmur2(kafka: KafkaCluster, make_topic: MakeTopic) -> None:
    ours, theirs = make_topic(partitions=7), make_topic(partitions=7)
    keys = [b"%d-%s" % (n, b"x" * (n % 13)) for n in range(500)]

    with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        for key in keys:
            producer.send(ours, b"v", key)
    other = Librdkafka({"bootstrap.servers": kafka.bootstrap_servers, "partitioner": "murmur2_random"})
    for key in keys:
        other.produce(theirs, b"v", key)
    other.flush(WAIT)

    placed = [
        {record.key: record.partition for record in read_back(kafka.bootstrap_servers, topic, partitions=7)}
        for topic in (ours, theirs)
    ]
    assert placed[0] == placed[1]


@pytest.mark.rule("partitioner.explicit")
def test_an_explicit_partition_overrides_the_key(kafka: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=3)

    with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        placed = [producer.send(topic, b"v", b"key", partition=p).result(WAIT).partition for p in (2, 0, 1)]

    assert placed == [2, 0, 1]


# Their errors


@pytest.mark.distance
@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_with_any_acks_all_records_arrive_and_acks_0_gives_no_offset(
    kafka: KafkaCluster, make_topic: MakeTopic, acks: int | str
) -> None:
    topic = make_topic(partitions=3)
    count = 20_000

    with Producer(bootstrap_servers=kafka.bootstrap_servers, acks=acks) as producer:
        first = [producer.send(topic, b"%d" % number, partition=0) for number in range(3)]
        offsets = [delivery.result(WAIT).offset for delivery in first]
        for number in range(3, count):
            producer.send(topic, b"%d" % number)
        report = producer.close()

    found = read_back(kafka.bootstrap_servers, topic, partitions=3)
    assert offsets == ([-1, -1, -1] if acks == 0 else [0, 1, 2])
    assert report.acknowledged == count
    assert [record.value for record in found[:3]] == [b"0", b"1", b"2"]
    assert {record.value for record in found} == {b"%d" % number for number in range(count)}
    assert len(found) == count


@pytest.mark.distance
@pytest.mark.rule("producer.callback.send")
def test_callbacks_come_in_order_and_may_send(kafka: KafkaCluster, make_topic: MakeTopic) -> None:
    topic, echo = make_topic(), make_topic()
    offsets: list[int] = []

    with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        producer.send(echo, b"known").result(WAIT)

        def answer(delivery: Delivery) -> None:
            assert delivery.error is None
            metadata = delivery.metadata
            assert metadata is not None
            offsets.append(metadata.offset)
            producer.send(echo, b"%d" % metadata.offset)

        for _ in range(500):
            producer.send(topic, b"v", on_delivery=answer)
        producer.flush(WAIT)

    assert offsets == list(range(500))
    assert len(read_back(kafka.bootstrap_servers, echo)) == 501


@pytest.mark.distance
@pytest.mark.rule("producer.report.unretrieved", "producer.report.retrieved")
def test_a_failure_is_raised_unless_its_error_was_retrieved(kafka: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = make_topic(max_message_bytes=1_000)

    with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        producer.send(topic, bytes(5_000))
        with pytest.raises(
            UndeliveredError, match=r"1 record failed and its error was never retrieved: .*MESSAGE_TOO_LARGE"
        ) as raised:
            producer.flush(WAIT)
        assert raised.value.report.topics[topic].failed == 1

        looked_at = producer.send(topic, bytes(5_000))
        assert looked_at.exception(WAIT) is not None
        assert producer.flush(WAIT).failed == 1


@pytest.mark.distance
def test_many_threads_share_a_producer(kafka: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=12)
    with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:

        def work(thread: int) -> None:
            for number in range(2_000):
                producer.send(topic, b"%d-%d" % (thread, number), partition=number % 12)

        threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(WAIT)
        assert producer.flush(WAIT).acknowledged == 16_000

    values = [record.value for record in read_back(kafka.bootstrap_servers, topic, partitions=12)]
    assert len(set(values)) == len(values) == 16_000


# What is refused


def test_an_unknown_topic_is_refused_with_the_reason(kafka: KafkaCluster) -> None:
    with (
        Producer(bootstrap_servers=kafka.bootstrap_servers, max_block_ms=3_000) as producer,
        pytest.raises(TopicUnavailableError, match=r"'no-such-topic' .* max\.block\.ms .*UNKNOWN_TOPIC_OR_PARTITION"),
    ):
        producer.send("no-such-topic", b"v")


def test_a_missing_partition_is_refused_with_the_number_of_partitions(
    kafka: KafkaCluster, make_topic: MakeTopic
) -> None:
    topic = make_topic(partitions=2)

    with (
        Producer(bootstrap_servers=kafka.bootstrap_servers, max_block_ms=3_000) as producer,
        pytest.raises(TopicUnavailableError, match="partition 2 does not exist; the topic has 2"),
    ):
        producer.send(topic, b"v", partition=2)


def test_an_invalid_topic_name_is_refused_without_a_request(kafka: KafkaCluster) -> None:
    with (
        Producer(bootstrap_servers=kafka.bootstrap_servers) as producer,
        pytest.raises(InvalidRecordError, match="'größe' is not a topic name: a name has 1 to 249 characters of a-z"),
    ):
        producer.send("größe", b"v")


@pytest.mark.distance
def test_a_bad_record_fails_alone(kafka: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = make_topic()

    with Producer(bootstrap_servers=kafka.bootstrap_servers, linger_ms=1_000) as producer:
        before = producer.send(topic, b"before")
        with pytest.raises(InvalidRecordError, match="header name"):
            producer.send(topic, b"bad", headers=[("\ud800", b"")])
        with pytest.raises(InvalidRecordError, match="timestamp_ms"):
            producer.send(topic, b"bad", timestamp_ms=2**63)
        after = producer.send(topic, b"after")
        producer.flush(WAIT)

    assert (before.result().offset, after.result().offset) == (0, 1)


def test_a_record_too_large_for_the_topic_has_a_remedy_and_fails_alone(
    kafka: KafkaCluster, make_topic: MakeTopic
) -> None:
    topic = make_topic(max_message_bytes=1_000)

    with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        error = producer.send(topic, bytes(5_000)).exception(WAIT)
        after = producer.send(topic, b"small").result(WAIT)

    assert error is not None
    assert isinstance(error.__cause__, BrokerError)
    assert error.__cause__.code is ErrorCode.MESSAGE_TOO_LARGE
    assert "max.message.bytes" in str(error)
    assert after.offset == 0


@pytest.mark.distance
@pytest.mark.rule("batch.record-errors")
def test_a_record_invalid_for_the_topic_fails_with_the_broker_message(
    kafka: KafkaCluster, make_topic: MakeTopic
) -> None:
    """The broker refuses the whole batch, and says which of its records is to blame."""
    topic = make_topic(cleanup_policy="compact")

    with Producer(bootstrap_servers=kafka.bootstrap_servers, linger_ms=200) as producer:
        sound = producer.send(topic, b"v", b"key")
        keyless = producer.send(topic, b"v", partition=0)
        beside, blamed = sound.exception(WAIT), keyless.exception(WAIT)
        after = producer.send(topic, b"v", b"key").result(WAIT)

    assert isinstance(beside, DeliveryError)
    assert isinstance(blamed, DeliveryError)
    assert "Compacted topic cannot accept message without key" in str(blamed)
    assert isinstance(blamed.__cause__, BrokerError)
    assert blamed.__cause__.code is ErrorCode.INVALID_RECORD
    assert after.offset == 0
