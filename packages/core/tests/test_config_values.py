"""The notations of each value, and the value that is read."""

from __future__ import annotations

import operator
from typing import Any

import pytest

from ottla.config import ConfigDraft, ProducerConfig, SecurityProtocol
from ottla.config.plugin_choice import GivenPlugin
from ottla.errors import ConfigError

SERVERS = {"bootstrap.servers": "kafka:9092"}


def config(**keywords: object) -> ProducerConfig:
    return ConfigDraft.read(SERVERS, keywords).finish()


def refusal(settings: dict[str, object]) -> str:
    """The one problem of these settings."""
    with pytest.raises(ConfigError) as caught:
        ConfigDraft.read({**SERVERS, **settings}).finish()
    [problem] = caught.value.problems
    return problem


DEFAULTS = [
    ("connection.bootstrap_servers", (("kafka", 9092),)),
    ("connection.client_id", ""),
    ("connection.security_protocol", SecurityProtocol.PLAINTEXT),
    ("connection.connection_via", ()),
    ("connection.connections_max_idle", 540.0),
    ("connection.receive_buffer_bytes", 32768),
    ("connection.reconnect_backoff", 0.05),
    ("connection.reconnect_backoff_max", 1.0),
    ("connection.connection_setup_timeout", 10.0),
    ("connection.connection_setup_timeout_max", 30.0),
    ("connection.request_timeout", 30.0),
    ("metadata.max_age", 300.0),
    ("metadata.max_idle", 300.0),
    ("batching.batch_size", 16384),
    ("batching.linger", 0.005),
    ("batching.buffer_memory", 33554432),
    ("batching.max_request_size", 1048576),
    ("batching.max_block", 60.0),
    ("batching.compression_type", "none"),
    ("delivery.acks", -1),
    ("delivery.retries", 2147483647),
    ("delivery.delivery_timeout", 120.0),
    ("delivery.retry_backoff", 0.1),
    ("delivery.retry_backoff_max", 1.0),
    ("delivery.max_in_flight", 5),
    ("partitioning.partitioner", "murmur2"),
    ("partitioning.ignore_keys", False),
    ("partitioning.adaptive", True),
    ("partitioning.availability_timeout", 0.0),
    ("serialization.key_serializer", "bytes"),
    ("serialization.value_serializer", "bytes"),
]


@pytest.mark.parametrize(("field", "expected"), DEFAULTS)
def test_defaults_are_those_of_the_java_producer_in_seconds(field: str, expected: object) -> None:
    assert expected == operator.attrgetter(field)(config())


def test_sections_constructed_directly_have_the_same_defaults() -> None:
    made, read = ProducerConfig(), config()

    assert (made.batching, made.delivery, made.metadata) == (read.batching, read.delivery, read.metadata)


WRITTEN: list[tuple[str, Any, str, Any]] = [
    ("linger.ms", 7, "batching.linger", 0.007),
    ("linger.ms", " 7 ", "batching.linger", 0.007),
    ("linger.ms", "0", "batching.linger", 0.0),
    ("max.block.ms", 9223372036854775807, "batching.max_block", 1e9),
    ("connections.max.idle.ms", -1, "connection.connections_max_idle", 1e9),
    ("send.buffer.bytes", "65536", "connection.send_buffer_bytes", 65536),
    ("acks", "all", "delivery.acks", -1),
    ("acks", "ALL", "delivery.acks", -1),
    ("acks", -1, "delivery.acks", -1),
    ("acks", 0, "delivery.acks", 0),
    ("acks", "1", "delivery.acks", 1),
    ("retries", 0, "delivery.retries", 0),
    ("partitioner.ignore.keys", True, "partitioning.ignore_keys", True),
    ("partitioner.ignore.keys", "TRUE", "partitioning.ignore_keys", True),
    ("partitioner.adaptive.partitioning.enable", "false", "partitioning.adaptive", False),
    ("security.protocol", "sasl_ssl", "connection.security_protocol", SecurityProtocol.SASL_SSL),
    ("security.protocol", SecurityProtocol.SSL, "connection.security_protocol", SecurityProtocol.SSL),
    ("connection.via", "Socks5", "connection.connection_via", ("socks5",)),
    ("connection.via", "Socks5, ssl", "connection.connection_via", ("socks5", "ssl")),
    ("connection.via", ["ssl", "http-connect"], "connection.connection_via", ("ssl", "http-connect")),
    ("compression.type", "ZSTD", "batching.compression_type", "zstd"),
    ("compression.type", "brotli", "batching.compression_type", "brotli"),
    ("client.id", " me ", "connection.client_id", "me"),
    ("client.id", "caf\u00e9 \u5e97", "connection.client_id", "caf\u00e9 \u5e97"),
    ("client.id", "a" * 32_767, "connection.client_id", "a" * 32_767),
    ("linger.ms", None, "batching.linger", 0.005),
]


def test_the_send_buffer_defaults_to_that_of_the_system() -> None:
    assert config().connection.send_buffer_bytes == -1


@pytest.mark.parametrize(("key", "written", "field", "expected"), WRITTEN)
def test_a_value_is_accepted_as_python_type_or_java_string(
    key: str, written: object, field: str, expected: object
) -> None:
    read = ConfigDraft.read({**SERVERS, key: written}).finish()

    assert expected == operator.attrgetter(field)(read)


@pytest.mark.parametrize(
    ("key", "written", "reason"),
    [
        ("linger.ms", "soon", "'soon' is not a whole number of at least 0"),
        ("linger.ms", -1, "-1 is not a whole number of at least 0"),
        ("linger.ms", 0.5, "0.5 is not a whole number"),
        ("linger.ms", True, "True is not a whole number"),
        ("linger.ms", "1_000", "'1_000' is not a whole number"),
        ("batch.size", 2**31, "2147483648 is too large; at most 2147483647"),
        ("metadata.max.idle.ms", 4999, "at least 5000"),
        ("max.in.flight.requests.per.connection", 0, "at least 1"),
        ("acks", 2, "2 is not one of all, -1, 0, 1"),
        ("partitioner.ignore.keys", "yes", "'yes' is not one of true, false"),
        ("partitioner.ignore.keys", 1, "1 is not one of true, false"),
        ("security.protocol", "TLS", "'TLS' is not one of plaintext, ssl, sasl_plaintext, sasl_ssl"),
        ("client.id", 7, "7 is not a string"),
        ("client.id", "a" * 32_768, "has 32768 bytes in UTF-8; at most 32767 are allowed"),
        ("client.id", "\u00e9" * 16_384, "has 32768 bytes in UTF-8; at most 32767 are allowed"),
        (
            "client.id",
            "x\nERROR root: lost",
            "has line breaks or other characters that would change how log lines look",
        ),
        ("client.id", "x\x1b[31m", "has line breaks or other characters"),
        ("client.id", "x\u202e", "has line breaks or other characters"),
        ("client.id", "job-\ud800", "'job-\\ud800' cannot be sent: UTF-8 has no bytes for '\\ud800'"),
        ("transactional.id", "a" * 32_768, "has 32768 bytes in UTF-8; at most 32767 are allowed"),
        ("transactional.id", "", "'' is not a string of at least 1 character"),
        ("transactional.id", " ", "' ' is not a string of at least 1 character"),
        ("compression.type", " ", "' ' is not the name of a plugin"),
        ("value.serializer", 7, "7 is not the name of a serializer plugin, a function"),
    ],
)
def test_a_wrong_value_is_refused_with_key_value_and_allowed_values(key: str, written: object, reason: str) -> None:
    problem = refusal({key: written})

    assert problem.startswith(f"{key}: ")
    assert reason in problem


def test_a_long_value_is_cut_in_errors() -> None:
    assert len(refusal({"linger.ms": "x" * 10_000})) < 200


@pytest.mark.parametrize(
    ("protocol", "transport", "sasl"),
    [
        ("PLAINTEXT", "plaintext", False),
        ("SSL", "ssl", False),
        ("SASL_PLAINTEXT", "plaintext", True),
        ("SASL_SSL", "ssl", True),
    ],
)
def test_the_security_protocol_selects_a_transport_and_authentication(
    protocol: str, transport: str, sasl: bool
) -> None:
    picked = config(security_protocol=protocol).connection.security_protocol

    assert (transport, sasl) == (picked.transport, picked.sasl)


@pytest.mark.parametrize(
    ("name", "plugin"),
    [
        ("org.apache.kafka.common.serialization.ByteArraySerializer", "bytes"),
        ("org.apache.kafka.common.serialization.StringSerializer", "string"),
        ("StringSerializer", "string"),
        ("string", "string"),
        ("Avro", "avro"),
    ],
)
def test_java_serializers_have_counterparts(name: str, plugin: str) -> None:
    assert plugin == config(value_serializer=name).serialization.value_serializer


def test_a_function_may_be_a_serializer() -> None:
    assert config(key_serializer=str.encode).serialization.key_serializer == GivenPlugin(str.encode)


@pytest.mark.parametrize("name", ["org.apache.kafka.clients.producer.RoundRobinPartitioner", "RoundRobin"])
def test_the_java_round_robin_partitioner_has_a_counterpart(name: str) -> None:
    assert config(partitioner_class=name).partitioning.partitioner == "round_robin"


@pytest.mark.parametrize(
    ("key", "name", "remedy"),
    [
        ("key.serializer", "org.apache.kafka.common.serialization.LongSerializer", "ottla.serializers"),
        ("key.serializer", "com.acme.StringSerializer", "is the name of a class, and Ottla loads none by its name"),
        ("partitioner.class", "com.acme.Mine$Inner", "ottla.partitioners"),
        (
            "value.serializer",
            "io.confluent.kafka.serializers.KafkaAvroSerializer",
            "is a Java class; write 'avro', of ottla-serializer-schema-registry",
        ),
        ("key.serializer", "KafkaProtobufSerializer", "write 'protobuf', of ottla-serializer-schema-registry"),
        ("partitioner.class", "shop.plugins.ByCustomer", "is the name of a class, and Ottla loads none by its name"),
        (
            "partitioner.class",
            "com.acme.RoundRobinPartitioner",
            "is the name of a class, and Ottla loads none by its name",
        ),
        ("partitioner.class", 5, "5 is not the name of a partitioner plugin, a partitioner, its class, or a function"),
        (
            "partitioner.class",
            "org.apache.kafka.clients.producer.internals.DefaultPartitioner",
            "removed in Kafka 4.0; leave partitioner.class out",
        ),
        (
            "partitioner.class",
            "org.apache.kafka.clients.producer.UniformStickyPartitioner",
            "set partitioner.ignore.keys=true",
        ),
    ],
)
def test_other_java_classes_are_refused_with_a_remedy(key: str, name: object, remedy: str) -> None:
    assert remedy in refusal({key: name})


@pytest.mark.parametrize(
    ("key", "written", "remedy"),
    [
        (
            "interceptor.classes",
            "com.acme.Audit",
            "the name of a class, and Ottla loads none by its name; write the names of plugins",
        ),
        ("interceptor.classes", "AuditInterceptor", "is the name of a class, and Ottla loads none by its name"),
        ("interceptor.classes", [5], "is not a plugin's name; write the names of plugins of the group"),
        ("interceptor.classes", "audit,mask, Audit", "'audit' is named twice"),
        ("metric.reporters", ["org.apache.kafka.common.metrics.JmxReporter"], "there is no JMX without Java"),
        ("metric.reporters", "JmxReporter", "there is no JMX without Java; leave it out"),
        ("metric.reporters", "com.acme.GraphiteReporter", "write the names of plugins of the group ottla.reporters"),
        ("auto.include.jmx.reporter", "true", "there is no JMX without Java; leave it out"),
        ("metrics.num.samples", 0, "0 is not a whole number of at least 1"),
        ("metrics.sample.window.ms", -1, "-1 is not"),
    ],
)
def test_unusable_interceptors_and_reporters_are_refused_with_a_remedy(key: str, written: object, remedy: str) -> None:
    problem = refusal({key: written})

    assert problem.startswith(f"{key}: ")
    assert remedy in problem


@pytest.mark.parametrize(
    ("key", "written"),
    [("interceptor.classes", ""), ("metric.reporters", []), ("auto.include.jmx.reporter", "false")],
)
def test_interceptors_and_reporters_may_be_switched_off(key: str, written: object) -> None:
    observation = ConfigDraft.read({**SERVERS, key: written}).finish().observation

    assert (observation.interceptors, observation.reporters) == ((), ())


def test_interceptors_and_reporters_keep_their_order_in_any_case() -> None:
    observation = ConfigDraft.read({**SERVERS, "interceptor.classes": "Mask, audit"}).config.observation

    assert observation.interceptors == ("mask", "audit")


def test_an_invalid_value_of_an_unsupported_key_is_reported_as_such() -> None:
    assert refusal({"enable.idempotence": "maybe"}) == "enable.idempotence: 'maybe' is not one of true, false"
