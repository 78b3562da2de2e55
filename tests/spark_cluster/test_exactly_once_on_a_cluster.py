"""Exactly-once on executors that are processes of their own: lost, overtaken, gone together with the driver."""

from __future__ import annotations

import os
import uuid
from pathlib import Path
from typing import Any

import pytest
from exactly_once_program import Fault
from exactly_once_stream import HERE, PARTITIONS, TIMES, Stream
from long_forms import LONG, only_long

from ottla_testkit.kafka_cluster import KafkaCluster
from spark_cluster.cluster import SparkCluster
from spark_java import quick_options
from transactions_kit import await_true, chance

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

PARTS = 4
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "1.5",
}
LOSSES = {
    "an executor in the middle of a task": Fault(action="executor", step="write", after=False),
    "an executor with what it had prepared": Fault(action="executor", step="write", nth=2),
}
SLOW = {
    "a task that is slow half-way": Fault(action="slow", step="write", after=False),
    "a task that is slow when it has prepared": Fault(action="slow", step="write", nth=2),
}
LATE = Fault(action="late", step="write", after=False)
NEXT = {
    "planned, and what is open was looked for": Fault(action="stall", step="open_transactions"),
    "about to be recorded": Fault(action="stall", step="append", after=False),
    "made visible": Fault(action="stall", step="end"),
}
LONG_TIMEOUTS = {"spark.python.task.killTimeout": "600s"}
"""Spark ends the worker of an attempt that was overtaken two seconds later; here it lets it go on."""

ENDS = {
    "in the middle of a task": Fault(action="both", step="write", after=False),
    "when a task has prepared": Fault(action="both", step="write", nth=2),
}


@pytest.fixture
def stream(kafka: KafkaCluster, spark_cluster: SparkCluster, tmp_path: Path) -> Stream:
    topic = f"t-{uuid.uuid4().hex[:8]}"
    kafka.create_topic(topic, partitions=PARTITIONS)
    python_path = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    conf = {
        "spark.executor.memory": "512m",
        "spark.executor.cores": "1",
        "spark.executor.extraJavaOptions": quick_options(),
        "spark.executorEnv.PYTHONPATH": python_path,
    }
    driver_settings: dict[str, Any] = {"master": spark_cluster.master_url, "parts": PARTS, "conf": conf}
    return Stream(kafka, tmp_path, topic, driver_settings=driver_settings)


@pytest.mark.skipif(LONG, reason="the long form has all of them ten times")
def test_a_lost_executor_and_an_overtaken_task_duplicate_nothing(stream: Stream) -> None:
    stream.driver_settings["conf"] |= SPECULATION
    stream.plan(LOSSES["an executor with what it had prepared"], SLOW["a task that is slow half-way"])
    stream.add(2)  # what the slow task begins when its batch is over is found with the next one
    stream.finish()

    stream.check()


@only_long("takes minutes")
def test_executors_lost_with_their_shuffle_files_duplicate_nothing(stream: Stream) -> None:
    """The shuffle files of a lost executor are missing, so Spark runs the previous stage again, and then the tasks."""
    stream.add(1)
    stream.plan(*[*LOSSES.values()] * TIMES)
    stream.add(1)
    stream.finish()

    assert list(stream.folder.glob("stage-retried-*")) != []
    stream.check()


@only_long("takes minutes")
def test_speculative_attempts_are_never_seen(stream: Stream) -> None:
    """A task that no other attempt overtakes fails, and the query with it."""
    stream.driver_settings["conf"] |= SPECULATION | {"spark.task.maxFailures": "1"}
    stream.add(1)
    stream.plan(*[*SLOW.values()] * TIMES)
    stream.add(2)
    stream.finish()

    stream.check()


@only_long("takes minutes")
@pytest.mark.parametrize("when", NEXT)
def test_an_attempt_that_writes_during_the_next_batch_is_never_seen(stream: Stream, when: str) -> None:
    """Its batch is over, and what it prepares is aborted with the batch behind the next one at the latest."""
    stream.driver_settings["conf"] |= SPECULATION | LONG_TIMEOUTS
    stream.add(1)
    stream.plan(LATE, NEXT[when])
    stream.add(2)
    with stream.driver() as driver:
        stalled = stream.await_stall()
        await_true(lambda: (stream.folder / f"late-{stalled - 1}").exists())
        stream.wake(stalled)
        code, log = driver.end()

    assert code == 0, log[-6000:]
    stream.check()


@only_long("takes minutes")
def test_executors_and_drivers_killed_together_duplicate_nothing(stream: Stream) -> None:
    rng = chance("together")
    ends = rng.sample([*ENDS.values()] * TIMES, TIMES)
    stream.plan(*ends, rng=rng)
    stream.add(1)
    for _ in ends:
        code, log = stream.run(parts=rng.randint(2, 4))
        assert code == -9, log[-6000:]
    stream.finish()

    stream.check()
