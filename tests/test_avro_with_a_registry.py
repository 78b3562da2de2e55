"""What Ottla writes is what confluent-kafka writes, and reads; with a registry that is not ours."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from long_forms import LONG
from real_registry import real_registry

from ottla import Producer
from ottla.aio import AsyncProducer
from ottla.errors import SerializationError
from ottla_serializer_schema_registry import SchemaNotFoundError
from ottla_serializer_schema_registry import avro as ours
from ottla_serializer_schema_registry.exchanges import Exchanges
from ottla_serializer_schema_registry.registry import SchemaRegistry
from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.pytest_plugin import MakeTopic
from readback import read_back

SCHEMA = """
{"type": "record", "name": "Flight", "namespace": "air", "fields": [
  {"name": "number", "type": "int"}, {"name": "carrier", "type": ["null", "string"], "default": null},
  {"name": "stops", "type": {"type": "array", "items": "string"}}]}
"""
FLIGHT = {"number": 7, "carrier": "UA", "stops": ["EWR", "Zürich"]}

Case = tuple[Any, Any]
"""A schema and data of it."""


@pytest.fixture(scope="module")
def registry() -> Iterator[str]:
    with real_registry() as address:
        yield address


@pytest.fixture(scope="module")
def confluent(registry: str) -> Iterator[SchemaRegistryClient]:
    """confluent-kafka's client of the same registry."""
    with SchemaRegistryClient({"url": registry}) as client:
        yield client


LEAVES: st.SearchStrategy[Case] = st.one_of(
    st.tuples(st.just("null"), st.none()),
    st.tuples(st.just("boolean"), st.booleans()),
    st.tuples(st.just("int"), st.integers(-(2**31), 2**31 - 1)),
    st.tuples(st.just("long"), st.integers(-(2**63), 2**63 - 1)),
    st.tuples(st.just("double"), st.floats(allow_nan=False)),
    st.tuples(st.just("float"), st.floats(width=32, allow_nan=False)),
    st.tuples(st.just("string"), st.text()),
    st.tuples(st.just("bytes"), st.binary()),
    st.tuples(st.just({"type": "long", "logicalType": "timestamp-micros"}), st.datetimes(timezones=st.just(None))),
)


def nested(inner: st.SearchStrategy[Case]) -> st.SearchStrategy[Case]:
    """Arrays, maps of one entry (the order of more is free), unions with null, and records of *inner*."""
    return st.one_of(
        st.tuples(inner, st.integers(0, 3)).map(
            lambda made: ({"type": "array", "items": made[0][0]}, [made[0][1]] * made[1])
        ),
        st.tuples(inner, st.text()).map(lambda made: ({"type": "map", "values": made[0][0]}, {made[1]: made[0][1]})),
        st.tuples(inner, st.booleans())
        .filter(lambda made: made[0][0] != "null" and not isinstance(made[0][0], list))
        .map(lambda made: (["null", made[0][0]], made[0][1] if made[1] else None)),
        st.lists(inner, max_size=4)
        .map(
            lambda made: (
                [{"name": f"f{number}", "type": schema} for number, (schema, _data) in enumerate(made)],
                {f"f{number}": data for number, (_schema, data) in enumerate(made)},
            )
        )
        .map(lambda made: ({"type": "record", "name": "R", "fields": made[0]}, made[1])),
    )


def renamed(schema: Any, count: Iterator[int]) -> Any:
    """The schema, with another name for each of its records."""
    if isinstance(schema, list):
        return [renamed(each, count) for each in schema]
    if not isinstance(schema, dict):
        return schema
    made = {name: renamed(each, count) for name, each in schema.items()}
    return {**made, "name": f"R{next(count)}"} if schema.get("type") == "record" else made


@settings(max_examples=10_000 if LONG else 150, deadline=None, suppress_health_check=list(HealthCheck))
@given(case=st.recursive(LEAVES, nested, max_leaves=8))
def test_the_bytes_are_those_of_confluent_for_any_schema(
    registry: str, confluent: SchemaRegistryClient, case: Case
) -> None:
    schema, data = renamed(case[0], itertools.count()), case[1]
    if isinstance(schema, str):
        schema = {"type": schema}  # confluent-kafka registers this in any case
    text = json.dumps(schema)
    topic = f"t{abs(hash(text))}"
    theirs = AvroSerializer(confluent, text)(data, SerializationContext(topic, MessageField.VALUE))
    mine = ours.AvroSerializer(SchemaRegistry(Exchanges([registry])), is_key=False, text=text)
    if data is None:
        assert mine.serialize(topic, data, ()) is None
    else:
        mine.prepare(topic, data, (), timeout=30)
        assert mine.serialize(topic, data, ()) == theirs


def test_a_schema_that_is_not_registered_is_refused(registry: str) -> None:
    client = SchemaRegistry(Exchanges([registry]))
    with pytest.raises(SchemaNotFoundError, match="error code 404"):
        client.look_up("never-value", SCHEMA, timeout=30)


def test_an_id_leads_back_to_its_schema(registry: str) -> None:
    client = SchemaRegistry(Exchanges([registry]))
    made = client.register("back-value", SCHEMA, timeout=30)
    assert client.by_id(made.id, timeout=30).text.strip() == SCHEMA.strip()
    assert client.look_up("back-value", SCHEMA, timeout=30).id == client.latest("back-value", timeout=30).id == made.id


@pytest.mark.kafka
def test_confluent_reads_what_goes_through_a_broker(
    registry: str, confluent: SchemaRegistryClient, kafka: KafkaCluster, make_topic: MakeTopic
) -> None:
    topic = make_topic(partitions=1)
    with Producer(
        bootstrap_servers=kafka.bootstrap_servers,
        key_serializer="avro",
        value_serializer="avro",
        schema_registry_url=registry,
        key_schema='"long"',
        value_schema=SCHEMA,
    ) as producer:
        producer.send(topic, FLIGHT, key=1)
        with pytest.raises(SerializationError, match="does not fit its Avro schema"):
            producer.send(topic, {**FLIGHT, "number": 2**40}, key=2)
        producer.send(topic, None, key=3)
    flight, tombstone = read_back(kafka.bootstrap_servers, topic)
    read = AvroDeserializer(confluent)
    keys = [read(each.key, SerializationContext(topic, MessageField.KEY)) for each in (flight, tombstone)]
    assert (keys, tombstone.value) == ([1, 3], None)
    assert read(flight.value, SerializationContext(topic, MessageField.VALUE)) == FLIGHT


@pytest.mark.kafka
def test_a_program_with_an_event_loop_sends_avro(
    registry: str, confluent: SchemaRegistryClient, kafka: KafkaCluster, make_topic: MakeTopic
) -> None:
    topic = make_topic(partitions=1)

    async def main() -> None:
        async with AsyncProducer(
            bootstrap_servers=kafka.bootstrap_servers,
            value_serializer="avro",
            schema_registry_url=registry,
            value_schema=SCHEMA,
        ) as producer:
            await producer.send(topic, FLIGHT)

    asyncio.run(main())
    [record] = read_back(kafka.bootstrap_servers, topic)
    read = AvroDeserializer(confluent)
    assert read(record.value, SerializationContext(topic, MessageField.VALUE)) == FLIGHT
