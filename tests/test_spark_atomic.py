"""All-or-nothing micro-batches on a real broker, with tasks and workers that fail: exactly what was to be written."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest
import spark_atomic_program as program
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from spark_atomic_program import BatchFunction

from ottla import transactions
from ottla.plugins.partitioners.murmur2_hash import murmur2
from ottla_spark.atomic import AtomicSink, BatchRefusedError, atomically, sink
from ottla_spark.atomic.driver import BatchWritten
from ottla_spark.errors import InvalidWriteError
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

PARTITIONS = program.PARTITIONS


@pytest.fixture(scope="module")
def spark(spark_folder: Path) -> SparkSession:
    """A session whose small files are several tasks each, as in the program's own."""
    session = SHARED_SPARK.start(spark_folder).newSession()
    for name, value in program.of_tasks(2).items():
        session.conf.set(name, value)
    return session


@pytest.fixture
def topic(make_topic: MakeTopic) -> str:
    return make_topic(PARTITIONS)


class WrittenBatches:
    """The outcome of batches."""

    def __init__(self, kafka: KafkaCluster, topic: str, **more: object) -> None:
        self.batches: list[BatchWritten] = []
        self.sink = made(kafka, topic, on_batch=self.batches.append, **more)


def made(kafka: KafkaCluster, topic: str, **more: object) -> AtomicSink:
    arguments: dict[str, object] = {"transactional_id": topic, **more}
    return atomically({"kafka.bootstrap.servers": kafka.bootstrap_servers, "topic": topic}, **arguments)  # type: ignore[arg-type]


def committed(kafka: KafkaCluster, topic: str) -> Counter[int]:
    found = read(kafka.bootstrap_servers, topic, partitions=PARTITIONS)
    return Counter(int(value) for values in found for value in values)


def all_of(batches: int) -> Counter[int]:
    return Counter(range(batches * program.ROWS))


def test_every_batch_is_written_once_with_the_partitions_of_java(
    spark: SparkSession, kafka: KafkaCluster, topic: str, tmp_path: Path
) -> None:
    reported = WrittenBatches(kafka, topic)
    for batch in range(3):
        program.put(tmp_path, batch)
    program.run(program.numbers(spark, tmp_path), reported.sink, tmp_path)
    found = read(kafka.bootstrap_servers, topic, partitions=PARTITIONS)
    places = {int(value): place for place, values in enumerate(found) for value in values}

    assert committed(kafka, topic) == all_of(3)
    assert reported.batches == [BatchWritten(batch=batch, records=program.ROWS, attempts=1) for batch in range(3)]
    keyed = {number: place for number, place in places.items() if number % 3}
    assert keyed == {number: (murmur2(b"%d" % number) & 0x7FFFFFFF) % PARTITIONS for number in keyed}


@pytest.mark.thorough("packages/spark/tests/test_atomic_sealed_rows.py has it without Spark")
def test_a_row_with_an_explicit_partition_is_written_there(
    spark: SparkSession, kafka: KafkaCluster, topic: str, tmp_path: Path
) -> None:
    program.put(tmp_path, 0)
    frame = program.numbers(spark, tmp_path).selectExpr("value", f"cast(value % {PARTITIONS} as int) as partition")
    program.run(frame, made(kafka, topic), tmp_path)
    found = read(kafka.bootstrap_servers, topic, partitions=PARTITIONS)

    for place, values in enumerate(found):
        assert Counter(map(int, values)) == Counter(range(place, program.ROWS, PARTITIONS))


def test_rows_name_their_topics(
    spark: SparkSession, kafka: KafkaCluster, make_topic: MakeTopic, tmp_path: Path
) -> None:
    names = [make_topic(PARTITIONS), make_topic(1)]
    program.put(tmp_path, 0)
    which = f"case when value % 5 = 0 then '{names[1]}' else '{names[0]}' end as topic"
    frame = program.numbers(spark, tmp_path).selectExpr("key", "value", which)
    servers = {"kafka.bootstrap.servers": kafka.bootstrap_servers}
    program.run(frame, atomically(servers, transactional_id=names[0], topics=names), tmp_path)
    fives = Counter(number for number in range(program.ROWS) if number % 5 == 0)

    assert committed(kafka, names[0]) == all_of(1) - fives
    assert Counter(map(int, read(kafka.bootstrap_servers, names[1])[0])) == fives


@pytest.mark.thorough("three queries at once; other tests here have one after the other in one Spark")
def test_concurrent_queries_with_different_ids_do_not_affect_each_other(
    spark: SparkSession, kafka: KafkaCluster, topic: str, tmp_path: Path
) -> None:
    queries = []
    for name in ("a", "b", "c"):
        folder = tmp_path / name
        folder.mkdir()
        for batch in range(2):
            program.put(folder, batch)
        frame = program.numbers(spark, folder).selectExpr(f"concat('{name}', value) as value", "key")
        queries.append(program.started(frame, made(kafka, topic, transactional_id=f"{topic}-{name}"), folder))
    for query in queries:
        query.awaitTermination()
    found = read(kafka.bootstrap_servers, topic, partitions=PARTITIONS)

    assert Counter(value for values in found for value in values) == Counter(
        f"{name}{number}".encode() for name in "abc" for number in range(2 * program.ROWS)
    )


@pytest.mark.thorough("packages/spark/tests/test_atomic_sealed_rows.py has it without Spark")
def test_values_are_built_of_columns_as_in_other_writes(
    spark: SparkSession, kafka: KafkaCluster, topic: str, tmp_path: Path
) -> None:
    program.put(tmp_path, 0)
    frame = program.numbers(spark, tmp_path).selectExpr("key", "cast(value as int) as number", "1 as partition")
    options = {"kafka.bootstrap.servers": kafka.bootstrap_servers, "topic": topic, "value.format": "json"}
    program.run(frame, atomically(options, transactional_id=topic), tmp_path)
    found = read(kafka.bootstrap_servers, topic, partitions=PARTITIONS)

    assert Counter(found[1]) == Counter(b'{"number":%d}' % number for number in range(program.ROWS))


def test_refused_rows_become_dead_letters_of_their_batch(
    spark: SparkSession, kafka: KafkaCluster, topic: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    refused = make_topic()
    program.put(tmp_path, 0)
    frame = program.numbers(spark, tmp_path).selectExpr("key", "value", "if(value % 100 = 7, -1, null) as partition")
    options = {
        "kafka.bootstrap.servers": kafka.bootstrap_servers,
        "topic": topic,
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": refused,
    }
    program.run(frame, atomically(options, transactional_id=topic), tmp_path)
    wrong = Counter(number for number in range(program.ROWS) if number % 100 == 7)

    assert committed(kafka, topic) == all_of(1) - wrong
    assert Counter(map(int, read(kafka.bootstrap_servers, refused)[0])) == wrong


@pytest.mark.parametrize(
    "fault",
    [pytest.param("raises", marks=pytest.mark.thorough("a killed worker has its batch written again, too")), "killed"],
)
def test_a_task_that_dies_after_writing_has_its_batch_written_again(
    spark: SparkSession,
    kafka: KafkaCluster,
    topic: str,
    tmp_path: Path,
    fault: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    faults = program.Faults()
    faults.plan(topic, program.TaskFault(kind=fault), tmp_path / "came to grief")
    monkeypatch.setattr(sink, "TaskWrite", faults)
    monkeypatch.setattr(sink, "SEALED_BATCH_BYTES", program.SEALED_BATCH_BYTES)
    reported = WrittenBatches(kafka, topic)
    for batch in range(2):
        program.put(tmp_path, batch)
    program.run(program.numbers(spark, tmp_path), reported.sink, tmp_path)
    written = read(kafka.bootstrap_servers, topic, partitions=PARTITIONS, isolation="read_uncommitted")

    assert [batch.attempts for batch in reported.batches] == [2, 1]
    assert sum(map(len, written)) > 2 * program.ROWS, "the first attempt wrote nothing: the test tests nothing"
    assert committed(kafka, topic) == all_of(2)


def test_a_batch_in_kafka_but_not_in_the_spark_log_is_not_written_again(
    spark: SparkSession, kafka: KafkaCluster, topic: str, tmp_path: Path
) -> None:
    reported = WrittenBatches(kafka, topic)
    for batch in range(2):
        program.put(tmp_path, batch)
    frame = program.numbers(spark, tmp_path).selectExpr("cast(value % 10 as string) as key", "value")
    counts = frame.groupBy("key").count().selectExpr("key", "cast(count as string) as value")
    program.run(counts, reported.sink, tmp_path, mode="update")
    for name in ("1", ".1.crc"):
        (tmp_path / "checkpoint" / "commits" / name).unlink()
    program.put(tmp_path, 2)
    again = WrittenBatches(kafka, topic)
    program.run(counts, again.sink, tmp_path, mode="update")
    each = program.ROWS // 10

    assert [batch.records for batch in again.batches] == [None, 10]
    assert committed(kafka, topic) == Counter({each: 10, 2 * each: 10, 3 * each: 10})


@pytest.mark.thorough("packages/spark/tests/test_atomic_marker.py has the refusal")
def test_a_checkpoint_that_is_older_than_kafka_is_refused(
    spark: SparkSession, kafka: KafkaCluster, topic: str, tmp_path: Path
) -> None:
    for batch in range(3):
        program.put(tmp_path, batch)
    program.run(program.numbers(spark, tmp_path), made(kafka, topic), tmp_path)
    for log in ("commits", "offsets"):
        for batch in (1, 2):
            (tmp_path / "checkpoint" / log / str(batch)).unlink()
            (tmp_path / "checkpoint" / log / f".{batch}.crc").unlink(missing_ok=True)

    with pytest.raises(StreamingQueryException, match=r"Spark requests batch 1, but Kafka already has batch 2"):
        program.run(program.numbers(spark, tmp_path), made(kafka, topic), tmp_path)
    assert committed(kafka, topic) == all_of(3)


@pytest.mark.thorough("packages/spark/tests/test_atomic_marker.py has both refusals")
def test_a_marker_of_another_query_is_refused_and_a_lost_one_needs_a_flag(
    spark: SparkSession, kafka: KafkaCluster, topic: str, tmp_path: Path
) -> None:
    program.put(tmp_path, 0)
    program.run(program.numbers(spark, tmp_path), made(kafka, topic), tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    program.put(other, 0)
    with pytest.raises(StreamingQueryException, match="give each query its own id"):
        program.run(program.numbers(spark, other), made(kafka, topic), other)
    program.put(tmp_path, 1)
    with pytest.raises(StreamingQueryException, match=r"there is no marker .* begins_with=1"):
        program.run(program.numbers(spark, tmp_path), made(kafka, topic, transactional_id=f"{topic}.2"), tmp_path)
    program.run(
        program.numbers(spark, tmp_path), made(kafka, topic, transactional_id=f"{topic}.2", begins_with=1), tmp_path
    )

    assert committed(kafka, topic) == all_of(2)


@pytest.mark.thorough("packages/spark/tests/test_atomic_marker.py has the refusal")
def test_a_batch_after_one_that_a_function_left_out_is_refused(
    spark: SparkSession, kafka: KafkaCluster, topic: str, tmp_path: Path
) -> None:
    """The marker does not show why the batch is missing: its rows may as well be lost."""

    def with_rows_only(frame: DataFrame, batch: int) -> None:
        if not frame.isEmpty():
            reported.sink(frame, batch)

    reported = WrittenBatches(kafka, topic)
    program.put(tmp_path, 0)
    program.put(tmp_path, 2)
    empty = tmp_path / "in" / "1.csv"
    empty.touch()
    os.utime(empty, (1, 1))
    numbers = program.numbers(spark, tmp_path)
    for _ in range(2):
        with pytest.raises(StreamingQueryException, match="returned without calling the sink for batch 1 "):
            program.run(numbers, with_rows_only, tmp_path)
    program.run(numbers, made(kafka, topic, begins_with=2), tmp_path)

    assert [batch.batch for batch in reported.batches] == [0]
    assert committed(kafka, topic) == all_of(3) - Counter(range(program.ROWS, 2 * program.ROWS))


def test_a_second_call_with_one_id_is_refused_and_skips_nothing(
    spark: SparkSession, kafka: KafkaCluster, topic: str, tmp_path: Path
) -> None:
    def calls(first: AtomicSink, second: AtomicSink) -> BatchFunction:
        def function(frame: DataFrame, batch: int) -> None:
            first(frame, batch)
            first(frame, batch)  # the same rows, which are in Kafka now
            second(frame.selectExpr(f"cast(cast(value + {program.ROWS} as int) as string) as value"), batch)

        return function

    program.put(tmp_path, 0)
    numbers = program.numbers(spark, tmp_path).selectExpr("value")
    one = made(kafka, topic)
    for second in (one, made(kafka, topic)):
        with pytest.raises(StreamingQueryException, match="two calls in one foreachBatch function have one"):
            program.run(numbers, calls(one, second), tmp_path)
    program.run(numbers, calls(one, made(kafka, topic, transactional_id=f"{topic}-2")), tmp_path)

    assert committed(kafka, topic) == all_of(2)


def test_a_row_that_cannot_be_sent_fails_the_batch_without_open_records(
    spark: SparkSession, kafka: KafkaCluster, topic: str, tmp_path: Path
) -> None:
    program.put(tmp_path, 0)
    frame = program.numbers(spark, tmp_path).selectExpr(
        "value", f"case when value = 150 then {PARTITIONS} else cast(value % 4 as int) end as partition"
    )
    with pytest.raises(
        StreamingQueryException, match=rf"row 151 of .* was refused: it is for partition {PARTITIONS} of topic"
    ):
        program.run(frame, made(kafka, topic, attempts=1), tmp_path)

    assert committed(kafka, topic) == Counter()
    assert list(transactions.find_open_transactions({"bootstrap.servers": kafka.bootstrap_servers}, topic)) == []


def test_the_driver_knows_the_number_of_attempts_of_each_stage(spark: SparkSession) -> None:
    with sink.OneStageAttempt(spark, within=60.0) as looking:
        spark.range(10).repartition(2).collect()
        stages = looking.stages()

    assert stages
    assert {stage.currentAttemptId for stage in stages if stage is not None} == {0}
    assert stages[-1] is not None
    assert stages[-1].numTasks == 2  # those that write


def test_outside_of_a_streaming_query_it_is_refused(spark: SparkSession, kafka: KafkaCluster, topic: str) -> None:
    frame = spark.range(3).selectExpr("cast(id as string) as value")

    with pytest.raises(BatchRefusedError, match="the sink was called outside a streaming query"):
        made(kafka, topic)(frame, 0)


def test_all_problems_of_the_options_are_reported_at_once() -> None:
    options = {"guarantee": "exactly-once", "report": "true", "errors.tolerance": "all"}
    with pytest.raises(InvalidWriteError) as caught:
        atomically(options, transactional_id="", attempts=0)
    said = "\n".join(caught.value.problems)

    words = ("bootstrap.servers", "transactional_id", "topics=", "guarantee", "report", "attempts=0", "would skip rows")
    for word in words:
        assert word in said
