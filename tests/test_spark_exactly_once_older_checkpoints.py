"""A checkpoint that is older by one batch: Spark plans its last batch again, with the rows that have arrived since."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import spark_atomic_program as program
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.functions import lit
from pyspark.sql.streaming.query import StreamingQuery

import ottla_spark
from ottla_spark.atomic import atomically
from ottla_spark.exactly_once import accept_other_rows
from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.pytest_plugin import MakeTopic
from spark_kit import SHARED_SPARK
from transactions_kit import read

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.slow,
    # PySpark warns of pandas 3, which it asks for and does not use here.
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]

Options: TypeAlias = Mapping[str, str]
Start: TypeAlias = Callable[[Any, Options, int | None], StreamingQuery]
"""Starts a writer of a stream with these options, and the batch to skip."""


def by_source(writer: Any, options: Options, _skips: int | None) -> StreamingQuery:
    started: StreamingQuery = writer.format("ottla").options(**options).start()
    return started


def by_calls(writer: Any, options: Options, _skips: int | None) -> StreamingQuery:
    started: StreamingQuery = writer.foreachBatch(ottla_spark.foreach_batch(options)).start()
    return started


def as_a_whole(writer: Any, options: Options, skips: int | None) -> StreamingQuery:
    sink = atomically(options, transactional_id=options["topic"], skips=skips)
    started: StreamingQuery = writer.foreachBatch(sink).start()
    return started


def named(prefix: str) -> Options:
    return {"guarantee": "exactly-once", "transactional.id.prefix": prefix}


@pytest.fixture(scope="module")
def spark(spark_folder: Path) -> SparkSession:
    session = SHARED_SPARK.start(spark_folder).newSession()
    session.dataSource.register(ottla_spark.OttlaDataSource)
    return session


@pytest.mark.parametrize("start", [by_source, by_calls, as_a_whole])
def test_a_batch_that_spark_plans_again_with_more_rows_is_refused(
    spark: SparkSession, kafka: KafkaCluster, make_topic: MakeTopic, tmp_path: Path, start: Start
) -> None:
    topic = make_topic()
    options = {"kafka.bootstrap.servers": kafka.bootstrap_servers, "topic": topic}
    if start is not as_a_whole:
        options.update(named(topic))

    def run(skips: int | None = None) -> None:
        frame = spark.readStream.schema("value string").text(str(tmp_path / "in"))
        writer = frame.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
        start(writer.trigger(availableNow=True), options, skips).awaitTermination()

    def rows() -> Counter[int]:
        return Counter(int(value) for value in read(kafka.bootstrap_servers, topic)[0])

    program.put(tmp_path, 0)
    run()
    shutil.copytree(tmp_path / "checkpoint", tmp_path / "copy")
    program.put(tmp_path, 1)
    run()
    shutil.rmtree(tmp_path / "checkpoint")
    (tmp_path / "copy").rename(tmp_path / "checkpoint")
    program.put(tmp_path, 2)
    with pytest.raises(StreamingQueryException, match=r"with 200 rows.*but Spark now has 400 rows"):
        run()
    assert rows() == Counter(range(2 * program.ROWS))

    if start is as_a_whole:
        run(skips=1)
    else:
        accept_other_rows(options)
        run()
    program.put(tmp_path, 3)
    run()

    assert rows() == Counter([*range(2 * program.ROWS), *range(3 * program.ROWS, 4 * program.ROWS)])


@pytest.mark.parametrize("start", [by_source, by_calls])
@pytest.mark.parametrize("by_column", [False, True], ids=["option", "column"])
def test_a_copy_of_a_checkpoint_with_another_topic_skips_no_rows(
    spark: SparkSession, kafka: KafkaCluster, make_topic: MakeTopic, tmp_path: Path, start: Start, by_column: bool
) -> None:
    first, second = make_topic(), make_topic()
    servers = {"kafka.bootstrap.servers": kafka.bootstrap_servers}

    def run(checkpoint: str, topic: str, *, prefix: str = first) -> None:
        frame = spark.readStream.schema("value string").text(str(tmp_path / "in"))
        frame = frame.withColumn("topic", lit(topic)) if by_column else frame
        writer = frame.writeStream.option("checkpointLocation", str(tmp_path / checkpoint))
        options = {**servers, **named(prefix), **({} if by_column else {"topic": topic})}
        start(writer.trigger(availableNow=True), options, None).awaitTermination()

    def rows(topic: str) -> Counter[int]:
        return Counter(int(value) for value in read(kafka.bootstrap_servers, topic)[0])

    program.put(tmp_path, 0)
    run("checkpoint", first)
    shutil.copytree(tmp_path / "checkpoint", tmp_path / "copy")
    program.put(tmp_path, 1)
    run("checkpoint", first)
    with pytest.raises(StreamingQueryException, match=f"in topic '{first}', but now its rows would go to topic"):
        run("copy", second)
    assert (rows(first), rows(second)) == (Counter(range(2 * program.ROWS)), Counter())

    run("copy", second, prefix=second)

    assert rows(second) == Counter(range(program.ROWS, 2 * program.ROWS))
