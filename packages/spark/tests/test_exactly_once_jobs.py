"""Batch jobs that are written once: a real Spark, a real Kafka, read back by a reader of committed records."""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition
from py4j.protocol import Py4JJavaError
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from ottla import Producer, TransactionTimeoutError
from ottla.transactions import PreparedTransaction, find_open_transactions
from ottla_spark import InvalidWriteError, last_report
from ottla_spark.exactly_once import LeaseLostError, LedgerMismatchError, accept_loss, forget, jobs, write_once
from ottla_spark.exactly_once.__main__ import main
from ottla_spark.exactly_once.kafka.cluster_client import KafkaClusterClient
from ottla_spark.exactly_once.task import BatchName
from ottla_spark.exactly_once.transactional_ids import task_id
from ottla_spark.exactly_once.writer import BatchWriter, TaskPrepared
from ottla_spark.sink.job import JobInput, job_input, run_job
from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.pytest_plugin import MakeTopic
from spark_kit import WITHIN

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.spark,
    # mapInArrow looks whether pandas is there, which it has no use for.
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]


LATE = 1.5  # seconds


@pytest.fixture
def options(kafka: KafkaCluster, make_topic: MakeTopic) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": kafka.bootstrap_servers,
        "transactional.id.prefix": f"job-{uuid.uuid4().hex[:8]}",
        "topic": make_topic(),
    }


def visible(options: dict[str, str]) -> Counter[bytes]:
    """The values of committed records."""
    settings: dict[str, Any] = {"group.id": "reader", "isolation.level": "read_committed", "enable.partition.eof": True}
    consumer = Consumer({"bootstrap.servers": options["kafka.bootstrap.servers"], "log_level": 0, **settings})
    try:
        consumer.assign([TopicPartition(options["topic"], 0, 0)])
        found: Counter[bytes] = Counter()
        while True:
            [message] = consumer.consume(1, timeout=WITHIN)
            error = message.error()
            if error is None:
                found[message.value() or b""] += 1
            else:
                assert error.code() == KafkaError._PARTITION_EOF
                return found
    finally:
        consumer.close()


def numbers(spark: SparkSession, end: int, value: str = "cast(id as string)") -> DataFrame:
    return spark.range(0, end, 1, 3).selectExpr(f"{value} as value")


def test_a_job_returns_when_readers_see_its_records(
    spark: SparkSession, options: dict[str, str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Also one that an earlier run has written: it may have ended before its readers saw the last record."""
    awaited: list[Sequence[PreparedTransaction]] = []

    def await_markers(self: KafkaClusterClient, transactions: Sequence[PreparedTransaction], *, within: float) -> int:
        awaited.append(transactions)
        if len(awaited) == 3:
            raise TransactionTimeoutError("no answer")
        return len(transactions) - 1

    monkeypatch.setattr(KafkaClusterClient, "await_markers", await_markers)
    outcomes = [write_once(numbers(spark, 100), options, job_id="monday") for _ in range(3)]

    assert [outcome.written for outcome in outcomes] == [True, False, False]
    assert [set(each) for each in awaited] == [set(awaited[0])] * 3
    assert len(awaited[0]) == 3
    assert "readers do not see the records of 2 of its 3 transactions yet" in caplog.text
    assert "is committed, but whether readers see all of its records is not known: no answer" in caplog.text


def test_a_repeated_job_writes_nothing_and_says_so(spark: SparkSession, options: dict[str, str]) -> None:
    first = write_once(numbers(spark, 100), options, job_id="monday")
    again = write_once(numbers(spark, 100), options, job_id="monday")
    other = write_once(numbers(spark, 10), options, job_id="tuesday")

    assert (first.written, first.records) == (True, 100)
    assert (again.written, again.records) == (False, 100)
    assert (other.written, other.records) == (True, 10)
    assert visible(options) == Counter(
        [b"%d" % number for number in range(100)] + [b"%d" % number for number in range(10)]
    )


def test_a_job_that_another_run_ends_meanwhile_says_so(
    spark: SparkSession, options: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one ends after this run has read the ledger."""

    def late(frame: DataFrame, given: Any) -> Any:
        monkeypatch.setattr(jobs, "job_input", job_input)
        write_once(numbers(spark, 100), options, job_id="monday")
        return job_input(frame, given)

    monkeypatch.setattr(jobs, "job_input", late)
    outcome = write_once(numbers(spark, 70), options, job_id="monday")

    assert (outcome.written, outcome.records) == (False, 100)
    assert visible(options) == Counter(b"%d" % number for number in range(100))


def test_a_job_whose_rows_are_visible_needs_no_further_request(
    spark: SparkSession, options: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Brokers do not respond any more, once the job is done."""

    def unreachable(_settings: Any) -> Any:
        raise TransactionTimeoutError("no broker can be reached")

    def last(given: JobInput, writer: BatchWriter) -> Any:
        results = run_job(given, writer)
        monkeypatch.setattr(jobs, "connected", unreachable)
        return results

    monkeypatch.setattr(jobs, "run_job", last)
    outcome = write_once(numbers(spark, 100), options, job_id="monday")

    assert (outcome.written, outcome.records) == (True, 100)
    assert visible(options) == Counter(b"%d" % number for number in range(100))


def test_a_failed_job_leaves_nothing_and_can_be_repeated(spark: SparkSession, options: dict[str, str]) -> None:
    broken = numbers(spark, 100, "if(id = 99, raise_error('broken row'), cast(id as string))")
    with pytest.raises((PySparkException, Py4JJavaError), match="broken row"):  # the latter on PySpark 3.5
        write_once(broken, options, job_id="monday")
    outcome = write_once(numbers(spark, 100), options, job_id="monday")

    assert outcome.written
    assert visible(options) == Counter(b"%d" % number for number in range(100))


def test_refused_rows_become_dead_letters_of_the_same_job(
    spark: SparkSession, options: dict[str, str], kafka: KafkaCluster, make_topic: MakeTopic
) -> None:
    refused = make_topic()
    rows = numbers(spark, 100).selectExpr(
        "if(value = 55, repeat('x', 1100000), value) as value", "if(value % 10 = 3, -1, null) as partition"
    )
    tolerant = {**options, "errors.tolerance": "all", "errors.deadletterqueue.topic.name": refused}
    first = write_once(rows, tolerant, job_id="monday")
    again = write_once(rows, tolerant, job_id="monday")

    assert (first.written, first.records, again.written) == (True, 100, False)
    assert visible(options) == Counter(b"%d" % number for number in range(100) if number % 10 != 3 and number != 55)
    letters = Counter(b"%d" % number for number in range(3, 100, 10))
    assert visible({**options, "topic": refused}) == letters + Counter([b""])  # of the row that is too large


@pytest.mark.parametrize("refused", ["id < 34", "true"], ids=["one task", "every task"])
def test_a_job_skips_all_rows_of_a_task(spark: SparkSession, options: dict[str, str], refused: str) -> None:
    rows = spark.range(0, 100, 1, 3).selectExpr("cast(id as string) as value", f"if({refused}, -1, null) as partition")
    tolerant = {**options, "errors.tolerance": "all", "report": "true"}
    left = range(34, 100) if refused == "id < 34" else ()
    first = write_once(rows, tolerant, job_id="monday")
    report = last_report()
    again = write_once(rows, tolerant, job_id="monday")

    assert report is not None
    assert (report.records, report.refused) == (len(left), 100 - len(left))
    assert (first.written, first.records, again.written, again.records) == (True, len(left), False, len(left))
    assert visible(options) == Counter(b"%d" % number for number in left)


def test_a_run_that_lost_its_job_to_another_one_keeps_no_reader_waiting(
    spark: SparkSession, options: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one ends after this run has planned, and before its tasks begin: Spark runs fenced tasks again."""

    def late(given: JobInput, writer: BatchWriter) -> Any:
        monkeypatch.setattr(jobs, "run_job", run_job)
        write_once(numbers(spark, 100), options, job_id="monday")
        return run_job(given, writer)

    monkeypatch.setattr(jobs, "run_job", late)
    with pytest.raises(LeaseLostError, match="another driver has taken the ledger over"):
        write_once(numbers(spark, 100), options, job_id="monday")

    assert find_open_transactions(connection(options), options["transactional.id.prefix"]) == []
    assert visible(options) == Counter(b"%d" % number for number in range(100))


def test_a_failed_run_that_lost_its_job_leaves_nothing_open(
    spark: SparkSession, options: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only one of its tasks fails."""

    def late(given: JobInput, writer: BatchWriter) -> Any:
        monkeypatch.setattr(jobs, "run_job", run_job)
        write_once(numbers(spark, 100), options, job_id="monday")
        return run_job(given, writer)

    monkeypatch.setattr(jobs, "run_job", late)
    broken = numbers(spark, 100, "if(id = 99, raise_error('broken row'), cast(id as string))")
    with pytest.raises((PySparkException, Py4JJavaError), match="broken row"):
        write_once(broken, options, job_id="monday")

    assert find_open_transactions(connection(options), options["transactional.id.prefix"]) == []


def late_writer(folder: Path) -> type[BatchWriter]:
    """Writers whose first task waits with its first row, as for a busy coordinator.

    The wait is over before Spark kills the worker, two to four seconds after the job has failed.
    """

    class LateWriter(BatchWriter):
        def prepare(self, rows: Iterator[pa.RecordBatch], of: BatchName) -> TaskPrepared:
            def late() -> Iterator[pa.RecordBatch]:
                for batch in rows:
                    if TaskContext.get().partitionId() == 0 and not (folder / "waits").exists():  # type: ignore[union-attr]
                        (folder / "waits").touch()
                        time.sleep(LATE)
                    yield batch

            return super().prepare(late(), of)

    return LateWriter


def failing_when_another_waits(spark: SparkSession, folder: Path) -> DataFrame:
    """Two tasks, of which the second one fails as soon as the first one waits."""
    waits = str(folder / "waits")

    def through(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            deadline = time.monotonic() + WITHIN
            while TaskContext.get().partitionId() == 1:  # type: ignore[union-attr]
                if Path(waits).exists() or time.monotonic() > deadline:
                    raise RuntimeError("broken row")
                time.sleep(0.02)
            yield batch

    return spark.range(0, 100, 1, 2).selectExpr("cast(id as string) as value").mapInArrow(through, "value string")


def test_a_failed_run_ends_what_its_last_task_begins_later(
    spark: SparkSession, options: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark kills the other tasks only after it has reported the failure: this one writes meanwhile."""
    monkeypatch.setattr(jobs, "BatchWriter", late_writer(tmp_path))
    with pytest.raises((PySparkException, Py4JJavaError), match="broken row"):
        write_once(failing_when_another_waits(spark, tmp_path), options, job_id="monday")
    time.sleep(LATE)

    assert find_open_transactions(connection(options), options["transactional.id.prefix"]) == []


def test_a_finished_job_with_another_topic_is_refused(
    spark: SparkSession, options: dict[str, str], make_topic: MakeTopic
) -> None:
    other = {**options, "topic": make_topic()}
    write_once(numbers(spark, 10), options, job_id="monday")
    with pytest.raises(LedgerMismatchError, match=rf"rows are in topic '{options['topic']}': with topic '.*' it would"):
        write_once(numbers(spark, 10), other, job_id="monday")
    forget(other, job_id="monday")
    again = write_once(numbers(spark, 10), other, job_id="monday")

    assert again.written
    assert visible(options) == visible(other) == Counter(b"%d" % number for number in range(10))


@pytest.mark.parametrize("remedy", ["run it again", "forget it"])
def test_a_finished_job_ends_what_an_earlier_run_left_open(
    spark: SparkSession, options: dict[str, str], remedy: str, capsys: pytest.CaptureFixture[str]
) -> None:
    prefix = options["transactional.id.prefix"]
    arguments = [prefix, "--job-id", "monday", "--bootstrap-servers", options["kafka.bootstrap.servers"]]
    write_once(numbers(spark, 10), options, job_id="monday")
    left = task_id(f"{prefix}/job/monday", process="0" * 32, number=0)
    with Producer({**connection(options), "transactional.id": left}) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(options["topic"], b"never seen").result(timeout=WITHIN)
        producer.prepare_transaction()
    main(arguments)
    said = capsys.readouterr().out
    if remedy == "run it again":
        assert not write_once(numbers(spark, 10), options, job_id="monday").written
    else:
        assert forget(options, job_id="monday") is not None
    main(arguments)

    assert f"{left}: open; not in the ledger, and the job is finished" in said
    assert "Run the job again with the same job_id: it writes nothing, and aborts it" in said
    assert "no transaction is open" in capsys.readouterr().out
    assert find_open_transactions(connection(options), prefix) == []


def connection(options: dict[str, str]) -> dict[str, str]:
    return {"bootstrap.servers": options["kafka.bootstrap.servers"]}


@pytest.mark.thorough("test_exactly_once_rules.py has it with a simulated Kafka")
def test_a_forgotten_job_is_written_again(spark: SparkSession, options: dict[str, str]) -> None:
    write_once(numbers(spark, 10), options, job_id="monday")
    forgotten = forget(options, job_id="monday")
    again = write_once(numbers(spark, 10), options, job_id="monday")

    assert forgotten is not None
    assert again.written
    assert set(visible(options).values()) == {2}


@pytest.mark.thorough("test_spark_calls.py has JSON and reports of other writes")
def test_a_job_writes_json_and_reports_like_any_other_write(spark: SparkSession, options: dict[str, str]) -> None:
    frame = numbers(spark, 30, "named_struct('id', id)")
    write_once(frame, {**options, "value.format": "json", "report": "true"}, job_id="monday")
    report = last_report()

    assert report is not None
    assert (report.records, dict(report.partitions)) == (30, {(options["topic"], 0): 30})
    assert visible(options) == Counter(b'{"id":%d}' % number for number in range(30))


def test_an_invalid_job_is_refused_before_it_starts(spark: SparkSession, options: dict[str, str]) -> None:
    without_prefix = {key: value for key, value in options.items() if key != "transactional.id.prefix"}

    with pytest.raises(InvalidWriteError, match=r"transactional\.id\.prefix"):
        write_once(numbers(spark, 1), without_prefix, job_id="monday")
    with pytest.raises(InvalidWriteError, match="acks"):
        write_once(numbers(spark, 1), {**options, "kafka.acks": "1"}, job_id="monday")
    with pytest.raises(InvalidWriteError, match="job_id is empty"):
        write_once(numbers(spark, 1), options, job_id="")
    with pytest.raises(InvalidWriteError, match="'value' has the unsupported type bigint"):
        write_once(numbers(spark, 1, "id"), options, job_id="monday")
    with pytest.raises(LedgerMismatchError, match="nothing to accept"):
        accept_loss(options, job_id="monday")
