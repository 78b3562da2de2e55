"""Serializers of confluent-kafka as a producer's serializers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient, header_schema_id_serializer
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import (
    MessageField,
    SerializationContext,
    SerializationError,
    Serializer,
    StringSerializer,
)

from ottla.aio import AsyncProducer
from ottla.errors import SerializationError as RefusedError
from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.mock_producer import MockProducer
from ottla_testkit.pytest_plugin import MakeTopic
from readback import read_back

SCHEMA = '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}'


class Seen(Serializer):
    """Records how it was called."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, str, str, Any]] = []

    def __call__(self, obj: Any, ctx: SerializationContext | None = None) -> bytes | None:
        assert ctx is not None
        self.calls.append((obj, ctx.topic, ctx.field, list(ctx.headers or ())))
        return None if obj is None else str(obj).encode()


class Wrong(Serializer):
    def __call__(self, obj: Any, ctx: SerializationContext | None = None) -> Any:
        return "text"


class Refuses(Serializer):
    def __call__(self, obj: Any, ctx: SerializationContext | None = None) -> bytes | None:
        raise SerializationError("no such form")


def registry() -> Any:
    return SchemaRegistryClient.new_client({"url": "mock://orders"})


def test_a_serializer_of_confluent_gets_topic_field_and_headers() -> None:
    seen = Seen()
    with MockProducer(key_serializer=seen, value_serializer=seen) as producer:
        producer.send("orders", 7, key="k", headers=[("trace", b"1")])
    assert seen.calls == [
        (7, "orders", MessageField.VALUE, [("trace", b"1")]),
        ("k", "orders", MessageField.KEY, [("trace", b"1")]),
    ]


def test_text_by_the_serializer_of_confluent() -> None:
    with MockProducer(value_serializer=StringSerializer("utf_16")) as producer:
        producer.send("orders", "äpfel")
        [record] = producer.history
    assert record.value == "äpfel".encode("utf_16")


def test_avro_by_confluent_is_read_by_its_deserializer() -> None:
    client = registry()
    with MockProducer(value_serializer=AvroSerializer(client, SCHEMA)) as producer:
        producer.send("orders", {"id": 7})
        producer.send("orders", None, key=b"gone")
        [record, tombstone] = producer.history
    read = AvroDeserializer(client, SCHEMA)(record.value, SerializationContext("orders", MessageField.VALUE))
    assert (read, tombstone.value) == ({"id": 7}, None)


def test_the_id_of_a_schema_in_a_header_is_sent() -> None:
    with MockProducer(
        value_serializer=AvroSerializer(registry(), SCHEMA, conf={"schema.id.serializer": header_schema_id_serializer})
    ) as producer:
        producer.send("orders", {"id": 7})
        [record] = producer.history
    [(name, value)] = record.headers
    assert value is not None
    assert (name, value[:1], record.value) == ("__value_schema_id", b"\1", b"\x0e")


@pytest.mark.kafka
def test_avro_by_confluent_goes_through_a_broker(kafka: KafkaCluster, make_topic: MakeTopic) -> None:
    topic, client = make_topic(partitions=1), registry()

    async def main() -> None:
        serializer = AvroSerializer(client, SCHEMA)
        async with AsyncProducer(bootstrap_servers=kafka.bootstrap_servers, value_serializer=serializer) as producer:
            await producer.send(topic, {"id": 7})

    asyncio.run(main())
    [record] = read_back(kafka.bootstrap_servers, topic)
    context = SerializationContext(topic, MessageField.VALUE)
    assert AvroDeserializer(client, SCHEMA)(record.value, context) == {"id": 7}


def test_a_result_that_is_no_bytes_is_refused() -> None:
    with (
        MockProducer(value_serializer=Wrong()) as producer,
        pytest.raises(RefusedError, match="returned str, not bytes"),
    ):
        producer.send("orders", 1)


def test_a_refusal_of_confluent_fails_its_record_alone() -> None:
    with MockProducer(key_serializer=Refuses(), value_serializer=StringSerializer()) as producer:
        with pytest.raises(RefusedError, match="no such form"):
            producer.send("orders", "v", key="k")
        producer.close()
    assert list(producer.history) == []
