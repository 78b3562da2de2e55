"""Drivers of all-or-nothing batches that are killed with -9: their successors go on, and nothing is lost or doubled.

Each successor has other cores, and so other tasks and other files in them. The long form (OTTLA_SOAK) comes ten times
to each point, and reads after each kill that every batch is visible as a whole or not at all.
"""

from __future__ import annotations

import os
import random
import signal
from pathlib import Path

import pytest
import spark_atomic_program as program
from spark_atomic_kit import Checkpoint, Driver, soon, told, wake, written_pid
from spark_atomic_program import OF_A_TASK, POINTS, ROWS, TaskFault

from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.pytest_plugin import MakeTopic
from transactions_kit import LONG, chance

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

TIMES = 10
ANY_TIME = "any time"
only_long = pytest.mark.skipif(not LONG, reason="the long form, with OTTLA_SOAK=1")


@pytest.fixture
def checkpoint(kafka: KafkaCluster, make_topic: MakeTopic, tmp_path: Path) -> Checkpoint:
    return Checkpoint(kafka=kafka, topic=make_topic(program.PARTITIONS), folder=tmp_path)


def some_task(rng: random.Random) -> dict[str, TaskFault]:
    """Which task comes to the point of a task, and when."""
    return {"": TaskFault(kind="", owner=rng.randrange(4), rows=rng.choice([0, 20, 60, ROWS]))}


def reach_and_kill(driver: Driver, rng: random.Random) -> int | None:
    """End a driver at its point; the number of its worker's process where one is left behind, stopped."""
    driver.go()
    if not driver.point:
        driver.wait_for("begin")
        timer = soon(rng.uniform(0, 3), driver.kill)
        driver.end()
        timer.join()
        return None
    driver.reach()
    left = written_pid(driver.folder / driver.point) if driver.point in OF_A_TASK else None
    if driver.point != "late task":
        left = None
    driver.kill(leaving=left)
    return left


def kill_drivers(checkpoint: Checkpoint, points: list[str], rng: random.Random, *, mode: str = "append") -> list[str]:
    """A driver for each point, one after the other, and one that comes through; returns what that one said."""
    left: list[int] = []
    for number, point in enumerate(points):
        passes = rng.randrange(2)
        checkpoint.put(2 if number else 4)
        point = "" if point == ANY_TIME else point
        orders = {"cores": 1 + number % 3, "point": point, "passes": passes, "faults": some_task(rng), "mode": mode}
        with checkpoint.driver(**orders) as driver:
            pid = reach_and_kill(driver, rng)
            seen = checkpoint.wholes() if mode == "append" else "-"
            print(f"killed {point or ANY_TIME!r} at pass {passes}, {seen} of {checkpoint.batches} batches visible")
            # Those of the driver before wake up when another has the transactional id.
            for late in left:
                wake(late)
            left = [] if pid is None else [pid]
    checkpoint.put(1)
    with checkpoint.driver(cores=2, mode=mode) as driver:
        lines = driver.go().finish()
    for late in left:
        wake(late)
    return lines


def test_whatever_a_driver_does_when_it_is_killed_each_batch_is_there_once(checkpoint: Checkpoint) -> None:
    found = told(kill_drivers(checkpoint, ["mid-task", "after the commit"], chance("driver kills")))

    checkpoint.check()
    assert None in found.values(), "no batch was found in Kafka: the test tests nothing"


@only_long
@pytest.mark.parametrize("point", [*POINTS, ANY_TIME])
def test_a_driver_killed_ten_times_at_a_point_leaves_each_batch_once(checkpoint: Checkpoint, point: str) -> None:
    kill_drivers(checkpoint, [point] * TIMES, chance(f"killed {point}"))

    checkpoint.check()


@only_long
@pytest.mark.parametrize("mode", ["update", "complete"])
def test_a_query_with_a_state_counts_right_however_its_drivers_die(checkpoint: Checkpoint, mode: str) -> None:
    rng = chance(f"killed {mode}")
    points = [rng.choice([*POINTS, ANY_TIME]) for _ in range(TIMES)]
    kill_drivers(checkpoint, points, rng, mode=mode)

    checkpoint.check_counts()


@only_long
def test_two_drivers_on_one_checkpoint_ten_times_write_each_batch_once(checkpoint: Checkpoint) -> None:
    """Each driver stops somewhere, another goes on from there, and then the first wakes up."""
    rng = chance("two drivers")
    points = [rng.choice([*POINTS[1:], ANY_TIME]) for _ in range(TIMES)]
    checkpoint.put(2)
    for number, point in enumerate(points):
        checkpoint.put(3)
        stop = "" if point == ANY_TIME else point
        orders = {"cores": 1 + number % 2, "passes": rng.randrange(2), "faults": some_task(rng)}
        with (
            checkpoint.driver(**orders, point=stop) as first,
            checkpoint.driver(cores=2 - number % 2) as second,
        ):
            first.go()
            second.wait_for("up")
            if stop:
                first.reach()
            elif rng.random() < 0.5:
                first.wait_for("begin")
            second.go()
            if rng.random() < 0.7:
                second.wait_for("batch", "done")
            if stop in OF_A_TASK:
                os.kill(written_pid(first.folder / stop), signal.SIGCONT)
            elif stop:
                first.go()
            ends = [second.end(), first.end()]
            print(f"{point}: the newer came {'through' if ends[0] else 'to nothing'}, the older likewise: {ends[1]}")
    with checkpoint.driver(cores=2) as last:
        last.go().finish()

    checkpoint.check()
