"""Writes with Spark's own settings that change how it runs Python, and in stages that it runs again as a whole."""

from __future__ import annotations

import contextlib
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import ottla_spark
from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.pytest_plugin import MakeTopic
from spark_kit import SHARED_SPARK, local_spark
from transactions_kit import read

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]

JOB_ERRORS = (PySparkException, Py4JJavaError)
REPETITIONS = 5
ROWS = 400
TASKS = 2
SETTINGS = {
    "workers that end with their task, of two processors": {
        "spark_python_worker_reuse": "false",
        "spark_task_cpus": "2",
    },
    "workers without a daemon, batches of three rows": {
        "spark_python_use_daemon": "false",
        "spark_sql_execution_arrow_maxRecordsPerBatch": "3",
    },
}


@pytest.fixture
def servers(kafka: KafkaCluster) -> dict[str, str]:
    return {"kafka.bootstrap.servers": kafka.bootstrap_servers}


def rows_of(spark: SparkSession) -> DataFrame:
    return spark.range(0, ROWS, 1, TASKS).selectExpr("cast(id as string) as value")


def write_in_every_way(frame: DataFrame, given: dict[str, str], make_topic: MakeTopic) -> dict[str, str]:
    """Write the frame at least once and exactly once; return the topics by guarantee."""
    topics = {guarantee: make_topic(partitions=3) for guarantee in ("at least once", "exactly once")}
    ottla_spark.write(frame, {**given, "topic": topics["at least once"]})
    once = {**given, "topic": topics["exactly once"], "transactional.id.prefix": f"p-{uuid.uuid4().hex[:8]}"}
    assert ottla_spark.write_once(frame, once, job_id="first").records == ROWS
    assert not ottla_spark.write_once(frame, once, job_id="first").written
    return topics


def found_in(given: dict[str, str], topic: str) -> Counter[int]:
    """How often readers of committed records find each number."""
    partitions = read(given["kafka.bootstrap.servers"], topic, partitions=3)
    return Counter(int(value) for values in partitions for value in values)


ONCE = Counter(range(ROWS))


@pytest.mark.thorough("a Spark for each; in the gate all Python workers are Spark's usual ones, which live on")
@pytest.mark.parametrize("name", SETTINGS)
def test_rows_arrive_once_however_spark_runs_python(
    name: str, servers: dict[str, str], make_topic: MakeTopic, tmp_path: Path
) -> None:
    with local_spark(tmp_path, **SETTINGS[name]) as spark:
        topics = write_in_every_way(rows_of(spark), servers, make_topic)

    assert {guarantee: found_in(servers, topic) == ONCE for guarantee, topic in topics.items()} == {
        "at least once": True,
        "exactly once": True,
    }


@pytest.fixture
def spark(spark_folder: Path) -> SparkSession:
    """A session for one test: those of other settings in this module end the Spark that runs."""
    session = SHARED_SPARK.start(spark_folder).newSession()
    session.conf.set("spark.sql.shuffle.partitions", "16")
    return session


def test_rows_arrive_once_when_adaptive_execution_changes_partitions(
    spark: SparkSession, servers: dict[str, str], make_topic: MakeTopic
) -> None:
    """Both writes of a frame may have other tasks, because Spark joins small partitions while it runs."""
    grouped = rows_of(spark).groupBy("value").count().select("value")
    topics = write_in_every_way(grouped, servers, make_topic)

    assert [found_in(servers, topic) == ONCE for topic in topics.values()] == [True, True]


@pytest.mark.thorough("test_exactly_once_jobs.py has a job that fails, leaves nothing and is repeated")
def test_a_job_with_a_barrier_stage_is_visible_once_after_its_repetition(
    spark: SparkSession, servers: dict[str, str], make_topic: MakeTopic, tmp_path: Path
) -> None:
    """Spark does not run the last stage of a job again if it is a barrier stage, so the program repeats the job.

    PySpark 3.5 may give the next job a worker that it has killed, and such a job fails, too.
    """
    failed = tmp_path / "failed"

    def fail_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        yield from batches
        if context.partitionId() == 1 and not failed.exists():
            failed.touch()
            raise RuntimeError("the first attempt of a barrier stage")

    frame = rows_of(spark).mapInArrow(fail_once, "value string", barrier=True)
    once = {**servers, "topic": make_topic(partitions=3), "transactional.id.prefix": f"p-{uuid.uuid4().hex[:8]}"}
    with pytest.raises(JOB_ERRORS, match="the first attempt of a barrier stage"):
        ottla_spark.write_once(frame, once, job_id="first")
    for _ in range(REPETITIONS):
        with contextlib.suppress(*JOB_ERRORS):
            ottla_spark.write_once(frame, once, job_id="first")
            break

    assert found_in(servers, once["topic"]) == ONCE
