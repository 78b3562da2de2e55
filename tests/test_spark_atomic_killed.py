"""Drivers of all-or-nothing batches that are killed with -9: their successors go on, and nothing is lost or doubled.

A driver has a query for every point, each with a checkpoint, a topic and an id of its own, and is killed when all of
them are at their points. Each successor has other cores, and so other tasks and other files in them. The long form
(OTTLA_SOAK) does it ten times, and has a second driver on the same checkpoints ten times.
"""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest
import spark_atomic_program as program
from long_forms import LONG, only_long
from spark_atomic_kit import Checkpoint, Driver, soon, wake
from spark_atomic_program import POINTS, ROWS, TaskFault, TaskPlan

from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.pytest_plugin import MakeTopic
from transactions_kit import chance

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.thorough(
        "drivers of their own; test_spark_atomic.py has a lost commit, packages/spark/tests/test_atomic_driver.py a "
        "driver that ends at any step, with a simulated Kafka, and test_spark_exactly_once.py a killed one"
    ),
]

TIMES = 10 if LONG else 1
MODES = ("update", "complete") if LONG else ("update",)
STOPS = (*POINTS, "any time") if LONG else ("late task", "after the commit")


class Queries:
    """One query for each point, one that is killed at any time, and one for each mode with a state."""

    def __init__(self, kafka: KafkaCluster, make_topic: MakeTopic, folder: Path, rng: random.Random) -> None:
        self._rng = rng
        self._checkpoints: dict[str, Checkpoint] = {}
        for name in (*STOPS, *MODES):
            place = folder / name.replace(" ", "-").replace("'", "")
            place.mkdir()
            self._checkpoints[name] = Checkpoint(kafka=kafka, topic=make_topic(program.PARTITIONS), folder=place)

    def put(self, batches: int) -> None:
        """Rows for so many more batches of each."""
        for checkpoint in self._checkpoints.values():
            checkpoint.put(batches)

    def driver(self, *, stopping: bool = True) -> Driver:
        """One that runs all of them."""
        cores = self._rng.randint(4, 6) if LONG else self._rng.randint(3, 4)  # tasks that wait take two, or one
        return Driver(*(self._orders(name, cores, stopping) for name in self._checkpoints))

    def look(self) -> None:
        """Every batch is visible as a whole or not at all; no driver writes meanwhile."""
        seen = {name: each.wholes() for name, each in self._checkpoints.items() if name not in MODES}
        print(f"visible: {seen}")

    def check(self) -> None:
        """Everything is there once."""
        for name, checkpoint in self._checkpoints.items():
            (checkpoint.check_counts if name in MODES else checkpoint.check)()

    def _orders(self, name: str, cores: int, stopping: bool) -> TaskPlan:
        point = name if name in POINTS else ""
        if name in MODES and self._rng.random() < 0.8:
            point = self._rng.choice(program.OF_THE_DRIVER)
        fault = TaskFault(kind="", owner=self._rng.randrange(4), rows=self._rng.choice([0, 20, 60, ROWS]))
        return self._checkpoints[name].orders(
            name=f"{name}: ",
            cores=cores,
            mode=name if name in MODES else "append",
            point=point if stopping else "",
            passes=self._rng.randrange(2),
            faults={"": fault},
        )


@pytest.fixture
def queries(kafka: KafkaCluster, make_topic: MakeTopic, tmp_path: Path) -> Queries:
    return Queries(kafka, make_topic, tmp_path, chance("drivers"))


def test_drivers_killed_at_any_point_leave_each_batch_once(queries: Queries) -> None:
    late: Sequence[int] = []
    for _ in range(TIMES):
        queries.put(3 if LONG else 2)
        with queries.driver() as driver:
            driver.go().reach()
            woken, late = late, driver.stopped_tasks()
            for pid in woken:  # of the driver before; this one has its transactional ids
                wake(pid)
            driver.kill(leaving=late)
        queries.look()
    with queries.driver(stopping=False) as last:
        said = last.go().finish()
    for pid in late:
        wake(pid)

    queries.check()
    assert any(line.startswith("after the commit: batch") and " None " in line for line in said), (
        "no batch was found in Kafka: the test tests nothing"
    )


@only_long("takes minutes")
def test_replaced_drivers_that_continue_write_nothing_twice(queries: Queries) -> None:
    """Ten times, from every point; the newer is beginning then, or in its middle, or at the points where it stops."""
    rng = chance("two drivers")
    with ExitStack() as stack:
        queries.put(3)
        older = stack.enter_context(queries.driver())
        older.go().reach()
        for _ in range(TIMES):
            queries.put(3)
            newer = stack.enter_context(queries.driver()).go()
            when = rng.choice(["at its points", "in its middle", "in its middle", "at once"])
            if when == "at its points":
                newer.reach(or_over=True)
            elif when == "in its middle":
                soon(rng.uniform(0, 10), lambda: None).join()
            print(f"the older driver goes on while the newer is {when}")
            for pid in older.stopped_tasks():
                os.kill(pid, signal.SIGCONT)
            older.go(times=len(older.orders)).await_over()
            older.kill()
            if when != "at its points":
                newer.reach(or_over=True)
            older = newer
        older.kill()
    with queries.driver(stopping=False) as last:
        last.go().finish()

    queries.check()
