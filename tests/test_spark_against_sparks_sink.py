"""The same frames through Spark's own Kafka sink and through ours: what arrives is the same.

Where Spark's sink leaves the partition to chance (rows without key and partition), the partition is not compared.
"""

from __future__ import annotations

import random
import uuid
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeAlias

import pytest
from long_forms import share
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from ottla_testkit.errors import KafkaUnavailableError
from ottla_testkit.java.spark_sink import spark_sink_jars
from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.pytest_plugin import go_without
from readback import read_back
from spark_kit import SHARED_SPARK, WITHIN

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

SINKS: Final = ("kafka", "ottla")
PARTITIONS: Final = 3
TOPICS: Final = 3

Row: TypeAlias = tuple[Any, ...]
Record: TypeAlias = tuple[str, int | None, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]

COLUMNS: Final = (
    "topic string, partition int, key {key}, value {value}, headers array<struct<key:string,value:binary>>, note double"
)


@pytest.fixture(scope="module")
def spark(spark_folder: Path) -> SparkSession:
    try:
        jars = spark_sink_jars()
    except KafkaUnavailableError as error:
        go_without(error)
    session = SHARED_SPARK.start(spark_folder).newSession()
    for jar in jars:
        session.sql(f"ADD JAR '{jar}'")
    return session


class BothSinks:
    """Writes with either into topics of its own; names in a frame's column `topic` end with the sink's."""

    def __init__(self, kafka: KafkaCluster) -> None:
        self._kafka = kafka
        self._names = {sink: [f"{uuid.uuid4().hex}.{number}" for number in range(TOPICS)] for sink in SINKS}
        for names in self._names.values():
            for name in names:
                kafka.create_topic(name, partitions=PARTITIONS)

    def topic(self, sink: str, number: int = 0) -> str:
        """The sink's own topic with this number."""
        return self._names[sink][number]

    def write(self, sink: str, frame: DataFrame, **options: str) -> None:
        """One batch write."""
        writer = frame.write.format(sink).mode("append").option("kafka.bootstrap.servers", self.servers)
        writer.options(**options).save()

    @property
    def servers(self) -> str:
        return self._kafka.bootstrap_servers

    def arrived(self, sink: str, *, by_chance: bool = False) -> Counter[Record]:
        """Everything in its topics. `by_chance`: without the partitions of records without a key."""
        return Counter(
            (
                f"topic {number}",
                None if by_chance and record.key is None else record.partition,
                record.key,
                record.value,
                record.headers,
            )
            for number, topic in enumerate(self._names[sink])
            for record in read_back(self.servers, topic, partitions=PARTITIONS)
        )


@pytest.fixture
def both(kafka: KafkaCluster) -> BothSinks:
    return BothSinks(kafka)


def random_rows(seed: int, *, key: str, value: str, count: int = 1500) -> list[Row]:
    """Rows with everything that a column can hold; the topic as a number, to be named for each sink."""
    print(f"seed {seed}")
    choose = random.Random(seed)

    def text() -> str:
        return "".join(choose.choices("abcä€😀\n\0 ", k=choose.choice((0, 1, 7, 40))))

    def raw() -> bytearray:
        return bytearray(choose.randbytes(choose.choice((0, 1, 12, 300))))

    of_type: dict[str, Callable[[], Any]] = {"string": text, "binary": raw}

    def rarely_null(make: Callable[[], Any]) -> Any:
        return None if choose.random() < 0.15 else make()

    def headers() -> list[Row]:
        return [(text(), rarely_null(raw)) for _ in range(choose.choice((0, 1, 1, 4)))]

    def row() -> Row:
        row_key, partition = rarely_null(of_type[key]), choose.randrange(PARTITIONS)
        placed = partition if row_key is None else rarely_null(lambda: partition)  # never left to chance
        topic = choose.randrange(TOPICS)
        return topic, placed, row_key, rarely_null(of_type[value]), rarely_null(headers), choose.random()

    return [row() for _ in range(count)]


def for_sink(spark: SparkSession, both: BothSinks, sink: str, rows: list[Row], schema: str) -> DataFrame:
    """The rows with the sink's own topics."""
    return spark.createDataFrame([(both.topic(sink, number), *rest) for number, *rest in rows], schema)


@pytest.mark.parametrize(
    ("key", "value"),
    share(
        [pytest.param("string", "binary"), pytest.param("binary", "string")],
        gate=1,
        why="the stream has the other types of both columns",
    ),
)
def test_both_sinks_write_the_same_records_from_all_columns(
    spark: SparkSession, both: BothSinks, key: str, value: str
) -> None:
    rows = random_rows(random.randrange(10**6), key=key, value=value)
    for sink in SINKS:
        both.write(sink, for_sink(spark, both, sink, rows, COLUMNS.format(key=key, value=value)))

    theirs = both.arrived("kafka")
    assert both.arrived("ottla") == theirs
    assert theirs.total() == len(rows)


@pytest.mark.parametrize(
    "columns",
    share(
        [["value"], ["value", "note", "key"], ["partition", "value"], ["headers", "partition", "key", "value"]],
        gate=2,
        why="other columns; test_spark_columns.py has every choice of them without Spark",
    ),
    ids="-".join,
)
def test_both_sinks_write_the_same_records_if_columns_are_missing(
    spark: SparkSession, both: BothSinks, columns: list[str]
) -> None:
    rows = random_rows(random.randrange(10**6), key="string", value="binary", count=300)
    for sink in SINKS:
        frame = for_sink(spark, both, sink, rows, COLUMNS.format(key="string", value="binary"))
        both.write(sink, frame.select(*columns), topic=both.topic(sink))

    by_chance = not {"key", "partition"} <= set(columns)
    theirs = both.arrived("kafka", by_chance=by_chance)
    assert both.arrived("ottla", by_chance=by_chance) == theirs
    assert theirs.total() == len(rows)


def test_the_topic_option_overrides_the_column_in_both(spark: SparkSession, both: BothSinks) -> None:
    rows = random_rows(1, key="string", value="string", count=100)
    for sink in SINKS:
        frame = for_sink(spark, both, sink, rows, COLUMNS.format(key="string", value="string"))
        both.write(sink, frame, topic=f" {both.topic(sink, 2)} ")

    assert both.arrived("ottla") == both.arrived("kafka")
    assert {topic for topic, *_ in both.arrived("ottla")} == {"topic 2"}


def test_both_sinks_write_the_same_text_of_other_column_types(spark: SparkSession, both: BothSinks) -> None:
    casts = {
        "date": "date'2013-01-01'",
        "decimal": "1.50bd",
        "interval": "interval 3 days",
        "timestamp": "timestamp'2013-01-01 05:00:00.123456'",
        "timestamp_ntz": "timestamp_ntz'2013-01-01 05:00:00.123456'",
        "float": "float('nan')",
        "double": "1e300d",
        "boolean": "true",
        "bigint": "-9223372036854775808",
    }
    values = ", ".join(f"('{key}', cast({value} as string))" for key, value in casts.items())
    structs = "named_struct('a', 1, 'b', array(1.5d, null), 'c', map('k', date'2013-01-01'))"
    frame = spark.sql(f"values {values}, ('json', to_json({structs})), ('xml', to_xml({structs})) as t(key, value)")
    for sink in SINKS:
        both.write(sink, frame, topic=both.topic(sink))

    assert both.arrived("ottla") == both.arrived("kafka")


def write_stream(spark: SparkSession, both: BothSinks, sink: str, folder: Path, **options: str) -> int:
    """Write what is new in a folder `in`, a file in each micro-batch; returns how many there were."""
    schema = COLUMNS.format(key="binary", value="string")
    query = (
        spark.readStream.schema(schema)
        .option("maxFilesPerTrigger", 1)
        .parquet(str(folder / "in"))
        .writeStream.format(sink)
        .option("kafka.bootstrap.servers", both.servers)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .options(**options)
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(int(WITHIN))
    return len(query.recentProgress)


def test_both_sinks_write_the_same_records_of_a_stream(spark: SparkSession, both: BothSinks, tmp_path: Path) -> None:
    rows = random_rows(random.randrange(10**6), key="binary", value="string", count=400)
    for sink in SINKS:
        frame = for_sink(spark, both, sink, rows, COLUMNS.format(key="binary", value="string"))
        frame.repartition(3).write.parquet(str(tmp_path / sink / "in"))
        assert write_stream(spark, both, sink, tmp_path / sink) == 3

    theirs = both.arrived("kafka")
    assert both.arrived("ottla") == theirs
    assert theirs.total() == len(rows)


def guaranteed(guarantee: str) -> dict[str, dict[str, str]]:
    """Each sink's options of a guarantee, which only ours has; the prefix is new."""
    once = {"guarantee": guarantee, "transactional.id.prefix": f"p-{uuid.uuid4().hex[:8]}"}
    return {"kafka": {}, "ottla": once if guarantee == "exactly-once" else {"guarantee": guarantee}}


@pytest.mark.parametrize(
    "guarantee",
    [
        pytest.param("at-least-once", marks=pytest.mark.thorough("the other guarantee has this way and a ledger")),
        "exactly-once",
    ],
)
def test_a_stream_of_the_spark_sink_continues_with_its_checkpoint(
    spark: SparkSession, both: BothSinks, tmp_path: Path, guarantee: str
) -> None:
    rows = random_rows(random.randrange(10**6), key="binary", value="string", count=40)
    frame = for_sink(spark, both, "ottla", rows, COLUMNS.format(key="binary", value="string")).coalesce(1)
    options = guaranteed(guarantee)
    for sink in SINKS:
        frame.write.mode("append").parquet(str(tmp_path / "in"))
        write_stream(spark, both, sink, tmp_path, topic=both.topic(sink), **options[sink])

    assert both.arrived("ottla") == both.arrived("kafka")
    assert both.arrived("ottla").total() == len(rows)


@pytest.mark.thorough("the test before it has a checkpoint of Spark's sink, and test_spark_calls.py a lost commit")
def test_a_micro_batch_left_by_the_spark_sink_is_written_once_more(
    spark: SparkSession, both: BothSinks, tmp_path: Path
) -> None:
    """Our ledger does not know what the other sink has sent; what ours has written, it does not write again."""
    rows = random_rows(random.randrange(10**6), key="binary", value="string", count=40)
    frame = for_sink(spark, both, "ottla", rows, COLUMNS.format(key="binary", value="string")).coalesce(1)
    frame.write.parquet(str(tmp_path / "in"))
    options = guaranteed("exactly-once")
    for sink in (*SINKS, "ottla"):
        write_stream(spark, both, sink, tmp_path, topic=both.topic(sink), **options[sink])
        for name in ("0", ".0.crc"):  # as if the driver had died before Spark recorded that this batch is over
            (tmp_path / "checkpoint" / "commits" / name).unlink()

    assert both.arrived("ottla") == both.arrived("kafka")
    assert both.arrived("ottla").total() == len(rows)


REFUSALS: Final = (PySparkException, Py4JJavaError)  # Spark's sink has no words for a header without a name
REFUSED: Final = {
    "no value": "select 'k' as key",
    "a value of another case": "select 'v' as VALUE",
    "a value that is a number": "select 1 as value",
    "a key that is a number": "select 'v' as value, 1 as key",
    "a partition that is a long": "select 'v' as value, 1L as partition",
    "headers that are a map": "select 'v' as value, map('a', 'b') as headers",
    "headers whose values are text": "select 'v' as value, array(named_struct('key', 'a', 'value', 'b')) as headers",
    "a header without a name": (
        "select 'v' as value, array(named_struct('key', cast(null as string), 'value', cast('b' as binary))) as headers"
    ),
    "a negative partition": "select 'v' as value, -1 as partition",
}


@pytest.mark.parametrize(
    "query",
    share(
        [pytest.param(query, id=name) for name, query in REFUSED.items()],
        gate=3,
        why="other refusals; test_spark_columns.py and test_spark_records.py have each of ours without Spark",
    ),
)
def test_everything_that_the_spark_sink_refuses_is_refused(spark: SparkSession, both: BothSinks, query: str) -> None:
    frame = spark.sql(query)
    for sink in SINKS:
        with pytest.raises(REFUSALS):
            both.write(sink, frame, topic=both.topic(sink))

    assert both.arrived("ottla") == both.arrived("kafka") == Counter()


@pytest.mark.parametrize(
    "topic", share(["null", "1"], gate=1, why="test_spark_columns.py has other types of topics without Spark")
)
def test_a_topic_column_that_the_spark_sink_refuses_is_refused(
    spark: SparkSession, both: BothSinks, topic: str
) -> None:
    frame = spark.sql(f"select 'v' as value, {topic} as topic")
    for sink in SINKS:
        with pytest.raises(REFUSALS):
            both.write(sink, frame)
