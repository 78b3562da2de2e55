"""DataFrames as Avro with a schema registry, with all guarantees; confluent-kafka reads what arrived."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.schema_registry import SchemaRegistryClient, dual_schema_id_deserializer
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext
from hostile_registry import hostile_registry, says
from own_registry import own_registry
from pyspark.sql import SparkSession

import ottla_spark
from ottla_spark.atomic import atomically
from ottla_spark.errors import InvalidWriteError
from ottla_spark.exactly_once import write_once
from ottla_spark.source import OttlaDataSource
from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.pytest_plugin import MakeTopic
from spark_kit import WITHIN, arrived
from transactions_kit import read_pairs

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.slow,
    # mapInArrow looks whether pandas is there, which it has no use for.
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]

PARTITIONS = 2
ROWS = [(number, None if number % 3 == 0 else f"n{number}", ["a", None][: number % 3]) for number in range(40)]


@pytest.fixture(scope="module")
def registry() -> Iterator[str]:
    with own_registry() as address, pytest.MonkeyPatch.context() as patch:
        patch.setenv("OTTLA_ALLOWED_URLS", address)
        yield address


@pytest.fixture
def options(kafka: KafkaCluster, registry: str) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": kafka.bootstrap_servers,
        "value.format": "avro",
        "schema.registry.url": registry,
    }


def read_values(registry: str, kafka: KafkaCluster, topic: str) -> list[Mapping[str, Any]]:
    """What confluent-kafka makes of the values, by their number."""
    with SchemaRegistryClient({"url": registry}) as client:
        read, context = AvroDeserializer(client), SerializationContext(topic, MessageField.VALUE)
        made: list[Any] = [read(value, context) for value in committed(kafka, topic)]
    return sorted(made, key=lambda row: row["id"])


def committed(kafka: KafkaCluster, topic: str) -> list[bytes]:
    """The values that readers of committed records see, in all partitions."""
    found = read_pairs(kafka.bootstrap_servers, topic, partitions=PARTITIONS)
    return [value for partition in found for _key, value in partition]


def rows_of(spark: SparkSession, folder: Path) -> Any:
    spark.createDataFrame(ROWS, "id long, name string, tags array<string>").repartition(3).write.parquet(str(folder))
    return spark.read.parquet(str(folder))


EXPECTED = [{"id": number, "name": name, "tags": tags} for number, name, tags in ROWS]


def test_a_frame_without_a_schema_is_avro_of_its_columns(
    spark: SparkSession,
    options: dict[str, str],
    registry: str,
    kafka: KafkaCluster,
    make_topic: MakeTopic,
    tmp_path: Path,
) -> None:
    topic = make_topic(partitions=PARTITIONS)
    frame = rows_of(spark, tmp_path / "rows").selectExpr("id as key", "*")
    ottla_spark.write(frame, {**options, "topic": topic, "key.format": "avro"})
    assert read_values(registry, kafka, topic) == EXPECTED
    with SchemaRegistryClient({"url": registry}) as client:
        assert client.get_latest_version(f"{topic}-value").version == 1
        read, context = AvroDeserializer(client), SerializationContext(topic, MessageField.KEY)
        assert sorted(read(each.key, context) for each in arrived(kafka, topic)) == list(range(40))


def test_the_data_source_prepares_the_format_in_the_planner(
    spark: SparkSession, options: dict[str, str], make_topic: MakeTopic
) -> None:
    # In this process: Spark's planner has the environment of a JVM that other tests have started, without our address.
    given = {**options, "topic": make_topic(partitions=PARTITIONS)}
    frame = spark.range(3)
    for writer in (
        OttlaDataSource(given).writer(frame.schema, False),
        OttlaDataSource(given).streamWriter(frame.schema, False),
    ):
        value = pickle.loads(pickle.dumps(writer))._options.formats.value
        assert value.prepared is not None
        assert options["schema.registry.url"].encode() not in pickle.dumps(writer)


def test_a_job_exactly_once_and_atomic_batches_write_avro(
    spark: SparkSession,
    options: dict[str, str],
    registry: str,
    kafka: KafkaCluster,
    make_topic: MakeTopic,
    tmp_path: Path,
) -> None:
    once, batches = make_topic(partitions=PARTITIONS), make_topic(partitions=PARTITIONS)
    frame = rows_of(spark, tmp_path / "rows")
    own = {"transactional.id.prefix": f"{once}-job"}
    assert write_once(frame, {**options, **own, "topic": once}, job_id="day 1").records == len(ROWS)
    sink = atomically({**options, "topic": batches}, transactional_id=f"{batches}-query")
    stream = spark.readStream.schema(frame.schema).parquet(str(tmp_path / "rows"))
    query = stream.writeStream.foreachBatch(sink).option("checkpointLocation", str(tmp_path / "c"))
    assert query.trigger(availableNow=True).start().awaitTermination(int(WITHIN))
    assert read_values(registry, kafka, once) == read_values(registry, kafka, batches) == EXPECTED


@pytest.mark.thorough("test_avro_columns.py of the serializer has every type without Spark")
def test_columns_of_every_type_that_avro_has_arrive(
    spark: SparkSession, options: dict[str, str], registry: str, kafka: KafkaCluster, make_topic: MakeTopic
) -> None:
    topic = make_topic(partitions=PARTITIONS)
    frame = spark.range(2).selectExpr(
        "id",
        "timestamp_millis(id) as moment",
        "timestamp_ntz'2026-01-02 03:04:05' as local",
        "date'2026-01-02' as day",
        "cast(id as decimal(9, 2)) as price",
        "map('a', id) as counts",
        "named_struct('x', cast(id as float), 'y', array(id)) as nested",
        "cast('b' as binary) as bytes",
        "cast(null as string) as nothing",
    )
    ottla_spark.write(frame, {**options, "topic": topic})
    [first, _second] = read_values(registry, kafka, topic)
    assert first == {
        "id": 0,
        "moment": datetime(1970, 1, 1, tzinfo=UTC),
        "local": datetime(2026, 1, 2, 3, 4, 5),
        "day": date(2026, 1, 2),
        "price": Decimal("0.00"),
        "counts": {"a": 0},
        "nested": {"x": 0.0, "y": [0]},
        "bytes": b"b",
        "nothing": None,
    }
    with pytest.raises(InvalidWriteError, match=r"option value.format='avro': .*'length'"):
        ottla_spark.write(spark.range(1).selectExpr("interval 1 day as length"), {**options, "topic": topic})


def test_only_the_driver_asks_the_registry(
    spark: SparkSession, options: dict[str, str], make_topic: MakeTopic, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with hostile_registry() as hostile:
        monkeypatch.setenv("OTTLA_ALLOWED_URLS", hostile.address)
        frame = rows_of(spark, tmp_path / "rows")
        given = {**options, "topic": make_topic(partitions=PARTITIONS), "schema.registry.url": hostile.address}
        ottla_spark.write(frame, given)
        assert [line.partition(" ")[0] for line, _headers, _body in hostile.requests] == ["POST"]
        hostile.last = says({"error_code": 409, "message": "no"}, status=409)
        with pytest.raises(InvalidWriteError, match=r"option value.format='avro': .*status 409, error code 409: 'no'"):
            ottla_spark.write(frame, given)


def test_rows_without_a_form_become_dead_letters(
    spark: SparkSession, options: dict[str, str], registry: str, kafka: KafkaCluster, make_topic: MakeTopic
) -> None:
    topic, letters = make_topic(partitions=PARTITIONS), make_topic(partitions=1)
    schema = """{"type": "record", "name": "R", "fields": [{"name": "id", "type": "int"}]}"""
    frame = spark.createDataFrame([(1,), (2**31,), (3,)], "id long").coalesce(1)
    given = {**options, "topic": topic, "value.schema": schema, "errors.tolerance": "all"}
    ottla_spark.write(frame, {**given, "errors.deadletterqueue.topic.name": letters})
    assert read_values(registry, kafka, topic) == [{"id": 1}, {"id": 3}]
    [letter] = arrived(kafka, letters)
    assert letter.value == b'{"id":2147483648}'
    assert b"cannot hold: 2147483648" in (dict(letter.headers)["__ottla.errors.exception.message"] or b"")


@pytest.mark.parametrize("encoder", ["native", "python"])
@pytest.mark.parametrize("name", ["avro", "json-schema"])
def test_text_that_is_not_valid_becomes_a_dead_letter(
    name: str,
    encoder: str,
    spark: SparkSession,
    options: dict[str, str],
    kafka: KafkaCluster,
    make_topic: MakeTopic,
) -> None:
    topic, letters = make_topic(partitions=PARTITIONS), make_topic(partitions=1)
    frame = spark.range(3).coalesce(1).selectExpr("id", "if(id = 1, cast(X'4FFF41' as string), 'ok') as text")
    given = {**options, "topic": topic, "value.format": name, "kafka.record.encoder": encoder}
    tolerant = {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": letters}
    report = ottla_spark.write(frame, {**given, **tolerant})
    assert (report.records, report.refused) == (3, 1)
    assert len(committed(kafka, topic)) == 2
    [letter] = arrived(kafka, letters)
    assert letter.value == '{"id":1,"text":"O\ufffdA"}'.encode()
    reason = rb"the value is refused: column 'text' is not valid UTF-8: b'O\xffA'"
    assert dict(letter.headers)["__ottla.errors.exception.message"] == reason


def two_messages(kafka: KafkaCluster, topic: str) -> list[tuple[Any, list[Any]]]:
    """Values and headers of the first two committed records."""
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": "reader", "log_level": 0})
    try:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
        return [(message.value(), list(message.headers() or ())) for message in consumer.consume(2, timeout=WITHIN)]
    finally:
        consumer.close()


@pytest.mark.thorough("test_registry_references.py of the serializer has the header without Spark")
def test_rows_have_the_guid_of_their_schema_in_a_header(
    spark: SparkSession, options: dict[str, str], registry: str, kafka: KafkaCluster, make_topic: MakeTopic
) -> None:
    topic, letters = make_topic(partitions=PARTITIONS), make_topic(partitions=1)
    # Confluent's deserializer refuses data of less than six bytes, also after a header.
    fields = """{"name": "id", "type": "int"}, {"name": "name", "type": "string"}"""
    schema = f"""{{"type": "record", "name": "R", "fields": [{fields}]}}"""
    own = "array(struct('a' as key, cast('1' as binary) as value)) as headers"
    frame = (
        spark.createDataFrame([(1,), (2**31,), (3,)], "id long").coalesce(1).selectExpr("id", "'Zürich' as name", own)
    )
    given = {**options, "topic": topic, "value.schema": schema, "value.schema.id.serializer": "header"}
    tolerant = {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": letters}
    ottla_spark.write(frame, {**given, **tolerant})
    once = make_topic(partitions=PARTITIONS)
    few = frame.where("id < 9").drop("headers")
    settings = {**given, "topic": once, "transactional.id.prefix": f"{once}-job"}
    assert write_once(few, settings, job_id="day 1").records == 2
    with SchemaRegistryClient({"url": registry}) as client:
        read = AvroDeserializer(client, conf={"schema.id.deserializer": dual_schema_id_deserializer})
        for name, before in ((topic, ["a"]), (once, [])):
            found: list[int] = []
            for value, headers in two_messages(kafka, name):
                assert [key for key, _id in headers] == [*before, "__value_schema_id"]
                found.append(read(value, SerializationContext(name, MessageField.VALUE, dict(headers)))["id"])
            assert sorted(found) == [1, 3]
    [letter] = arrived(kafka, letters)
    assert (letter.value, "__value_schema_id" in dict(letter.headers)) == (
        '{"id":2147483648,"name":"Zürich"}'.encode(),
        False,
    )


def test_frames_are_json_that_fits_its_schema(
    spark: SparkSession, options: dict[str, str], registry: str, kafka: KafkaCluster, make_topic: MakeTopic
) -> None:
    topic = make_topic(partitions=1)
    ottla_spark.write(spark.range(3).coalesce(1), {**options, "topic": topic, "value.format": "json-schema"})
    with SchemaRegistryClient({"url": registry}) as client:
        read, context = (
            JSONDeserializer(None, schema_registry_client=client),
            SerializationContext(topic, MessageField.VALUE),
        )
        assert [read(each.value, context) for each in arrived(kafka, topic)] == [{"id": 0}, {"id": 1}, {"id": 2}]


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"value.schema": '{"type": "record", "name": "R", "fields": []}'}, "has no field 'id'"),
        ({"value.schema": "/etc/passwd"}, "OTTLA_ALLOWED_FILES"),
        ({"schema.registry.url": "http://127.0.0.1:1"}, "OTTLA_ALLOWED_URLS"),
        ({"value.format": "json"}, "is read only with value.format=avro"),
        ({"value.format": "protobuf"}, "give the generated class"),
    ],
)
def test_a_write_that_cannot_succeed_is_refused_when_it_is_planned(
    spark: SparkSession, options: dict[str, str], changed: dict[str, str], problem: str
) -> None:
    with pytest.raises(InvalidWriteError, match=problem):
        ottla_spark.write(spark.range(3), {**options, "topic": "t", **changed})


def test_a_topic_for_each_row_cannot_be_prepared(spark: SparkSession, options: dict[str, str]) -> None:
    with pytest.raises(InvalidWriteError, match="needs option topic"):
        ottla_spark.write(spark.range(3).selectExpr("id", "'t' as topic"), options)


def test_a_serializer_without_columns_is_refused(spark: SparkSession, kafka: KafkaCluster) -> None:
    given = {"kafka.bootstrap.servers": kafka.bootstrap_servers, "topic": "t", "value.format": "string"}
    with pytest.raises(InvalidWriteError, match="one value at a time"):
        ottla_spark.write(spark.range(3), given)
