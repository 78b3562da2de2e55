"""Records of every kind on a real broker, read back by a client that is not ours."""

from __future__ import annotations

import threading
import time

import pytest
from confluent_kafka import Producer as Librdkafka

from ottla import (
    BrokerError,
    DeliveryFailed,
    ErrorCode,
    OttlaError,
    Producer,
    RecordMetadata,
    TopicUnavailable,
    UndeliveredError,
)
from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.pytest_plugin import MakeTopic
from readback import read_back

pytestmark = pytest.mark.kafka
WAIT = 60.0


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec_is_read_by_others_and_named_by_the_log(
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


@pytest.mark.parametrize(("acks", "offsets"), [("all", [0, 1, 2]), (1, [0, 1, 2]), (0, [-1, -1, -1])])
def test_acks_decide_what_a_delivery_knows(
    kafka: KafkaCluster, make_topic: MakeTopic, acks: object, offsets: list[int]
) -> None:
    topic = make_topic()

    with Producer(bootstrap_servers=kafka.bootstrap_servers, acks=acks) as producer:
        deliveries = [producer.send(topic, b"%d" % n) for n in range(3)]
        assert [delivery.result(WAIT).offset for delivery in deliveries] == offsets

    assert [record.value for record in read_back(kafka.bootstrap_servers, topic)] == [b"0", b"1", b"2"]


@pytest.mark.rule("producer.record.headers")
def test_nulls_empties_and_repeated_headers_stay_what_they_are(kafka: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = make_topic()

    with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        tombstone = producer.send(topic, None, b"key").result(WAIT)
        producer.send(topic, b"", b"")
        producer.send(topic, b"v", headers=[("a", b"1"), ("a", b"2"), ("ü", None), ("a", b"")])

    assert (tombstone.serialized_key_size, tombstone.serialized_value_size) == (3, -1)
    null, empty, headed = read_back(kafka.bootstrap_servers, topic)
    assert (null.key, null.value) == (b"key", None)
    assert (empty.key, empty.value) == (b"", b"")
    assert headed.headers == (("a", b"1"), ("a", b"2"), ("ü", None), ("a", b""))


def test_a_record_of_a_megabyte_arrives(kafka: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = make_topic()
    value = bytes(range(250)) * 4_000

    with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        producer.send(topic, value).result(WAIT)

    assert [record.value for record in read_back(kafka.bootstrap_servers, topic)] == [value]


@pytest.mark.rule("partitioner.keyed")
def test_keys_go_where_librdkafkas_java_compatible_partitioner_puts_them(
    kafka: KafkaCluster, make_topic: MakeTopic
) -> None:
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
def test_an_explicit_partition_wins_over_the_key(kafka: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=3)

    with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        placed = [producer.send(topic, b"v", b"key", partition=p).result(WAIT).partition for p in (2, 0, 1)]

    assert placed == [2, 0, 1]


@pytest.mark.rule("producer.record.timestamp")
def test_the_brokers_time_is_told_where_the_topic_wants_it(kafka: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = make_topic(message_timestamp_type="LogAppendTime")
    before = int(time.time() * 1000) - 1_000

    with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        metadata = producer.send(topic, b"v", timestamp_ms=1).result(WAIT)

    assert metadata.timestamp_ms >= before


def test_an_unknown_topic_is_refused_with_the_reason(kafka: KafkaCluster) -> None:
    with (
        Producer(bootstrap_servers=kafka.bootstrap_servers, max_block_ms=1_000) as producer,
        pytest.raises(TopicUnavailable, match=r"'no-such-topic' .* max\.block\.ms .*UNKNOWN_TOPIC_OR_PARTITION"),
    ):
        producer.send("no-such-topic", b"v")


def test_a_partition_that_does_not_exist_is_refused_with_how_many_do(
    kafka: KafkaCluster, make_topic: MakeTopic
) -> None:
    topic = make_topic(partitions=2)

    with (
        Producer(bootstrap_servers=kafka.bootstrap_servers, max_block_ms=500) as producer,
        pytest.raises(TopicUnavailable, match="partition 2 does not exist; the topic has 2"),
    ):
        producer.send(topic, b"v", partition=2)


def test_what_the_topic_finds_too_large_names_the_remedy_and_the_rest_goes_on(
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


@pytest.mark.rule("batch.record-errors")
def test_a_record_that_the_broker_names_has_the_brokers_words(kafka: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = make_topic(cleanup_policy="compact")

    with Producer(bootstrap_servers=kafka.bootstrap_servers, linger_ms=200) as producer:
        sound = producer.send(topic, b"v", b"key")
        keyless = producer.send(topic, b"v", partition=0)
        errors = [sound.exception(WAIT), keyless.exception(WAIT)]

    assert "key" in str(errors[1])
    assert all(isinstance(error, DeliveryFailed) for error in errors)


@pytest.mark.rule("producer.callback.send")
def test_callbacks_come_in_order_and_may_send(kafka: KafkaCluster, make_topic: MakeTopic) -> None:
    topic, echo = make_topic(), make_topic()
    offsets: list[int] = []

    with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        producer.send(echo, b"known").result(WAIT)

        def answer(metadata: RecordMetadata | None, error: OttlaError | None) -> None:
            assert error is None
            assert metadata is not None
            offsets.append(metadata.offset)
            producer.send(echo, b"%d" % metadata.offset)

        for _ in range(500):
            producer.send(topic, b"v", on_delivery=answer)
        producer.flush(WAIT)

    assert offsets == list(range(500))
    assert len(read_back(kafka.bootstrap_servers, echo)) == 501


@pytest.mark.rule("producer.report.unseen", "producer.report.looked-at")
def test_a_failure_that_nobody_looked_at_is_raised_and_one_looked_at_is_not(
    kafka: KafkaCluster, make_topic: MakeTopic
) -> None:
    topic = make_topic(max_message_bytes=1_000)

    with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        producer.send(topic, bytes(5_000))
        with pytest.raises(
            UndeliveredError, match=r"1 record\(s\) failed and nobody looked: .*MESSAGE_TOO_LARGE"
        ) as raised:
            producer.flush(WAIT)
        assert raised.value.report.topics[topic].failed == 1

        looked_at = producer.send(topic, bytes(5_000))
        assert looked_at.exception(WAIT) is not None
        assert producer.flush(WAIT).failed == 1


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
