"""Runs of one job that overlap, as when a scheduler starts a job again while its first run still lives."""

from __future__ import annotations

import random

import pytest
from long_forms import share
from simulated_spark import NAME, Actor, Fault, Spark, SteppedCluster, expected, run, some_spark

from ottla.errors import OttlaError
from ottla_spark.exactly_once.attempt import Attempt
from ottla_spark.exactly_once.driver.commit import abort_left_open, abort_superseded, commit
from ottla_spark.exactly_once.driver.plan import Plan, plan
from ottla_spark.exactly_once.errors import LeaseLostError
from ottla_spark.exactly_once.ledger.entry import Entry, Status

LEVELS = pytest.mark.parametrize("level", [2, 1], ids=["epochs for each transaction", "epochs for each owner"])
FAULTS = [fault for fault in Fault if fault is not Fault.NONE]


def done(last: Entry | None) -> bool:
    return last is not None and last.status is Status.DONE


def run_of_job(spark: Spark, *, attempts: int = 1) -> Actor:
    """A run of the job whose rows are the first batch, as `write_once` does it."""
    return Actor(lambda actor: write_once(spark, SteppedCluster(spark.brokers, actor), actor, attempts))


def write_once(spark: Spark, cluster: SteppedCluster, actor: Actor, attempts: int) -> None:
    last = cluster.ledger(NAME).certain()
    if last is not None and last.status is Status.RECORDED:
        last = plan(cluster, NAME).last
    if done(last):
        abort_superseded(cluster, NAME)
        return
    given = plan(cluster, NAME)
    if done(given.last):
        return
    try:
        results = tasks(spark, actor, given, attempts)
    except BaseException:
        if not abort_left_open(cluster, given.lease):
            abort_superseded(cluster, NAME)
        raise
    try:
        commit(cluster, results, batch=0)
    except LeaseLostError:
        abort_superseded(cluster, NAME)
        raise


def tasks(spark: Spark, actor: Actor, given: Plan, attempts: int) -> list[Attempt]:
    results: list[Attempt | None] = [None] * len(spark.checkpoint.batches[0])
    for partition, rows in enumerate(spark.checkpoint.batches[0]):
        for _ in range(attempts):
            spark._task(actor, given, 0, partition, rows, results)
    return [each for each in results if each is not None]


def finished(spark: Spark) -> None:
    """Run the job until it says that it is finished, and once more."""
    for _ in range(8):
        actor = run_of_job(spark)
        run(actor)
        assert actor.error is None or isinstance(actor.error, OttlaError)
        if actor.error is None:
            break
    run(run_of_job(spark))


def left_open(spark: Spark) -> list[str]:
    return [name for name, found in spark.brokers.ids.items() if found.rows is not None]


def apart(spark: Spark) -> Spark:
    """Another application on the same brokers."""
    other = Spark(spark.brokers, spark.checkpoint)
    other.new_workers()
    return other


@LEVELS
@pytest.mark.parametrize("same_workers", [True, False], ids=["same workers", "new workers"])
def test_overlapping_runs_write_once_and_leave_nothing_open(level: int, same_workers: bool) -> None:
    """The first run stands at each of its steps while the second one goes to its end."""
    lost = 0
    for at in range(14):
        spark = some_spark(level=level, batches=1)
        first = run_of_job(spark)
        for _ in range(at):
            first.go()
        run(run_of_job(spark if same_workers else apart(spark)))
        run(first)
        lost += isinstance(first.error, LeaseLostError)

        assert spark.brokers.visible == expected(spark), f"at step {at}"
        assert left_open(spark) == [], f"at step {at}"
    assert lost > 0


@LEVELS
@pytest.mark.parametrize("seed", share(range(300), gate=60, why="the same with other seeds"))
def test_random_runs_of_a_job_write_once_and_leave_nothing_open(level: int, seed: int) -> None:
    chance = random.Random(f"{seed} {level}")
    spark = some_spark(level=level, batches=1, tasks=chance.randint(1, 3))
    lossy = chance.choice([0.0, 0.0, 0.05, 0.15])
    actors = [
        run_of_job(chance.choice([spark, apart(spark)]), attempts=chance.randint(1, 2))
        for _ in range(chance.randint(2, 5))
    ]
    while going := [actor for actor in actors if not actor.ended]:
        actor = chance.choice(going[:2] if chance.random() < 0.7 else going)
        for _ in range(chance.choice([1, 1, 3, 8])):
            if not actor.ended:
                actor.go(chance.choice(FAULTS) if chance.random() < lossy else Fault.NONE)
    finished(spark)

    assert spark.brokers.visible == expected(spark)
    assert left_open(spark) == []
