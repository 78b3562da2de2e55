"""Configurations and records that are refused before anything is sent, each with a remedy."""

from __future__ import annotations

from typing import Any

import pytest

from ottla import (
    ConfigError,
    InvalidRecordError,
    PluginNotFoundError,
    Producer,
    RecordTooLargeError,
    SerializationError,
)
from ottla.plugins.registry.installed import announced
from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.pytest_plugin import MakeTopic
from readback import read_back

WAIT = 60.0
UNREACHABLE = "127.0.0.1:9"


def test_an_unknown_option_is_refused_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"'lingr\.ms' is not a known key; did you mean 'linger\.ms'"):
        Producer({"bootstrap.servers": UNREACHABLE, "lingr.ms": 3})


def test_all_problems_of_a_configuration_are_reported_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        Producer(
            {"lingr.ms": 3},
            bootstrap_servers=UNREACHABLE,
            acks="two",
            batch_size=-1,
            enable_idempotence="t",
            security_protocol="SASL_SSL",
            sasl_mechanism="mine",
        )

    reported = str(caught.value)
    assert len(caught.value.problems) == 5
    assert all(key in reported for key in ("lingr.ms", "acks", "batch.size", "enable.idempotence", "mine"))


def test_a_protocol_without_its_plugin_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    others = [entry for entry in announced() if entry.name != "ssl"]
    monkeypatch.setattr("ottla.plugins.registry.lookup.announced", lambda: others)

    with pytest.raises(PluginNotFoundError, match=r"pip install ottla-transport-ssl .*installed: .*plaintext"):
        Producer(bootstrap_servers=UNREACHABLE, security_protocol="SSL")


@pytest.mark.kafka
def test_a_record_refused_for_its_type_leaves_the_producer_usable(kafka: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = make_topic()

    with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        with pytest.raises(InvalidRecordError, match=r"not str: encode it first, or set value\.serializer"):
            producer.send(topic, "text")
        producer.send(topic, b"bytes")
        report = producer.flush(WAIT)

    assert (report.acknowledged, report.failed) == (1, 0)
    assert [record.value for record in read_back(kafka.bootstrap_servers, topic)] == [b"bytes"]


@pytest.mark.kafka
def test_a_record_above_the_request_size_leaves_the_producer_usable(kafka: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = make_topic()

    with Producer(bootstrap_servers=kafka.bootstrap_servers, max_request_size=10_000) as producer:
        with pytest.raises(RecordTooLargeError, match=r"max\.request\.size=10000; nothing was queued"):
            producer.send(topic, bytes(10_000))
        producer.send(topic, b"small")
        report = producer.flush(WAIT)

    assert (report.acknowledged, report.failed) == (1, 0)
    assert [record.value for record in read_back(kafka.bootstrap_servers, topic)] == [b"small"]


@pytest.mark.kafka
@pytest.mark.parametrize(
    ("serializer", "given", "expected"),
    [
        ("string", "grüße", "grüße".encode()),
        ("org.apache.kafka.common.serialization.StringSerializer", "java's name", b"java's name"),
        (lambda number: b"%d" % number, 42, b"42"),
        ("string", None, None),
    ],
)
def test_serializers_make_bytes_of_keys_and_values(
    kafka: KafkaCluster, make_topic: MakeTopic, serializer: Any, given: Any, expected: bytes | None
) -> None:
    topic = make_topic()

    with Producer(
        bootstrap_servers=kafka.bootstrap_servers, key_serializer=serializer, value_serializer=serializer
    ) as producer:
        producer.send(topic, given, given).result(WAIT)

    [record] = read_back(kafka.bootstrap_servers, topic)
    assert (record.key, record.value) == (expected, expected)


@pytest.mark.kafka
def test_a_value_that_its_serializer_refuses_leaves_the_producer_usable(
    kafka: KafkaCluster, make_topic: MakeTopic
) -> None:
    topic = make_topic()

    with Producer(
        bootstrap_servers=kafka.bootstrap_servers, value_serializer=lambda number: b"%d" % number
    ) as producer:
        with pytest.raises(SerializationError, match="the value for topic") as caught:
            producer.send(topic, "no number")
        producer.send(topic, 1)
        report = producer.flush(WAIT)

    assert isinstance(caught.value.__cause__, TypeError)
    assert (report.acknowledged, report.failed) == (1, 0)


@pytest.mark.kafka
@pytest.mark.parametrize("serializer", ["bytes", "string"])
def test_one_shot_header_iterators_arrive_with_any_serializer(
    kafka: KafkaCluster, make_topic: MakeTopic, serializer: str
) -> None:
    topic = make_topic()
    value: Any = "v" if serializer == "string" else b"v"

    with Producer(bootstrap_servers=kafka.bootstrap_servers, value_serializer=serializer) as producer:
        producer.send(topic, value, headers=iter([("trace", b"1")])).result(WAIT)

    [record] = read_back(kafka.bootstrap_servers, topic)
    assert record.headers == (("trace", b"1"),)
