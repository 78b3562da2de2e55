"""What Ottla writes is what confluent-kafka writes, and reads; with a registry that is not ours."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from apicurio import apicurio
from confluent_kafka.schema_registry import (
    Schema as ConfluentSchema,
)
from confluent_kafka.schema_registry import (
    SchemaReference,
    SchemaRegistryClient,
    dual_schema_id_deserializer,
)
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from long_forms import LONG
from own_registry import own_registry
from protobuf_messages import message_classes
from schemas_by_id import schema_by_id

from ottla import Producer
from ottla.aio import AsyncProducer
from ottla.errors import SerializationError
from ottla.interfaces import Header
from ottla_serializer_schema_registry import RegistryAnswerError, SchemaNotFoundError
from ottla_serializer_schema_registry.avro.serializer import avro_serializer
from ottla_serializer_schema_registry.json_schema.serializer import json_serializer
from ottla_serializer_schema_registry.protobuf.serializer import protobuf_serializer
from ottla_serializer_schema_registry.registry.client import LATEST, SchemaRegistry
from ottla_serializer_schema_registry.registry.exchanges import Exchanges
from ottla_serializer_schema_registry.registry.schemas import AVRO, Reference, Schema
from ottla_serializer_schema_registry.schema_ids import IdPlace
from ottla_serializer_schema_registry.serializer import Lookup, RegistrySerializer, SchemaOptions
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


@pytest.fixture(
    scope="module",
    params=[own_registry, pytest.param(apicurio, marks=pytest.mark.thorough("the same with a registry in Java"))],
)
def registry(request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of a registry: one that answers as Confluent's newest, and one that companies run."""
    with request.param() as address:
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


@settings(max_examples=10_000 if LONG else 60, deadline=None, suppress_health_check=list(HealthCheck))
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
    mine = avro_serializer(SchemaRegistry(Exchanges([registry])), text)
    if data is None:
        assert mine.serialize(topic, data, ()) is None
    else:
        mine.prepare(topic, data, (), timeout=30)
        assert mine.serialize(topic, data, ()) == theirs


def test_a_schema_that_is_not_registered_is_refused(registry: str) -> None:
    client = SchemaRegistry(Exchanges([registry]))
    with pytest.raises(SchemaNotFoundError, match="error code 404"):
        client.look_up("never-value", Schema(kind=AVRO, text=SCHEMA), timeout=30)


def test_an_id_leads_back_to_its_schema(registry: str) -> None:
    client, schema = SchemaRegistry(Exchanges([registry])), Schema(kind=AVRO, text=SCHEMA)
    made = client.register("back-value", schema, timeout=30)
    assert schema_by_id(client, made.id, kind=AVRO).text.strip() == SCHEMA.strip()
    newest = client.version("back-value", LATEST, kind=AVRO, timeout=30)
    assert client.look_up("back-value", schema, timeout=30).id == newest.id == made.id


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


def has_guids(confluent: SchemaRegistryClient) -> bool:
    """Whether the registry gives schemas a GUID."""
    schema = ConfluentSchema(SCHEMA, "AVRO")
    confluent.register_schema("guids-value", schema)
    return confluent.lookup_schema("guids-value", schema).guid is not None


def exchanged(registry: str) -> SchemaRegistry:
    """Our client of the registry."""
    return SchemaRegistry(Exchanges([registry]))


def serialized(made: RegistrySerializer, topic: str, data: Any, headers: list[Header] | None = None) -> bytes:
    """The bytes, after the lookup that a producer would make."""
    made.prepare(topic, data, (), timeout=30)
    encoded = made.serialize(topic, data, headers if headers is not None else [])
    assert encoded is not None
    return encoded


def test_the_guid_in_a_header_leads_confluent_to_the_schema(registry: str, confluent: SchemaRegistryClient) -> None:
    made = avro_serializer(exchanged(registry), SCHEMA, options=SchemaOptions(id_place=IdPlace.HEADER))
    headers: list[Header] = [("trace", b"1"), ("__value_schema_id", b"of the record that is passed on")]
    if not has_guids(confluent):
        with pytest.raises(RegistryAnswerError, match=r"gave no GUID .* value\.schema\.id\.serializer=prefix"):
            serialized(made, "guids", FLIGHT, headers)
        return
    data = serialized(made, "guids", FLIGHT, headers)
    assert [name for name, _value in headers] == ["trace", "__value_schema_id"]
    read = AvroDeserializer(confluent, conf={"schema.id.deserializer": dual_schema_id_deserializer})
    assert read(data, SerializationContext("guids", MessageField.VALUE, dict(headers))) == FLIGHT


def test_a_schema_with_references_is_that_of_confluent(registry: str, confluent: SchemaRegistryClient) -> None:
    airport = {"type": "record", "name": "Airport", "namespace": "air", "fields": [{"name": "code", "type": "string"}]}
    country = {"type": "record", "name": "Country", "namespace": "air", "fields": [{"name": "a", "type": "Airport"}]}
    trip = {"type": "record", "name": "Trip", "namespace": "air", "fields": [{"name": "c", "type": "Country"}]}
    confluent.register_schema("airports", ConfluentSchema(json.dumps(airport), "AVRO"))
    confluent.register_schema(
        "countries",
        ConfluentSchema(json.dumps(country), "AVRO", [SchemaReference("air.Airport", "airports", 1)]),
    )
    references = [SchemaReference("air.Country", "countries", 1)]
    theirs = AvroSerializer(confluent, ConfluentSchema(json.dumps(trip), "AVRO", references))
    mine = avro_serializer(
        exchanged(registry),
        json.dumps(trip),
        references=(Reference(name="air.Country", subject="countries", version=LATEST),),
    )
    data = {"c": {"a": {"code": "EWR"}}}
    assert serialized(mine, "trips", data) == theirs(data, SerializationContext("trips", MessageField.VALUE))
    newest = avro_serializer(exchanged(registry), options=SchemaOptions(lookup=Lookup.NEWEST))
    assert serialized(newest, "trips", data) == serialized(mine, "trips", data)


def test_json_with_a_schema_is_read_by_confluent(registry: str, confluent: SchemaRegistryClient) -> None:
    draft = "http://json-schema.org/draft-07/schema#"
    schema = {
        "$schema": draft,
        "title": "Flight",
        "type": "object",
        "properties": {"number": {"type": "integer"}, "stops": {"type": "array", "items": {"$ref": "stop.json"}}},
        "required": ["number"],
    }
    confluent.register_schema(
        "stops", ConfluentSchema(json.dumps({"$schema": draft, "type": "string", "minLength": 3}), "JSON")
    )
    mine = json_serializer(
        exchanged(registry),
        json.dumps(schema),
        references=(Reference(name="stop.json", subject="stops", version=1),),
    )
    data = {"number": 7, "stops": ["EWR", "Zürich"]}
    made = serialized(mine, "json-flights", data)
    with pytest.raises(ValueError, match=r"\['stops'\]\[0\]"):
        serialized(mine, "json-flights", {"number": 7, "stops": ["X"]})
    read = JSONDeserializer(None, schema_registry_client=confluent)
    assert read(made, SerializationContext("json-flights", MessageField.VALUE)) == data


def test_protobuf_has_the_bytes_of_confluent(registry: str, confluent: SchemaRegistryClient) -> None:
    flight, _airport = message_classes()
    theirs = ProtobufSerializer(flight, confluent, {"use.deprecated.format": False})
    mine = protobuf_serializer(exchanged(registry), flight)
    data = {"number": 7, "origin": {"code": "EWR"}, "stops": ["ü"], "at": datetime(2026, 1, 2, tzinfo=UTC)}
    made = serialized(mine, "proto-flights", data)
    context = SerializationContext("proto-flights", MessageField.VALUE)
    assert made == theirs(flight(**data), context) == serialized(mine, "proto-flights", flight(**data))
    read = ProtobufDeserializer(flight, {"use.deprecated.format": False})
    assert read(made, context) == flight(**data)
    # The newest version has the type at another place.
    newest = protobuf_serializer(exchanged(registry), flight, options=SchemaOptions(lookup=Lookup.NEWEST))
    assert serialized(newest, "proto-flights", data) == made


COLUMNS = pa.table(
    {
        "number": pa.array([7, 8, 9], pa.int32()),
        "carrier": ["UA", None, "LX"],
        "stops": [["EWR", "Zürich"], [], [None]],
        "at": pa.array([0, 1, None], pa.timestamp("us", "UTC")),
        "fare": pa.array([Decimal("1.20"), None, Decimal("-3.00")], pa.decimal128(9, 2)),
    }
)


@pytest.mark.kafka
@pytest.mark.parametrize("encoder", ["native", "python"])
def test_a_table_without_a_schema_is_avro_that_confluent_reads(
    registry: str, confluent: SchemaRegistryClient, kafka: KafkaCluster, make_topic: MakeTopic, encoder: str
) -> None:
    topic = make_topic(partitions=1)
    with Producer(
        bootstrap_servers=kafka.bootstrap_servers, schema_registry_url=registry, record_encoder=encoder
    ) as producer:
        producer.send_table(topic, COLUMNS, value="*", value_format="avro").result(60)
    read = AvroDeserializer(confluent)
    context = SerializationContext(topic, MessageField.VALUE)
    assert [read(each.value, context) for each in read_back(kafka.bootstrap_servers, topic)] == COLUMNS.to_pylist()
    assert confluent.get_latest_version(f"{topic}-value").version == 1


@pytest.mark.kafka
@pytest.mark.parametrize("encoder", ["native", "python"])
def test_rows_of_a_table_have_the_guid_of_their_schema_in_a_header(
    registry: str, confluent: SchemaRegistryClient, kafka: KafkaCluster, make_topic: MakeTopic, encoder: str
) -> None:
    if not has_guids(confluent):
        pytest.skip("this registry has no GUIDs")
    topic = make_topic(partitions=1)
    table = COLUMNS.append_column("headers", pa.array([[("a", b"1")], None, []], pa.map_(pa.string(), pa.binary())))
    with Producer(
        bootstrap_servers=kafka.bootstrap_servers,
        schema_registry_url=registry,
        value_schema_id_serializer="header",
        record_encoder=encoder,
    ) as producer:
        producer.send_table(topic, table, value="*", headers="headers", value_format="avro").result(60)
    records = read_back(kafka.bootstrap_servers, topic)
    assert [[name for name, _value in each.headers] for each in records] == [
        ["a", "__value_schema_id"],
        ["__value_schema_id"],
        ["__value_schema_id"],
    ]
    read = AvroDeserializer(confluent, conf={"schema.id.deserializer": dual_schema_id_deserializer})
    contexts = [SerializationContext(topic, MessageField.VALUE, dict(each.headers)) for each in records]
    made = [read(each.value, context) for each, context in zip(records, contexts, strict=True)]
    assert made == COLUMNS.to_pylist()


@pytest.mark.kafka
def test_a_row_of_a_table_without_a_form_is_named(registry: str, kafka: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=1)
    wrong = COLUMNS.set_column(0, "number", pa.array([1, 2**31, 3], pa.int64())).drop_columns(["at", "fare"])
    settings_of = {"bootstrap_servers": kafka.bootstrap_servers, "schema_registry_url": registry}
    with Producer(**settings_of, value_schema=SCHEMA) as producer:
        with pytest.raises(SerializationError, match=r"row 1: number has a value .* cannot hold: 2147483648"):
            producer.send_table(topic, wrong, value="*", value_format="avro")
        with pytest.raises(SerializationError, match="has no field 'at'"):
            producer.send_table(topic, COLUMNS, value="*", value_format="avro")


@pytest.mark.kafka
def test_tables_of_json_and_protobuf_are_read_by_confluent(
    registry: str, confluent: SchemaRegistryClient, kafka: KafkaCluster, make_topic: MakeTopic
) -> None:
    flight, _airport = message_classes()
    table = COLUMNS.select(["number", "stops"]).slice(0, 2)
    for name, schema, read in (
        ("json-schema", None, JSONDeserializer(None, schema_registry_client=confluent)),
        ("protobuf", flight, lambda data, context: as_dict(ProtobufDeserializer(flight, {})(data, context))),
    ):
        topic = make_topic(partitions=1)
        with Producer(
            bootstrap_servers=kafka.bootstrap_servers, schema_registry_url=registry, value_schema=schema
        ) as producer:
            producer.send_table(topic, table, value="*", value_format=name).result(60)
        context = SerializationContext(topic, MessageField.VALUE)
        assert [read(each.value, context) for each in read_back(kafka.bootstrap_servers, topic)] == table.to_pylist()


def as_dict(flight: Any) -> Any:
    """The fields of a message that the table has."""
    return {"number": flight.number, "stops": list(flight.stops)}
