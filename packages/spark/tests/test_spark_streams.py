"""Streams written by `writeStream.format("ottla")`: a real Spark and a real Kafka."""

from __future__ import annotations

import inspect
import os
import socket
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

import ottla_spark
from ottla_spark.worker import tcp_quickack
from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.pytest_plugin import MakeTopic
from spark_kit import WITHIN, arrived, dotted, values

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.spark]


class Stream:
    """Files that a query reads one by one, each a micro-batch, and what it writes."""

    def __init__(self, spark: SparkSession, kafka: KafkaCluster, folder: Path) -> None:
        self._spark = spark
        self._kafka = kafka
        self._folder = folder

    def add(self, frame: DataFrame) -> None:
        """One file more."""
        frame.coalesce(1).write.mode("append").parquet(str(self._folder / "in"))

    def frame(self, schema: str) -> DataFrame:
        return self._spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(self._folder / "in"))

    def run(self, frame: DataFrame, *, mode: str = "append", **options: str) -> Any:
        """Write what is there now, and end."""
        query = (
            frame.writeStream.format("ottla")
            .outputMode(mode)
            .queryName("q")
            .option("kafka.bootstrap.servers", self._kafka.bootstrap_servers)
            .option("checkpointLocation", str(self._folder / "checkpoint"))
            .options(**dotted(options))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(int(WITHIN))
        return query


@pytest.fixture
def stream(spark: SparkSession, kafka: KafkaCluster, tmp_path: Path) -> Stream:
    return Stream(spark, kafka, tmp_path)


def numbers(spark: SparkSession, start: int, end: int) -> DataFrame:
    return spark.range(start, end).selectExpr("cast(id as string) as value")


def test_each_micro_batch_arrives_once_and_in_order(
    spark: SparkSession, stream: Stream, kafka: KafkaCluster, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    for start in (0, 100, 200):
        stream.add(numbers(spark, start, start + 100))
    stream.run(stream.frame("value string"), topic=topic)
    stream.add(numbers(spark, 300, 400))
    stream.run(stream.frame("value string"), topic=topic, report="true")

    found = [int(value or b"") for value in values(arrived(kafka, topic))]
    assert sorted(found) == list(range(400))
    assert found[300:] == list(range(300, 400))
    report = ottla_spark.last_report()
    assert report is not None
    assert (report.what, report.records, report.bytes) == ("micro-batch 3", 100, 300)
    assert report.partitions == {(topic, 0): 100}


def test_complete_mode_sends_the_whole_result_each_time(
    spark: SparkSession, stream: Stream, kafka: KafkaCluster, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    for _ in range(2):
        stream.add(numbers(spark, 0, 10))
    counted = stream.frame("value string").groupBy().count().selectExpr("cast(count as string) as value")
    stream.run(counted, mode="complete", topic=topic)

    assert values(arrived(kafka, topic)) == [b"10", b"20"]


def test_a_stream_that_cannot_be_written_reports_all_problems(spark: SparkSession, stream: Stream) -> None:
    stream.add(spark.range(1).selectExpr("id as value"))

    with pytest.raises(PySparkException) as refused:
        stream.run(stream.frame("value bigint"), bogus="1")

    said = str(refused.value)
    assert "column 'value' has the unsupported type bigint; it must be string or binary" in said
    assert "there is no topic" in said
    assert "option 'bogus' is not known" in said


@pytest.mark.parametrize(
    "guarantee",
    [
        pytest.param("at-least-once", marks=pytest.mark.thorough("test_spark_writes.py plans with this guarantee")),
        "exactly-once",
    ],
)
def test_a_missing_topic_is_refused_when_a_micro_batch_is_planned(
    spark: SparkSession, stream: Stream, guarantee: str
) -> None:
    """The rows cannot be computed, so that any task would fail for that reason."""
    stream.add(numbers(spark, 0, 1))
    own = {"transactional_id_prefix": "missing"} if guarantee == "exactly-once" else {}
    frame = stream.frame("value string").selectExpr("cast(raise_error('a task began') as string) as value")

    with pytest.raises(StreamingQueryException, match="topic 'missing' does not exist"):
        stream.run(frame, topic="missing", kafka_max_block_ms="1000", guarantee=guarantee, **own)


def test_a_row_that_cannot_be_sent_ends_the_query_with_its_position(
    spark: SparkSession, stream: Stream, make_topic: MakeTopic
) -> None:
    stream.add(spark.createDataFrame([(make_topic(), "1"), (None, "2")], "topic string, value string"))

    with pytest.raises(StreamingQueryException, match="row 2 of Spark partition 0 was refused: column 'topic' is null"):
        stream.run(stream.frame("topic string, value string"))


@pytest.mark.skipif(
    "realTime" not in inspect.signature(DataStreamWriter.trigger).parameters, reason="this PySpark lacks the mode"
)
def test_spark_refuses_our_sinks_in_real_time_mode(spark: SparkSession, tmp_path: Path) -> None:
    """The page says so; once this fails, the mode can be tried."""
    rows = spark.readStream.format("rate").load().selectExpr("cast(value as string) as value")
    where = {"kafka.bootstrap.servers": "127.0.0.1:1", "topic": "t"}
    for number, sink in enumerate(
        (
            rows.writeStream.format("ottla").options(**where),
            rows.writeStream.foreachBatch(ottla_spark.foreach_batch(where)),
        )
    ):
        writer = sink.outputMode("update").option("checkpointLocation", str(tmp_path / str(number)))
        with pytest.raises(PySparkException, match=r"STREAMING_REAL_TIME_MODE\.OPERATOR_OR_SINK_NOT_IN_ALLOWLIST"):
            writer.trigger(realTime="5 seconds").start()  # type: ignore[call-overload]


@pytest.mark.skipif(not hasattr(socket, "TCP_QUICKACK"), reason="only Linux can be asked")
def test_a_task_finds_the_one_connection_that_delivers_its_rows(spark: SparkSession) -> None:
    def look(rows: Iterable[int]) -> Iterable[tuple[list[int], int]]:
        yield list(tcp_quickack.with_tcp_quickack(iter(rows))), len(tcp_quickack._of_worker[os.getpid()])

    assert spark.sparkContext.parallelize([1, 2, 3], 1).mapPartitions(look).collect() == [([1, 2, 3], 1)]
