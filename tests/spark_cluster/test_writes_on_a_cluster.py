"""Batch writes on executors that are processes of their own, and die."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import attrs
import psutil
import pytest
from long_forms import LONG, only_long
from pyspark.sql import DataFrame, SparkSession

from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.pytest_plugin import MakeTopic
from readback import read_back
from spark_cluster.cluster import SparkCluster
from spark_cluster.gated import WITHIN, failing_once, gated, number_of

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.thorough(
        "an executor is killed in test_exactly_once_on_a_cluster.py, and workers are in test_spark_killed_workers.py"
    ),
    # mapInArrow looks whether pandas is there, which it has no use for.
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]

PARTITIONS = 3
TASKS = 4
ROWS = 12_000  # of a task
MANY_ROWS = int(os.environ.get("OTTLA_SOAK_ROWS", "10000000"))
BUFFER_MEMORY = 32 * 2**20
OUTSIDE_THE_BUFFER = 150 * 2**20


@pytest.fixture(scope="module")
def spark(spark_cluster: SparkCluster) -> Iterator[SparkSession]:
    with spark_cluster.session(spark_sql_execution_arrow_maxRecordsPerBatch="1000") as session:
        yield session


@pytest.fixture
def topic(make_topic: MakeTopic) -> str:
    return make_topic(partitions=PARTITIONS)


def write(frame: DataFrame, kafka: KafkaCluster, topic: str) -> None:
    writer = frame.write.format("ottla").mode("append").option("topic", topic)
    writer.option("kafka.bootstrap.servers", kafka.bootstrap_servers).save()


def arrived(kafka: KafkaCluster, topic: str) -> Counter[int]:
    """Counts of each number in the topic."""
    found = read_back(kafka.bootstrap_servers, topic, partitions=PARTITIONS)
    return Counter(number_of(record.value) for record in found)


def written(kafka: KafkaCluster, topic: str) -> int:
    """The number of records in the topic."""
    return sum(kafka.end_offset(topic, partition) for partition in range(PARTITIONS))


def wait_until(happened: Callable[[], bool], trouble: str) -> None:
    deadline = time.monotonic() + WITHIN
    while not happened():
        if time.monotonic() > deadline:
            raise TimeoutError(trouble)
        time.sleep(0.02)


@attrs.frozen(kw_only=True)
class HeldWrite:
    """A write whose tasks stop in their middle, until something was done meanwhile."""

    spark: SparkSession
    kafka: KafkaCluster
    topic: str
    gate: Path

    def run(self, meanwhile: Callable[[], None], *, tasks: int = TASKS) -> None:
        """Write so many tasks' rows. The session is active in this thread only, so *meanwhile* runs in another."""
        with ThreadPoolExecutor(1) as pool:
            doing = pool.submit(self._open_after, meanwhile)
            write(gated(self.spark, tasks=tasks, rows=ROWS, gate=self.gate), self.kafka, self.topic)
            doing.result(WITHIN)

    def _open_after(self, meanwhile: Callable[[], None]) -> None:
        try:
            meanwhile()
        finally:
            self.gate.touch()

    def wait_for(self, records: int) -> None:
        """Until so many are in the topic."""
        wait_until(lambda: written(self.kafka, self.topic) >= records, f"there are no {records} records in Kafka")


@pytest.fixture
def held(
    spark: SparkSession, kafka: KafkaCluster, topic: str, spark_cluster: SparkCluster, tmp_path: Path
) -> HeldWrite:
    spark_cluster.wait_for_executors()
    return HeldWrite(spark=spark, kafka=kafka, topic=topic, gate=tmp_path / "gate")


def test_every_executor_writes_its_share(held: HeldWrite, kafka: KafkaCluster, topic: str) -> None:
    # More than one task comes to before the gate.
    held.run(lambda: held.wait_for(ROWS // 2 + 1), tasks=2)

    assert arrived(kafka, topic) == Counter(range(2 * ROWS))


def test_nothing_is_lost_when_an_executor_is_killed_in_the_middle(
    held: HeldWrite, spark_cluster: SparkCluster, kafka: KafkaCluster, topic: str
) -> None:
    def kill() -> None:
        held.wait_for(1)
        killed = spark_cluster.kill_executor()
        spark_cluster.wait_for_executors(without=killed)

    held.run(kill)

    assert arrived(kafka, topic).keys() == set(range(TASKS * ROWS))


def test_nothing_is_lost_when_python_workers_are_killed_in_the_middle(
    held: HeldWrite, spark_cluster: SparkCluster, kafka: KafkaCluster, topic: str
) -> None:
    def kill() -> None:
        held.wait_for(1)
        workers = spark_cluster.python_workers()
        assert workers
        for worker in workers:
            worker.kill()

    held.run(kill)

    assert arrived(kafka, topic).keys() == set(range(TASKS * ROWS))


def test_nothing_is_lost_when_every_task_is_retried(spark: SparkSession, kafka: KafkaCluster, topic: str) -> None:
    tasks, rows = (TASKS, ROWS) if LONG else (2, 1_000)
    write(failing_once(spark, tasks=tasks, rows=rows), kafka, topic)

    found = arrived(kafka, topic)
    assert found.keys() == set(range(tasks * rows))
    assert set(found.values()) <= {1, 2}


@only_long("minutes")
def test_a_large_write_takes_little_more_memory_than_its_buffer(
    spark: SparkSession, spark_cluster: SparkCluster, kafka: KafkaCluster, make_topic: MakeTopic
) -> None:
    topic = make_topic(partitions=PARTITIONS, retention_bytes=2**28)
    frame = spark.range(0, MANY_ROWS, 1, TASKS).selectExpr("lpad(id, 16, '0') as key", "lpad(id, 100, 'x') as value")
    write(frame.limit(1), kafka, topic)
    before = {worker.pid: worker.memory_info().rss for worker in spark_cluster.python_workers()}
    over = threading.Event()
    highest: Counter[int] = Counter()
    resident: Counter[int] = Counter()

    def watch() -> None:
        while not over.wait(0.2):
            for worker in spark_cluster.python_workers():
                with contextlib.suppress(psutil.NoSuchProcess):
                    memory = worker.memory_full_info()
                    highest[worker.pid] = max(highest[worker.pid], memory.uss)
                    resident[worker.pid] = max(resident[worker.pid], memory.rss)

    with ThreadPoolExecutor(1) as pool:
        watching = pool.submit(watch)
        try:
            write(frame, kafka, topic)
        finally:
            over.set()
        watching.result(WITHIN)

    for pid, size in highest.items():
        print(f"worker {pid}: {size >> 20} MiB of its own at most, {resident[pid] >> 20} MiB resident", end="")
        print(f", {before[pid] >> 20} MiB after one row" if pid in before else "")
    assert written(kafka, topic) >= MANY_ROWS
    assert max(highest.values()) <= BUFFER_MEMORY + OUTSIDE_THE_BUFFER
