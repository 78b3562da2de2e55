"""What a registry decides that compares schemas itself: each refusal fails its record alone, and names the reason."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from apicurio import apicurio
from confluent_kafka.schema_registry import Schema as ConfluentSchema
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

from ottla import Producer
from ottla.errors import SerializationError
from ottla_serializer_schema_registry import (
    IncompatibleSchemaError,
    InvalidSchemaError,
    SchemaNotFoundError,
)
from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.pytest_plugin import MakeTopic
from readback import read_back

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.thorough("a registry in Java; test_schemas_with_a_registry.py has the refusals of another one"),
]


@pytest.fixture(scope="module")
def registry() -> Iterator[str]:
    with apicurio() as address:
        yield address


@pytest.fixture(scope="module")
def confluent(registry: str) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": registry}) as client:
        client.set_compatibility(level="BACKWARD")
        yield client


def record(*fields: Mapping[str, Any]) -> str:
    """A schema of a flight."""
    return json.dumps({"type": "record", "name": "Flight", "fields": list(fields)})


NUMBER = {"name": "number", "type": "int"}
GATE = {"name": "gate", "type": "string"}
SEATS = {"name": "seats", "type": "int", "default": 0}


def sent(kafka: KafkaCluster, registry: str, topic: str, data: Any, **settings: Any) -> None:
    """Send one record with a producer of its own."""
    servers = kafka.bootstrap_servers
    with Producer(
        bootstrap_servers=servers, value_serializer="avro", schema_registry_url=registry, **settings
    ) as producer:
        producer.send(topic, data)


def values(kafka: KafkaCluster, confluent: SchemaRegistryClient, topic: str) -> list[Any]:
    """The values in the topic, as Confluent's deserializer reads them."""
    read, context = AvroDeserializer(confluent), SerializationContext(topic, MessageField.VALUE)
    return [read(each.value, context) for each in read_back(kafka.bootstrap_servers, topic)]


def test_a_schema_grows_and_an_incompatible_one_fails_its_record_alone(
    registry: str, confluent: SchemaRegistryClient, kafka: KafkaCluster, make_topic: MakeTopic
) -> None:
    topic = make_topic(partitions=1)
    sent(kafka, registry, topic, {"number": 1}, value_schema=record(NUMBER))
    sent(kafka, registry, topic, {"number": 2, "seats": 9}, value_schema=record(NUMBER, SEATS))
    other = make_topic(partitions=1)
    with Producer(
        bootstrap_servers=kafka.bootstrap_servers,
        value_serializer="avro",
        schema_registry_url=registry,
        value_schema=record(NUMBER, GATE),
    ) as producer:
        with pytest.raises(SerializationError, match=f"{topic}.*gate") as refused:
            producer.send(topic, {"number": 3, "gate": "C"})
        producer.send(other, {"number": 4, "gate": "C"})
    assert isinstance(refused.value.__cause__, IncompatibleSchemaError)
    assert values(kafka, confluent, topic) == [{"number": 1}, {"number": 2, "seats": 9}]
    assert values(kafka, confluent, other) == [{"number": 4, "gate": "C"}]
    assert confluent.get_versions(f"{topic}-value") == [1, 2]


def test_without_registration_only_known_schemas_are_sent(
    registry: str, confluent: SchemaRegistryClient, kafka: KafkaCluster, make_topic: MakeTopic
) -> None:
    topic = make_topic(partitions=1)
    with pytest.raises(SerializationError, match="404") as refused:
        sent(kafka, registry, topic, {"number": 1}, value_schema=record(NUMBER), auto_register_schemas=False)
    assert isinstance(refused.value.__cause__, SchemaNotFoundError)
    confluent.register_schema(f"{topic}-value", ConfluentSchema(record(NUMBER), "AVRO"))
    sent(kafka, registry, topic, {"number": 1}, value_schema=record(NUMBER), auto_register_schemas=False)
    assert values(kafka, confluent, topic) == [{"number": 1}]


def test_the_newest_version_is_that_of_the_registry(
    registry: str, confluent: SchemaRegistryClient, kafka: KafkaCluster, make_topic: MakeTopic
) -> None:
    topic = make_topic(partitions=1)
    latest = {"use_latest_version": True, "auto_register_schemas": False}
    with pytest.raises(SerializationError, match=f"{topic}-value") as refused:
        sent(kafka, registry, topic, {"number": 1}, **latest)
    assert isinstance(refused.value.__cause__, SchemaNotFoundError)
    for schema in (record(NUMBER), record(NUMBER, SEATS)):
        confluent.register_schema(f"{topic}-value", ConfluentSchema(schema, "AVRO"))
    sent(kafka, registry, topic, {"number": 1}, **latest)
    confluent.delete_version(f"{topic}-value", 2)
    sent(kafka, registry, topic, {"number": 2}, **latest)
    assert values(kafka, confluent, topic) == [{"number": 1, "seats": 0}, {"number": 2}]


def test_a_schema_that_the_registry_finds_invalid_is_refused(
    registry: str, kafka: KafkaCluster, make_topic: MakeTopic
) -> None:
    topic = make_topic(partitions=1)
    with (
        Producer(
            bootstrap_servers=kafka.bootstrap_servers,
            value_serializer="json-schema",
            schema_registry_url=registry,
            value_schema={"type": "number"},  # without "$schema", which this registry needs
        ) as producer,
        pytest.raises(SerializationError, match="42201") as refused,
    ):
        producer.send(topic, 7)
    assert isinstance(refused.value.__cause__, InvalidSchemaError)
