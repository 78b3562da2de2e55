"""Traces and metrics of writes: a real Spark whose workers export what OpenTelemetry's SDK records to a file."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import format_span_id, format_trace_id
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import ottla_spark
from ottla_spark.exactly_once import write_once
from ottla_spark.worker.traces import FLUSH_MS, task_span
from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.pytest_plugin import MakeTopic
from spark_kit import WITHIN, Write, arrived, local_spark, writing_to

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.spark,
    # mapInArrow looks whether pandas is there, which it has no use for.
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

WORKERS = """
import os

from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import ConsoleMetricExporter, PeriodicExportingMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor

def line(exported):
    return f"{{os.getpid()}} {{exported.to_json(indent=None)}}\\n"

spans = open({folder!r} + "/spans", "a", buffering=1)
tracers = TracerProvider()
tracers.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter(out=spans, formatter=line)))
trace.set_tracer_provider(tracers)
numbers = open({folder!r} + "/metrics", "a", buffering=1)
reader = PeriodicExportingMetricReader(ConsoleMetricExporter(out=numbers, formatter=line), 250)
metrics.set_meter_provider(MeterProvider([reader]))
"""
"""Python runs it in each worker before anything else, as it runs what `opentelemetry-instrument` brings along."""


@attrs.frozen(kw_only=True)
class Exported:
    """What the workers export."""

    folder: Path

    def spans(self, trace_id: str) -> dict[str, list[Mapping[str, Any]]]:
        """The spans of a trace by their names."""
        found: dict[str, list[Mapping[str, Any]]] = {}
        for line in self.folder.joinpath("spans").read_text().splitlines():
            span = json.loads(line.partition(" ")[2])
            if span["context"]["trace_id"] == f"0x{trace_id}":
                found.setdefault(span["name"], []).append(span)
        return found

    def sent(self, topic: str) -> float:
        """The last number of messages that the workers have sent to a topic, together."""
        last: dict[str, float] = {}
        for line in self.folder.joinpath("metrics").read_text().splitlines():
            worker, _, metrics = line.partition(" ")
            for resource in json.loads(metrics)["resource_metrics"]:
                for metric in [each for scope in resource["scope_metrics"] for each in scope["metrics"]]:
                    if metric["name"] == "messaging.client.sent.messages":
                        for point in metric["data"]["data_points"]:
                            if point["attributes"]["messaging.destination.name"] == topic:
                                last[worker] = point["value"]
        return sum(last.values())


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Exported:
    folder = tmp_path_factory.mktemp("telemetry")
    folder.joinpath("sitecustomize.py").write_text(WORKERS.format(folder=str(folder)))
    return Exported(folder=folder)


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory, exported: Exported) -> Iterator[SparkSession]:
    settings = {"spark.executorEnv.PYTHONPATH": str(exported.folder)}
    with local_spark(tmp_path_factory.mktemp("spark"), **settings) as session:
        yield session


@pytest.fixture
def write(kafka: KafkaCluster) -> Write:
    return writing_to(kafka)


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    """The spans of this process, which is the driver's."""
    exporter = InMemorySpanExporter()
    tracers = TracerProvider(shutdown_on_exit=False)
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", tracers)
    return exporter


def frame(spark: SparkSession, rows: int, *, tasks: int = 1) -> DataFrame:
    return spark.range(rows, numPartitions=tasks).select(sf.col("id").cast("string").alias("value"))


def options(kafka: KafkaCluster, topic: str) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": kafka.bootstrap_servers,
        "topic": topic,
        "kafka.interceptor.classes": "opentelemetry",
        "kafka.metric.reporters": "opentelemetry",
        "kafka.client.id": f"writes-{topic}",
    }


def parents(spans: list[Mapping[str, Any]]) -> set[str]:
    return {span["parent_id"] for span in spans}


def ids(spans: list[Mapping[str, Any]]) -> set[str]:
    return {span["context"]["span_id"] for span in spans}


def test_a_trace_goes_from_the_driver_through_tasks_to_the_records(
    spark: SparkSession,
    kafka: KafkaCluster,
    make_topic: MakeTopic,
    driver: InMemorySpanExporter,
    exported: Exported,
) -> None:
    topic = make_topic(partitions=1)
    with trace.get_tracer("nightly").start_as_current_span("nightly") as nightly:
        ottla_spark.write(frame(spark, 10, tasks=2), options(kafka, topic))

    [written, _nightly] = driver.get_finished_spans()
    trace_id = format_trace_id(nightly.get_span_context().trace_id)
    spans = exported.spans(trace_id)
    tasks, tables = spans[f"write task {topic}"], spans[f"send {topic}"]
    assert written.name == f"write {topic}"
    assert written.parent == nightly.get_span_context()
    assert parents(tasks) == {f"0x{format_span_id(written.context.span_id)}"}
    assert {task["attributes"]["spark.partition.id"] for task in tasks} == {0, 1}
    assert parents(tables) == ids(tasks)
    assert sum(table["attributes"]["messaging.batch.message_count"] for table in tables) == 10
    contexts = {dict(record.headers)["traceparent"] for record in arrived(kafka, topic)}
    assert {f"0x{(context or b'').decode().split('-')[2]}" for context in contexts} == ids(tables)
    until = time.monotonic() + WITHIN
    while exported.sent(topic) < 10 and time.monotonic() < until:
        time.sleep(0.1)
    assert exported.sent(topic) == 10


def test_the_data_source_takes_the_context_as_an_option(
    spark: SparkSession, write: Write, make_topic: MakeTopic, exported: Exported
) -> None:
    spark.dataSource.register(ottla_spark.OttlaDataSource)
    topic = make_topic()
    write(frame(spark, 10), topic=topic, traceparent=PARENT)

    tasks = exported.spans(PARENT.split("-")[1])[f"write task {topic}"]
    assert parents(tasks) == {f"0x{PARENT.split('-')[2]}"}


@pytest.mark.thorough(
    "other spans of the same code; test_a_trace_goes_from_the_driver_through_tasks_to_the_records has the whole way"
)
def test_each_micro_batch_has_a_trace(
    spark: SparkSession,
    kafka: KafkaCluster,
    make_topic: MakeTopic,
    driver: InMemorySpanExporter,
    exported: Exported,
    tmp_path: Path,
) -> None:
    topic = make_topic()
    stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).option("numPartitions", 1).load()
    query = (
        stream.selectExpr("CAST(value AS STRING) AS value")
        .limit(10)
        .writeStream.foreachBatch(ottla_spark.foreach_batch(options(kafka, topic)))
        .option("checkpointLocation", str(tmp_path))
        .trigger(once=True)
        .start()
    )
    assert query.awaitTermination(int(WITHIN))

    [batch] = driver.get_finished_spans()
    assert batch.attributes is not None
    assert batch.attributes["spark.streaming.batch.id"] == 0
    assert exported.spans(format_trace_id(batch.context.trace_id))[f"write task {topic}"]


@pytest.mark.thorough(
    "other spans of the same code; test_a_trace_goes_from_the_driver_through_tasks_to_the_records has the whole way"
)
def test_a_job_that_is_written_once_has_one_trace(
    spark: SparkSession, kafka: KafkaCluster, make_topic: MakeTopic, driver: InMemorySpanExporter, exported: Exported
) -> None:
    topic = make_topic()
    once = {**options(kafka, topic), "transactional.id.prefix": f"traced-{topic}"}
    for _ in range(2):
        write_once(frame(spark, 10), once, job_id="monday")

    [written] = driver.get_finished_spans()  # the second run writes nothing
    assert len(exported.spans(format_trace_id(written.context.trace_id))[f"write task {topic}"]) == 1


@pytest.mark.thorough(
    "other spans of the same code; test_a_trace_goes_from_the_driver_through_tasks_to_the_records has the whole way"
)
def test_a_failed_task_is_an_error_in_its_span(
    spark: SparkSession, kafka: KafkaCluster, make_topic: MakeTopic, driver: InMemorySpanExporter, exported: Exported
) -> None:
    topic = make_topic(partitions=1)
    rows = spark.createDataFrame([("a", 7)], "value string, partition int").coalesce(1)
    with pytest.raises(PySparkException, match="partition 7"):
        ottla_spark.write(rows, {**options(kafka, topic), "kafka.max.block.ms": "500"})

    [written] = driver.get_finished_spans()
    [task] = exported.spans(format_trace_id(written.context.trace_id))[f"write task {topic}"]
    assert written.status.is_ok is False
    assert task["status"]["status_code"] == "ERROR"
    assert "partition 7" in task["status"]["description"]


@pytest.mark.parametrize(("reuse", "flushed"), [(None, 1), ("1", 0)])
def test_spans_are_exported_before_a_worker_ends_with_its_task(
    monkeypatch: pytest.MonkeyPatch, reuse: str | None, flushed: int
) -> None:
    """PySpark sets the variable in workers that run other tasks, too."""
    monkeypatch.delenv("SPARK_REUSE_WORKER", raising=False)
    if reuse is not None:
        monkeypatch.setenv("SPARK_REUSE_WORKER", reuse)
    flushes: list[int] = []

    class Flushing(TracerProvider):
        def force_flush(self, timeout_millis: int = 30_000) -> bool:
            flushes.append(timeout_millis)
            return True

    monkeypatch.setattr(trace, "_TRACER_PROVIDER", Flushing(shutdown_on_exit=False))
    with task_span({}, topic="t"):
        assert not flushes

    assert flushes == [FLUSH_MS] * flushed


def test_a_program_without_opentelemetry_does_not_import_it() -> None:
    program = """
        import sys
        from ottla_spark.worker.traces import task_span, write_span

        with write_span({}, topic="t") as carrier, task_span(carrier, topic="t"):
            print(carrier, "opentelemetry" in sys.modules)
    """
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=True, timeout=WITHIN
    )

    assert ended.stdout == "{} False\n"
