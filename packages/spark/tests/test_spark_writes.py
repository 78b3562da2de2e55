"""Whole batch writes: a real Spark, a real Kafka, and confluent-kafka to read what arrived."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from long_forms import share
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import ottla_spark
from ottla_spark.data_source_api import HAS_DATA_SOURCES
from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.pytest_plugin import MakeTopic
from spark_kit import WITHIN, Arrived, Write, arrived, values, writing_to

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.spark,
    # mapInArrow looks whether pandas is there, which it has no use for.
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]


@pytest.fixture
def write(kafka: KafkaCluster) -> Write:
    return writing_to(kafka)


@pytest.mark.skipif(not HAS_DATA_SOURCES, reason="this PySpark has no data sources in Python")
def test_all_columns_arrive(spark: SparkSession, write: Write, kafka: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=3)
    moment = (datetime.now(UTC) - timedelta(hours=1)).replace(microsecond=123_000)  # brokers delete what is old
    frame = spark.createDataFrame(
        [
            (
                topic,
                2,
                "kö",
                bytearray(b"\x00\xff"),
                [("a", bytearray(b"1")), ("a", None)],
                moment,
                "ignored",
            ),
            (topic, 1, None, None, None, moment, "ignored"),
        ],
        "topic string, partition int, key string, value binary, "
        "headers array<struct<key:string,value:binary>>, timestamp timestamp, note string",
    )

    write(frame)

    sent_at = int(moment.timestamp() * 1000)
    assert arrived(kafka, topic) == [
        Arrived(value=None, partition=1, timestamp_ms=sent_at),
        Arrived(
            value=b"\x00\xff",
            key="kö".encode(),
            partition=2,
            headers=(("a", b"1"), ("a", None)),
            timestamp_ms=sent_at,
        ),
    ]


def test_many_rows_arrive_once_and_in_the_order_of_their_task(
    spark: SparkSession, write: Write, kafka: KafkaCluster, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    rows = 25_000  # more than Spark puts into one record batch

    write(spark.range(0, rows, 1, 1).selectExpr("cast(id as string) as value"), topic=topic)

    assert values(arrived(kafka, topic)) == [str(number).encode() for number in range(rows)]


@pytest.mark.thorough("test_a_call_and_the_data_source_write_the_same_records has several tasks and partitions")
def test_every_task_sends_its_share(
    spark: SparkSession, write: Write, kafka: KafkaCluster, make_topic: MakeTopic
) -> None:
    topic = make_topic(partitions=4)

    write(spark.range(0, 1000, 1, 8).selectExpr("cast(id as string) as key", "'v' as value"), topic=topic)

    records = arrived(kafka, topic)
    assert sorted(int(record.key or b"") for record in records) == list(range(1000))
    assert {record.partition for record in records} == {0, 1, 2, 3}


@pytest.mark.thorough("tests/test_spark_against_sparks_sink.py compares it with Spark's own sink")
def test_rows_are_sent_to_the_topic_of_their_column(
    spark: SparkSession, write: Write, kafka: KafkaCluster, make_topic: MakeTopic
) -> None:
    first, second = make_topic(), make_topic()

    write(spark.createDataFrame([(first, "1"), (second, "2"), (first, "3")], "topic string, value string"))

    assert sorted(values(arrived(kafka, first)), key=str) == [b"1", b"3"]
    assert values(arrived(kafka, second)) == [b"2"]


@pytest.mark.thorough("tests/test_spark_against_sparks_sink.py compares it with Spark's own sink")
def test_the_topic_option_overrides_the_column(
    spark: SparkSession, write: Write, kafka: KafkaCluster, make_topic: MakeTopic
) -> None:
    topic = make_topic()

    write(spark.createDataFrame([("elsewhere", "1"), (None, "2")], "topic string, value string"), topic=topic)

    assert sorted(values(arrived(kafka, topic)), key=str) == [b"1", b"2"]


def test_a_missing_topic_is_refused_when_the_write_is_planned(spark: SparkSession, write: Write) -> None:
    """The rows cannot be computed, so that any task would fail for that reason."""
    with pytest.raises(PySparkException, match="topic 'missing' does not exist"):
        write(
            spark.range(1).selectExpr("cast(raise_error('a task began') as string) as value"),
            topic="missing",
            kafka_max_block_ms="1000",
        )


def test_an_empty_frame_is_written_if_no_broker_can_be_reached(spark: SparkSession) -> None:
    unreachable = {"kafka.bootstrap.servers": "127.0.0.1:1", "topic": "t"}

    spark.range(0).selectExpr("'v' as value").write.format("ottla").options(**unreachable).mode("append").save()


def test_a_registered_source_writes_too(
    spark: SparkSession, write: Write, kafka: KafkaCluster, make_topic: MakeTopic
) -> None:
    ottla_spark.register(spark)
    topic = make_topic()

    write(spark.range(1).selectExpr("'v' as value"), topic=topic)

    assert values(arrived(kafka, topic)) == [b"v"]


def test_a_source_that_spark_has_found_already_can_be_registered(
    spark: SparkSession, write: Write, kafka: KafkaCluster, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    write(spark.range(1).selectExpr("'v' as value"), topic=topic)
    for _ in range(2):
        ottla_spark.register(spark)
    write(spark.range(1).selectExpr("'w' as value"), topic=topic)

    assert values(arrived(kafka, topic)) == [b"v", b"w"]


@pytest.mark.thorough("test_spark_connect.py writes in another thread, and another test here with a registered source")
def test_a_registered_source_is_found_in_another_thread(
    spark: SparkSession, write: Write, kafka: KafkaCluster, make_topic: MakeTopic
) -> None:
    topic = make_topic()

    def job() -> None:
        ottla_spark.register(spark)
        write(spark.range(1).selectExpr("'v' as value"), topic=topic)

    with ThreadPoolExecutor(1) as pool:
        pool.submit(job).result()

    assert values(arrived(kafka, topic)) == [b"v"]


def test_a_call_and_the_data_source_write_the_same_records(
    spark: SparkSession, write: Write, kafka: KafkaCluster, make_topic: MakeTopic
) -> None:
    by_call, by_source = make_topic(partitions=3), make_topic(partitions=3)
    hour_ago = int(datetime.now(UTC).timestamp() * 1000) - 3_600_000
    frame = spark.range(0, 3000, 1, 3).selectExpr(
        "cast(id % 7 as string) as key",
        "cast(id as string) as value",
        "array(named_struct('key', 'h', 'value', cast(cast(id as string) as binary))) as headers",
        f"timestamp_millis({hour_ago} + id) as timestamp",
    )

    ottla_spark.write(frame, {"kafka.bootstrap.servers": kafka.bootstrap_servers, "topic": by_call})
    write(frame, topic=by_source)

    found = [sorted(arrived(kafka, topic), key=lambda record: record.timestamp_ms) for topic in (by_call, by_source)]
    assert found[0] == found[1]
    assert len(found[0]) == 3000


@pytest.mark.thorough("test_spark_calls.py has JSON keys, and another test here JSON by the data source")
def test_a_call_and_the_data_source_write_the_same_json_keys(
    spark: SparkSession, write: Write, kafka: KafkaCluster, make_topic: MakeTopic
) -> None:
    by_call, by_source = make_topic(partitions=3), make_topic(partitions=3)
    frame = spark.range(0, 60, 1, 2).selectExpr("named_struct('id', id) as key", "id as number", "id % 2 = 0 as even")

    servers = {"kafka.bootstrap.servers": kafka.bootstrap_servers}
    ottla_spark.write(frame, {**servers, "topic": by_call, "key.format": "json", "value.format": "json"})
    write(frame, topic=by_source, key_format="json", value_format="json")

    found = [
        {(record.key, record.value, record.partition) for record in arrived(kafka, topic)}
        for topic in (by_call, by_source)
    ]
    assert found[0] == found[1]
    assert {json.loads(key)["id"] for key, _value, _partition in found[0] if key} == set(range(60))


@pytest.mark.thorough("test_spark_producer_cache.py has it without Spark")
def test_jobs_with_the_same_options_write_one_after_another(
    spark: SparkSession, write: Write, kafka: KafkaCluster, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    for job in ("1", "2", "3"):
        write(spark.range(0, 1, 1, 1).selectExpr(f"'{job}' as value"), topic=topic, kafka_client_id="kept")

    assert values(arrived(kafka, topic)) == [b"1", b"2", b"3"]


@pytest.mark.thorough("test_spark_options.py has the option, and packages/core/tests each codec")
def test_codecs_of_the_core_are_set_by_option(
    spark: SparkSession, write: Write, kafka: KafkaCluster, make_topic: MakeTopic
) -> None:
    topic = make_topic()

    write(spark.range(100).selectExpr("repeat('v', 100) as value"), topic=topic, kafka_compression_type="gzip")

    assert values(arrived(kafka, topic)) == [b"v" * 100] * 100
    assert "compresscodec: gzip" in kafka.dump_log(topic)


def test_values_are_built_of_columns_as_by_to_json(
    spark: SparkSession, write: Write, kafka: KafkaCluster, make_topic: MakeTopic
) -> None:
    topic, from_struct = make_topic(), make_topic()
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        frame = spark.range(0, 100, 1, 1).selectExpr(
            "cast(id as string) as key",
            "id",
            "if(id % 2 = 0, null, timestamp_millis(id)) as moment",
            "named_struct('a', array(id / 4)) as nested",
        )
        expected = [row[0] for row in frame.selectExpr("to_json(struct(id, moment, nested))").collect()]
        write(frame, topic=topic, value_format="json")
        write(frame.selectExpr("struct(id, moment, nested) as value"), topic=from_struct, value_format="json")
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")

    records = arrived(kafka, topic)
    assert [record.key for record in records] == [str(number).encode() for number in range(100)]
    assert [json.loads(record.value or b"") for record in records] == [json.loads(text) for text in expected]
    assert values(arrived(kafka, from_struct)) == values(records)


def test_a_wrong_frame_is_refused_while_planning(spark: SparkSession, write: Write) -> None:
    with pytest.raises(PySparkException) as refused:
        write(spark.range(1).selectExpr("id as value", "id as partition"), bogus="1")

    said = str(refused.value)
    assert "column 'value' has the unsupported type bigint; it must be string or binary" in said
    assert "column 'partition' has the unsupported type bigint; it must be int" in said
    assert "there is no topic" in said
    assert "option 'bogus' is not known" in said


def test_overwriting_is_refused(spark: SparkSession, kafka: KafkaCluster) -> None:
    writer = spark.range(1).selectExpr("'v' as value").write.format("ottla").option("topic", "t")
    with pytest.raises(PySparkException, match=r'use \.mode\("append"\)'):
        writer.option("kafka.bootstrap.servers", kafka.bootstrap_servers).mode("overwrite").save()


@pytest.fixture
def table(spark: SparkSession, kafka: KafkaCluster) -> Iterator[str]:
    """A table whose options, which Spark passes to no sink written in Python, have all that a write needs."""
    name = "orders_with_options"
    options = f"'kafka.bootstrap.servers' = '{kafka.bootstrap_servers}', 'topic' = 't'"
    spark.sql(f"CREATE TABLE {name} (key STRING, value STRING) USING ottla OPTIONS ({options})")
    yield name
    spark.sql(f"DROP TABLE {name}")


def test_an_insert_without_options_is_refused_with_the_clause_for_them(spark: SparkSession, table: str) -> None:
    with pytest.raises(PySparkException, match="the write has no options") as refused:
        spark.sql(f"INSERT INTO {table} VALUES ('k', 'v')")

    assert "in each statement, INSERT INTO ... WITH ('kafka.bootstrap.servers' = ..., 'topic' = ...)" in str(
        refused.value
    )


def test_a_temporary_view_inserts_with_its_own_options(
    spark: SparkSession, kafka: KafkaCluster, make_topic: MakeTopic
) -> None:
    topic = make_topic(partitions=1)
    options = f"'kafka.bootstrap.servers' = '{kafka.bootstrap_servers}', 'topic' = '{topic}'"
    spark.sql(f"CREATE TEMPORARY VIEW orders_to_kafka (key STRING, value STRING) USING ottla OPTIONS ({options})")
    spark.sql("INSERT INTO orders_to_kafka VALUES ('k', 'v')")

    assert values(arrived(kafka, topic)) == [b"v"]


def test_a_table_without_columns_is_refused_with_a_statement(spark: SparkSession) -> None:
    with pytest.raises(PySparkException, match=re.escape("CREATE TABLE orders (key STRING, value STRING) USING ottla")):
        spark.sql("CREATE TABLE nothing USING ottla")


@pytest.mark.parametrize(
    ("key", "value", "said"),
    share(
        [
            pytest.param("kafka.transactional.id", "t-1", "option kafka.transactional.id cannot be set"),
            pytest.param("kafka.value.serializer", "s", "option kafka.value.serializer cannot be set"),
        ],
        gate=1,
        why="test_spark_options.py has every option that cannot be set",
    ),
)
def test_unsupported_guarantees_are_refused(spark: SparkSession, write: Write, key: str, value: str, said: str) -> None:
    with pytest.raises(PySparkException, match=said):
        write(spark.range(1).selectExpr("'v' as value"), topic="t", **{key: value})


def test_a_null_topic_fails_the_job_with_its_row(spark: SparkSession, write: Write, make_topic: MakeTopic) -> None:
    frame = spark.createDataFrame([(make_topic(), "1"), (None, "2")], "topic string, value string").coalesce(1)
    with pytest.raises(PySparkException, match="row 2 of Spark partition 0 was refused: column 'topic' is null"):
        write(frame)


@pytest.mark.thorough("test_spark_tasks.py has this row in a task without Spark, and other tests here a failed job")
def test_a_negative_partition_fails_the_job_with_its_row(
    spark: SparkSession, write: Write, make_topic: MakeTopic
) -> None:
    frame = spark.range(0, 1, 1, 1).selectExpr("'v' as value", "-1 as partition")
    with pytest.raises(PySparkException, match="row 1 of Spark partition 0 was refused: column 'partition'"):
        write(frame, topic=make_topic())


@pytest.mark.thorough("test_spark_tasks.py has this row in a task without Spark, and other tests here a failed job")
def test_a_missing_partition_fails_the_job(spark: SparkSession, write: Write, make_topic: MakeTopic) -> None:
    frame = spark.range(0, 1, 1, 1).selectExpr("'v' as value", "7 as partition")
    topic = make_topic()
    with pytest.raises(PySparkException, match="row 1 of Spark partition 0 was refused") as failed:
        write(frame, topic=topic, kafka_max_block_ms="300")

    assert topic in str(failed.value)


@pytest.mark.thorough("test_spark_tasks.py has this row in a task without Spark, and other tests here a failed job")
def test_a_missing_topic_of_a_row_fails_the_job(spark: SparkSession, write: Write) -> None:
    frame = spark.range(0, 1, 1, 1).selectExpr("'v' as value", "'no-such-topic' as topic")
    with pytest.raises(PySparkException, match="row 1 of Spark partition 0 and the later rows") as failed:
        write(frame, kafka_max_block_ms="300")

    assert "no-such-topic" in str(failed.value)


@pytest.mark.thorough("test_spark_tasks.py has this row in a task without Spark, and other tests here a failed job")
def test_a_broker_error_fails_the_job_with_topic_partition_and_count(
    spark: SparkSession, write: Write, make_topic: MakeTopic
) -> None:
    topic = make_topic(max_message_bytes=1000)
    frame = spark.range(0, 2, 1, 1).selectExpr("repeat('v', 5000) as value")
    with pytest.raises(PySparkException) as failed:
        write(frame, topic=topic)

    said = str(failed.value)
    assert f"Spark partition 0: of 2 records these failed: 2 for topic '{topic}'" in said
    assert f"topic '{topic}', partition 0: " in said


def test_a_failed_job_does_not_affect_the_next(
    spark: SparkSession, write: Write, kafka: KafkaCluster, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    with pytest.raises(PySparkException):
        write(spark.createDataFrame([(None, "1")], "topic string, value string"))

    write(spark.range(1).selectExpr("'fine' as value"), topic=topic)

    assert values(arrived(kafka, topic)) == [b"fine"]


@pytest.mark.thorough("test_spark_connect.py has it")
def test_each_micro_batch_can_be_written_as_a_frame(
    spark: SparkSession, write: Write, kafka: KafkaCluster, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic()
    spark.range(10).selectExpr("cast(id as string) as value").write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema("value string").parquet(str(tmp_path / "in"))
    query = (
        stream.writeStream.foreachBatch(lambda frame, _batch: write(frame, topic=topic))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )

    assert query.awaitTermination(int(WITHIN))
    assert sorted(values(arrived(kafka, topic)), key=str) == [str(number).encode() for number in range(10)]
