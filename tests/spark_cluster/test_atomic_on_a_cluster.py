"""All-or-nothing batches on executors that are killed: stages run again, late tasks wake up, and every batch is exact.

The long form (OTTLA_SOAK) has each fault ten times.
"""

from __future__ import annotations

import os
import random
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import psutil
import pytest
import spark_atomic_program as program
from long_forms import LONG, only_long
from pyspark.sql import DataFrame, SparkSession
from spark_atomic_kit import Checkpoint, soon, wake
from spark_atomic_program import POINTS, ROWS, TaskFault

from ottla_spark.atomic import AtomicSink, atomically, sink
from ottla_spark.atomic.driver import BatchWritten
from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.pytest_plugin import MakeTopic
from spark_cluster.cluster import SparkCluster
from spark_java import quick_options
from transactions_kit import await_true, chance

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.thorough(
        "an executor is killed in test_exactly_once_on_a_cluster.py, and a worker in tests/test_spark_atomic.py"
    ),
    # mapInArrow looks whether pandas is there, which it has no use for.
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]

TIMES = 10 if LONG else 1


@pytest.fixture
def checkpoint(kafka: KafkaCluster, make_topic: MakeTopic, tmp_path: Path) -> Checkpoint:
    return Checkpoint(kafka=kafka, topic=make_topic(program.PARTITIONS), folder=tmp_path)


class FaultyBatches:
    """Gives batches to a sink, and has the task of every second one come to grief."""

    def __init__(
        self,
        cluster: SparkCluster,
        checkpoint: Checkpoint,
        rng: random.Random,
        kinds: list[str],
        patch: pytest.MonkeyPatch,
    ) -> None:
        self.reported: list[BatchWritten] = []
        self.to_come = list(kinds)
        self._cluster = cluster
        self._checkpoint = checkpoint
        self._rng = rng
        self._faults = program.Faults()
        patch.setattr(sink, "TaskWrite", self._faults)
        patch.setattr(sink, "SEALED_BATCH_BYTES", program.SEALED_BATCH_BYTES)
        self._late: list[int] = []
        options = {"kafka.bootstrap.servers": checkpoint.kafka.bootstrap_servers, "topic": checkpoint.topic}
        self._sink: AtomicSink = atomically(options, transactional_id=checkpoint.topic, on_batch=self.reported.append)

    def __call__(self, frame: DataFrame, batch: int) -> None:
        """For `foreachBatch`."""
        self._cluster.wait_for_executors()
        late, self._late = self._late, []
        timers = [soon(self._rng.uniform(0, 1), partial(os.kill, pid, signal.SIGCONT)) for pid in late]
        if batch % 2 and self.to_come:
            self._with_fault(self.to_come.pop(), frame, batch)
        else:
            self._sink(frame, batch)
        for timer, pid in zip(timers, late, strict=True):
            timer.join()
            wake(pid)

    def _with_fault(self, kind: str, frame: DataFrame, batch: int) -> None:
        if kind == "any time":
            timer = soon(self._rng.uniform(0, 1.5), lambda: self._cluster.kill_executor(self._rng.randrange(2)))
            self._sink(frame, batch)
            timer.join()
            return
        flag = self._checkpoint.folder / f"fault in {batch}"
        fault = TaskFault(kind=kind, owner=self._rng.randrange(2), rows=self._rng.choice([0, 20, 60, ROWS]))
        self._faults.plan(self._checkpoint.topic, fault, flag)
        if kind == "stops":
            watch = threading.Thread(target=self._kill_above, args=(flag,))
            watch.start()
        self._sink(frame, batch)
        self._faults.plan(self._checkpoint.topic, None, flag)
        if kind == "stops":
            watch.join()

    def _kill_above(self, flag: Path) -> None:
        """Once a task has stopped, its executor is killed, so the task has no parent."""
        await_true(flag.exists)
        pid = int(flag.read_text())
        self._late.append(pid)
        psutil.Process(pid).parents()[1].kill()


@pytest.fixture
def spark(spark_cluster: SparkCluster) -> Iterator[SparkSession]:
    with spark_cluster.session(spark_sql_files_maxPartitionBytes="500") as session:
        yield session


@pytest.mark.parametrize("kind", ["executor", "stops", "any time"])
def test_a_killed_or_late_executor_leaves_each_batch_once(
    spark: SparkSession,
    spark_cluster: SparkCluster,
    checkpoint: Checkpoint,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
) -> None:
    if kind != "executor" and not LONG:
        pytest.skip("takes minutes: only with OTTLA_SOAK=1")
    faulty = FaultyBatches(spark_cluster, checkpoint, rng=chance(kind), kinds=[kind] * TIMES, patch=monkeypatch)
    checkpoint.put(2 * TIMES + 1)
    program.run(program.numbers(spark, checkpoint.folder), faulty, checkpoint.folder)
    again = [batch.attempts for batch in faulty.reported if batch.attempts > 1]
    print(f"{len(again)} batches were tried again, {sum(again)} attempts")

    assert not faulty.to_come
    checkpoint.check()
    if kind != "any time":
        assert len(again) >= TIMES


@only_long("takes minutes")
def test_executor_and_driver_killed_together_leave_each_batch_once(
    spark_cluster: SparkCluster, checkpoint: Checkpoint
) -> None:
    rng = chance("executor and driver")
    orders = {
        "master": spark_cluster.master_url,
        "settings": {
            "spark.executor.memory": spark_cluster.executor_memory,
            "spark.executor.cores": "1",
            "spark.executor.extraJavaOptions": quick_options(),
        },
    }
    late: Sequence[int] = []
    for _ in range(TIMES):
        checkpoint.put(2)
        point = rng.choice(POINTS)
        faults = {"": TaskFault(kind="", owner=rng.randrange(2), rows=rng.choice([0, 20, 60, ROWS]))}
        with checkpoint.driver(**orders, point=point, passes=rng.randrange(2), faults=faults) as driver:
            driver.go().reach()
            stopped = driver.stopped_tasks()
            with suppress(IndexError, psutil.NoSuchProcess):
                spark_cluster.kill_executor(rng.randrange(2))
            driver.kill()
            print(f"killed {point!r}, {checkpoint.wholes()} of {checkpoint.batches} batches visible")
        for before in late:
            wake(before)
        late = stopped
    checkpoint.put(1)
    with checkpoint.driver(**orders) as driver:
        driver.go().finish()
    for before in late:
        wake(before)

    checkpoint.check()


@only_long("takes minutes")
def test_a_session_with_speculation_is_refused_before_anything_is_written(checkpoint: Checkpoint) -> None:
    checkpoint.put(1)
    with checkpoint.driver(settings={"spark.speculation": "true"}) as driver:
        assert not driver.go().end()
        said = driver.log

    assert "spark.speculation=true: two attempts of one task would write the same partitions" in said
    assert not checkpoint.visible(after_markers=True)
