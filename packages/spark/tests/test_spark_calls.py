"""Writes by `write` and `foreach_batch`, on every PySpark that we support: a real Spark and a real Kafka."""

from __future__ import annotations

import json
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pytest
from long_forms import share
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

import ottla_spark
from ottla_spark import InvalidWriteError
from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.pytest_plugin import MakeTopic
from spark_kit import Arrived, arrived, values
from transactions_kit import read, read_pairs

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.spark,
    # mapInArrow looks whether pandas is there, which it has no use for.
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]

GUARANTEES = [
    pytest.param(
        "at-least-once", marks=pytest.mark.thorough("test_micro_batches_arrive_by_foreach_batch has this guarantee")
    ),
    "exactly-once",
]
LONGEST = 240  # seconds, for a query on a busy machine
SCHEMA = (
    "topic string, partition int, key string, value binary, "
    "headers array<struct<key:string,value:binary>>, timestamp timestamp, `a.note` string"
)


@pytest.fixture
def options(kafka: KafkaCluster, make_topic: MakeTopic) -> dict[str, str]:
    return {"kafka.bootstrap.servers": kafka.bootstrap_servers, "topic": make_topic()}


@pytest.fixture
def once(options: dict[str, str]) -> dict[str, str]:
    """Options of exactly-once writes."""
    return {**options, "guarantee": "exactly-once", "transactional.id.prefix": f"p-{uuid.uuid4().hex[:8]}"}


def numbers(spark: SparkSession, start: int, end: int) -> DataFrame:
    return spark.range(start, end, 1, 2).selectExpr("cast(id as string) as value")


@attrs.frozen
class Stream:
    """A folder of files, each of which is a micro-batch, and the checkpoint of the query that reads them."""

    spark: SparkSession
    folder: Path

    def add(self, *rows: str) -> None:
        """One file more."""
        frame = self.spark.createDataFrame([(row,) for row in rows], "value string")
        frame.coalesce(1).write.mode("append").parquet(str(self.folder / "in"))

    def frame(self) -> DataFrame:
        """Its rows."""
        reader = self.spark.readStream.schema("value string").option("maxFilesPerTrigger", 1)
        return reader.parquet(str(self.folder / "in"))

    def run(self, sink: Any, *, frame: DataFrame | None = None, mode: str = "append") -> None:
        """Write what is there now. Raises the query's error."""
        writer = (frame if frame is not None else self.frame()).writeStream.foreachBatch(sink).outputMode(mode)
        writer = writer.option("checkpointLocation", str(self.folder / "checkpoint"))
        assert writer.trigger(availableNow=True).start().awaitTermination(LONGEST)

    def lose_commit(self, batch: int) -> None:
        """As if the driver had died before Spark itself recorded that this micro-batch is over."""
        commits = self.folder / "checkpoint" / "commits"
        for path in (commits / f"{batch}", commits / f".{batch}.crc"):
            path.unlink()


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> Stream:
    return Stream(spark, tmp_path)


def committed(options: dict[str, str]) -> list[bytes]:
    """The values that readers of committed records find."""
    [found] = read(options["kafka.bootstrap.servers"], options["topic"], partitions=1)
    return sorted(found)


def all_columns(spark: SparkSession, topic: str, moment: datetime) -> DataFrame:
    """Two rows with all of our columns and others, whose names are no names of SQL or occur twice."""
    rows = [
        (topic, 2, "kö", bytearray(b"\x00\xff"), [("a", bytearray(b"1")), ("a", None)], moment, "ignored"),
        (topic, 1, None, None, None, moment, "ignored"),
    ]
    return spark.createDataFrame(rows, SCHEMA).selectExpr("`a.note`", "*")


def test_all_columns_arrive_by_a_call(spark: SparkSession, kafka: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=3)
    moment = (datetime.now(UTC) - timedelta(hours=1)).replace(microsecond=123_000)  # brokers delete what is old
    sent_at = int(moment.timestamp() * 1000)

    report = ottla_spark.write(
        all_columns(spark, topic, moment), {"kafka.bootstrap.servers": kafka.bootstrap_servers, "kafka.linger.ms": "0"}
    )

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
    assert (report.records, report.bytes) == (2, 5)
    assert report.partitions == {(topic, 1): 1, (topic, 2): 1}


def test_a_call_makes_values_of_columns_with_any_names(
    spark: SparkSession, kafka: KafkaCluster, options: dict[str, str]
) -> None:
    frame = spark.range(0, 10, 1, 1).selectExpr(
        "cast(id as string) as key", "id as `a.b`", "named_struct('x y', id) as `c``d`"
    )

    ottla_spark.write(frame, {**options, "value.format": "json"})

    records = arrived(kafka, options["topic"])
    assert [json.loads(record.value or b"") for record in records] == [
        {"a.b": number, "c`d": {"x y": number}} for number in range(10)
    ]
    assert [record.key for record in records] == [b"%d" % number for number in range(10)]


@pytest.mark.parametrize(
    ("column", "text"),
    share(
        [
            pytest.param("named_struct('id', id, 'day', if(id % 2 = 0, null, date '2026-11-27'))", "to_json({})"),
            pytest.param("if(id % 5 = 0, null, named_struct('id', id))", "to_json({})"),
            pytest.param("array(id, id % 3)", "to_json({})"),
            pytest.param("id", "cast({} as string)"),
            pytest.param("if(id % 5 = 0, null, id)", "cast({} as string)"),
            pytest.param("cast(id as string)", "concat('\"', {}, '\"')"),
        ],
        gate=1,
        why="other types of keys; packages/core/tests has their JSON and their partitions",
    ),
)
def test_json_keys_get_the_partitions_of_their_text(
    spark: SparkSession, kafka: KafkaCluster, make_topic: MakeTopic, column: str, text: str
) -> None:
    by_format, by_text = make_topic(partitions=3), make_topic(partitions=3)
    servers = {"kafka.bootstrap.servers": kafka.bootstrap_servers}
    frame = spark.range(0, 60, 1, 2).selectExpr("cast(id as string) as value", f"{column} as key")

    ottla_spark.write(frame, {**servers, "topic": by_format, "key.format": "json"})
    ottla_spark.write(frame.selectExpr("value", f"{text.format('key')} as key"), {**servers, "topic": by_text})

    found = [arrived(kafka, topic) for topic in (by_format, by_text)]
    placed = [{record.value: (record.key, record.key and record.partition) for record in each} for each in found]
    assert placed[0] == placed[1]
    assert [len(each) for each in found] == [60, 60]


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_json_keys_and_values_of_micro_batches_arrive(
    kafka: KafkaCluster, stream: Stream, once: dict[str, str], guarantee: str
) -> None:
    given = {**once, "value.format": "json", "key.format": "json"}
    if guarantee == "at-least-once":
        given = {name: given[name] for name in given if name not in ("guarantee", "transactional.id.prefix")}
    stream.add("1", "2")
    frame = stream.frame().selectExpr("named_struct('id', value) as key", "value as number", "1 as one")
    stream.run(ottla_spark.foreach_batch(given), frame=frame)

    [records] = read_pairs(kafka.bootstrap_servers, once["topic"], partitions=1)
    assert sorted(records) == [
        (b'{"id":"1"}', b'{"number":"1","one":1}'),
        (b'{"id":"2"}', b'{"number":"2","one":1}'),
    ]


def test_a_call_reports_what_it_has_written(
    spark: SparkSession, options: dict[str, str], capfd: pytest.CaptureFixture[str]
) -> None:
    report = ottla_spark.write(numbers(spark, 0, 100), {**options, "report": "true"})

    assert (report.what, report.tasks, report.records) == ("the write", 2, 100)
    assert ottla_spark.last_report() == report
    assert str(report) in capfd.readouterr().err


def descriptions(spark: SparkSession) -> list[str]:
    """Descriptions of this application's SQL executions, as its UI shows them."""
    executions = spark._jsparkSession.sharedState().statusStore().executionsList()
    return [str(executions.apply(at).description()) for at in range(executions.size())]


def test_spark_shows_topic_guarantee_and_ledger_of_a_call(
    spark: SparkSession, stream: Stream, options: dict[str, str], once: dict[str, str]
) -> None:
    prefix, topic = once["transactional.id.prefix"], options["topic"]
    ledger = f"ledger '{prefix}' in topic 'ottla-exactly-once-{prefix}'"
    stream.add("1")
    spark.sparkContext.setJobDescription("nightly orders")
    ottla_spark.write(numbers(spark, 0, 1), options)
    after = spark.sparkContext.getLocalProperty("spark.job.description")
    spark.sparkContext.setLocalProperty("spark.job.description", None)  # type: ignore[arg-type]
    stream.run(ottla_spark.foreach_batch(once))

    found = descriptions(spark)
    assert f"nightly orders\nottla: topic '{topic}', at least once" in found
    assert after == "nightly orders"
    [of_batch] = [each for each in found if each.endswith(f"ottla: topic '{topic}', exactly once, {ledger}")]
    assert "batch = 0" in of_batch


def test_a_missing_topic_is_refused_before_a_task(spark: SparkSession, stream: Stream, options: dict[str, str]) -> None:
    """The rows cannot be computed, so that any task would fail for that reason."""
    missing = {**options, "topic": "missing", "kafka.max.block.ms": "1000"}
    failing = numbers(spark, 0, 1).selectExpr("cast(raise_error('a task began') as string) as value")
    with pytest.raises(InvalidWriteError, match="topic 'missing' does not exist"):
        ottla_spark.write(failing, missing)
    stream.add("1")
    with pytest.raises(StreamingQueryException, match="topic 'missing' does not exist"):
        stream.run(
            ottla_spark.foreach_batch(missing),
            frame=stream.frame().selectExpr("cast(raise_error('a task began') as string) as value"),
        )


def test_a_call_writes_an_empty_frame_if_no_broker_can_be_reached(spark: SparkSession) -> None:
    unreachable = {"kafka.bootstrap.servers": "127.0.0.1:1", "topic": "t"}
    without_partitions = spark.createDataFrame(spark.sparkContext.emptyRDD(), "value string")

    for frame in (numbers(spark, 0, 2).where("value = 'none'"), numbers(spark, 0, 0), without_partitions):
        assert ottla_spark.write(frame, unreachable).records == 0


@pytest.mark.parametrize("frame", [[("a",)], pa.table({"value": ["a"]})], ids=["list", "table"])
def test_a_table_that_is_no_frame_of_spark_is_refused(frame: Any) -> None:
    with pytest.raises(InvalidWriteError, match=r"pass a DataFrame of Spark, not a (list|Table)"):
        ottla_spark.write(frame, {"kafka.bootstrap.servers": "127.0.0.1:1", "topic": "t"})


def test_a_call_reports_all_problems_before_a_task(spark: SparkSession, stream: Stream) -> None:
    stream.add("1")
    with pytest.raises(InvalidWriteError) as refused:
        ottla_spark.write(
            stream.frame().selectExpr("1 as value"),
            {"bogus": "1", "guarantee": "exactly-once", "kafka.client.id": None, "kafka.partitioner.class": object},  # type: ignore[dict-item]
        )

    said = str(refused.value)
    assert "option 'bogus' is not known" in said
    assert "option guarantee=exactly-once is for streams" in said
    assert "call the one that ottla_spark.foreach_batch(options) returns, with the frame and the batch id" in said
    assert "option kafka.client.id is None; give it a value, or leave it out" in said
    assert "option kafka.partitioner.class is the object builtins.object; the options reach the tasks as text" in said
    assert "the rows are those of a stream; pass ottla_spark.foreach_batch(options)" in said
    assert "column 'value' has the unsupported type int; it must be string or binary" in said
    assert "there is no topic" in said


def test_a_call_takes_values_as_spark_option_does(
    spark: SparkSession, kafka: KafkaCluster, options: dict[str, str]
) -> None:
    given: dict[str, str | int | bool] = {**options, "kafka.enable.idempotence": True, "report": False}
    given["kafka.linger.ms"] = 0

    ottla_spark.write(numbers(spark, 0, 1), given)

    assert values(arrived(kafka, options["topic"])) == [b"0"]


def test_a_row_that_cannot_be_sent_fails_the_call_with_its_position(
    spark: SparkSession, options: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    frame = spark.range(0, 2, 1, 1).selectExpr("'v' as value", "cast(-id as int) as partition")

    with pytest.raises(PySparkException, match="row 2 of Spark partition 0 was refused: column 'partition' is neg"):
        ottla_spark.write(frame, options)

    assert "the write failed; the records that its tasks had sent by then stay in Kafka" in caplog.messages


def test_micro_batches_arrive_by_foreach_batch(
    stream: Stream, kafka: KafkaCluster, options: dict[str, str], capfd: pytest.CaptureFixture[str]
) -> None:
    stream.add("1", "2")
    stream.add("3")
    sink = ottla_spark.foreach_batch({**options, "report": "true"})
    stream.run(sink)
    stream.add("4")
    stream.run(sink)

    found = values(arrived(kafka, options["topic"]))
    assert sorted(found[:3], key=str) == [b"1", b"2", b"3"]
    assert found[3:] == [b"4"]
    report = ottla_spark.last_report()
    assert report is not None
    assert (report.what, report.records) == ("micro-batch 2", 1)
    assert "ottla: micro-batch 0" in capfd.readouterr().err


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_changed_rows_of_a_result_arrive_in_the_output_mode_update(
    stream: Stream, once: dict[str, str], guarantee: str
) -> None:
    options = once if guarantee == "exactly-once" else {key: once[key] for key in ("kafka.bootstrap.servers", "topic")}
    for rows in (("a", "b", "a"), ("b",)):
        stream.add(*rows)
    counted = stream.frame().groupBy("value").count().selectExpr("concat(value, count) as value")

    stream.run(ottla_spark.foreach_batch(options), frame=counted, mode="update")

    assert committed(options) == [b"a2", b"b1", b"b2"]


def test_a_micro_batch_that_spark_repeats_is_written_once(stream: Stream, once: dict[str, str]) -> None:
    stream.add("1", "2")
    stream.add("3")
    stream.run(ottla_spark.foreach_batch(once))
    stream.lose_commit(1)
    stream.run(ottla_spark.foreach_batch(once))

    assert committed(once) == [b"1", b"2", b"3"]


def test_micro_batches_of_refused_rows_alone_are_over_like_others(stream: Stream, once: dict[str, str]) -> None:
    """Some in one of two tasks alone, some in all, and one of the latter is repeated."""
    for rows in (("a", "x", "b"), ("x", "x"), ("c",), ("x",)):
        stream.add(*rows)
    frame = stream.frame().repartition(2, "value").selectExpr("value", "if(value = 'x', -1, null) as partition")
    sink = ottla_spark.foreach_batch({**once, "errors.tolerance": "all"})
    stream.run(sink, frame=frame)
    stream.lose_commit(3)
    stream.add("x", "d")
    stream.run(sink, frame=frame)

    assert committed(once) == [b"a", b"b", b"c", b"d"]


@pytest.mark.thorough("test_a_micro_batch_that_spark_repeats_is_written_once has the same micro-batch in a new query")
def test_a_query_that_fails_behind_the_sink_is_written_once(stream: Stream, once: dict[str, str]) -> None:
    sink = ottla_spark.foreach_batch(once)
    failures = [RuntimeError("what follows the sink fails")]

    def function(frame: DataFrame, batch: int) -> None:
        sink(frame, batch)
        if failures:
            raise failures.pop()

    stream.add("1")
    with pytest.raises(StreamingQueryException, match="what follows the sink fails"):
        stream.run(function)
    stream.run(function)  # in the same process, with another run of the same query

    assert committed(once) == [b"1"]


def test_a_second_call_with_one_prefix_is_refused_and_skips_nothing(
    stream: Stream, once: dict[str, str], make_topic: MakeTopic
) -> None:
    other = {**once, "topic": make_topic()}
    prefix = f"{once['transactional.id.prefix']}-other"

    def two(**changed: str) -> Any:
        first = ottla_spark.foreach_batch(once)
        second = ottla_spark.foreach_batch({**other, **changed})

        def function(frame: DataFrame, batch: int) -> None:
            first(frame, batch)
            second(frame, batch)

        return function

    stream.add("1")
    servers = once["kafka.bootstrap.servers"]
    for same in (servers, f"{servers},localhost:{servers.rpartition(':')[2]}"):
        with pytest.raises(StreamingQueryException, match="two calls in one foreachBatch have one prefix"):
            stream.run(two(**{"kafka.bootstrap.servers": same}))
    stream.run(two(**{"transactional.id.prefix": prefix}))

    assert committed(once) == [b"1"]
    assert committed(other) == [b"1"]


def test_exactly_once_outside_of_a_query_is_refused(spark: SparkSession, once: dict[str, str]) -> None:
    with pytest.raises(InvalidWriteError, match="needs the id of a streaming query"):
        ottla_spark.foreach_batch(once)(numbers(spark, 0, 1), 0)

    assert committed(once) == []


@pytest.mark.thorough("test_exactly_once_rules.py has the refusal with a simulated Kafka")
def test_a_new_checkpoint_with_the_prefix_of_another_query_is_refused(
    spark: SparkSession, once: dict[str, str], tmp_path: Path
) -> None:
    first, second = (Stream(spark, tmp_path / name) for name in ("first", "second"))
    first.add("1")
    first.run(ottla_spark.foreach_batch(once))
    second.add("2")
    with pytest.raises(StreamingQueryException, match="belongs to the query"):
        second.run(ottla_spark.foreach_batch(once))

    assert committed(once) == [b"1"]


def test_wrong_options_of_micro_batches_are_refused_before_the_query() -> None:
    with pytest.raises(InvalidWriteError, match="option 'bogus' is not known"):
        ottla_spark.foreach_batch({"kafka.bootstrap.servers": "localhost:9092", "topic": "t", "bogus": "1"})
    with pytest.raises(InvalidWriteError, match=r"needs the option transactional\.id\.prefix"):
        ottla_spark.foreach_batch(
            {"kafka.bootstrap.servers": "localhost:9092", "topic": "t", "guarantee": "exactly-once"}
        )


@pytest.mark.thorough("test_a_call_reports_all_problems_before_a_task has wrong columns")
def test_wrong_columns_of_a_micro_batch_end_the_query(stream: Stream, options: dict[str, str]) -> None:
    stream.add("1")
    frame = stream.frame().selectExpr("cast(value as int) as value")

    with pytest.raises(StreamingQueryException, match="column 'value' has the unsupported type int"):
        stream.run(ottla_spark.foreach_batch(options), frame=frame)
