"""Exactly-once with a crash, a lost answer, a second driver or time running out at every single step."""

from __future__ import annotations

import random

import pytest
from long_forms import share
from simulated_spark import (
    TIMEOUT,
    Actor,
    Fault,
    Spark,
    expected,
    run,
    run_until_done,
    some_spark,
)

from ottla_spark.exactly_once.errors import DataLossError
from ottla_spark.exactly_once.ledger.entry import Status

LEVELS = pytest.mark.parametrize("level", [2, 1], ids=["epochs for each transaction", "epochs for each owner"])
FAULTS = [fault for fault in Fault if fault is not Fault.NONE]


def steps_of_a_good_run(level: int) -> list[str]:
    """The steps of an undisturbed driver."""
    actor, names = some_spark(level=level).driver(), []
    while not actor.ended:
        names.append(actor.at)
        actor.go()
    assert actor.error is None
    return names


STEPS = len(steps_of_a_good_run(2))


@LEVELS
def test_an_undisturbed_query_writes_every_row_once(level: int) -> None:
    spark = some_spark(level=level)

    assert run_until_done(spark) is None
    assert spark.brokers.visible == expected(spark)
    assert [entry.status for entry in spark.brokers.ledger if entry] == [Status.RECORDED, Status.DONE] * 2


@LEVELS
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.value)
@pytest.mark.parametrize("same_workers", [True, False], ids=["same workers", "new workers"])
@pytest.mark.parametrize("calls", [False, True], ids=["data source", "calls"])
def test_a_fault_at_any_step_loses_and_duplicates_nothing(
    level: int, fault: Fault, same_workers: bool, calls: bool
) -> None:
    for at in range(STEPS):
        spark = some_spark(level=level)
        run(spark.driver(calls=calls), at=at, fault=fault)
        if not same_workers:
            spark.new_workers(3)

        assert run_until_done(spark) is None, f"at step {at}"
        assert spark.brokers.visible == expected(spark), f"at step {at}"


@LEVELS
def test_a_driver_paused_too_long_at_any_step_is_exact_or_reports_a_loss(level: int) -> None:
    said = 0
    for at in range(STEPS):
        spark = some_spark(level=level, tasks=3)
        run(spark.driver(), at=at, fault=Fault.KILLED_AFTER)
        spark.brokers.pass_time(TIMEOUT)
        last = spark.brokers.ledger[-1] if spark.brokers.ledger else None
        hole = last is not None and last.status is Status.RECORDED and spark.brokers.mixed(last)
        error = run_until_done(spark)

        assert (error is not None) == hole, f"at step {at}"
        if hole:
            said += 1
            assert isinstance(run_until_done(spark), DataLossError), "until a human has looked"
            assert not spark.brokers.visible - expected(spark), "nothing is doubled"
        else:
            assert spark.brokers.visible == expected(spark), f"at step {at}"
    assert said > 0, "the hole is there, and was looked into"


@LEVELS
@pytest.mark.parametrize("same_workers", [True, False], ids=["same workers", "new workers"])
def test_a_driver_paused_at_any_step_of_another_one_duplicates_nothing(level: int, same_workers: bool) -> None:
    for at in range(STEPS):
        spark = some_spark(level=level, batches=3)
        zombie = spark.driver()
        for _ in range(at):
            zombie.go()
        if not same_workers:
            other = Spark(spark.brokers, spark.checkpoint)
            other.new_workers()
        else:
            other = spark
        assert run_until_done(other) is None, f"at step {at}"
        run(zombie)

        assert spark.brokers.visible == expected(spark), f"at step {at}"


@LEVELS
def test_a_driver_resumed_at_any_step_of_another_one_duplicates_nothing(level: int) -> None:
    """The first stands at each of its steps when the second begins, which goes to each of its own in turn."""
    for at in range(0, STEPS, 2):
        for further in range(STEPS):
            spark = some_spark(level=level)
            first = spark.driver()
            for _ in range(at):
                first.go()
            second = spark.driver()
            for _ in range(further):
                if not second.ended:
                    second.go()
            run(first)
            run(second)

            assert run_until_done(spark) is None, f"at {at}, {further}"
            assert spark.brokers.visible == expected(spark), f"at {at}, {further}"


@LEVELS
def test_attempts_that_lost_are_aborted_with_the_batch_and_never_seen(level: int) -> None:
    spark = some_spark(level=level)
    run(spark.driver(attempts=lambda _batch, partition: 1 + partition))

    assert spark.brokers.visible == expected(spark)
    assert [found for found in spark.brokers.ids.values() if found.rows is not None] == []


@LEVELS
def test_many_batches_need_no_more_producer_ids_than_one(level: int) -> None:
    spark = some_spark(level=level, batches=50, tasks=4)
    run(spark.driver())

    assert spark.brokers.visible == expected(spark)
    assert len(spark.brokers.ids) == 1 + 4


@LEVELS
def test_producer_ids_that_expired_during_a_pause_cause_no_alarm(level: int) -> None:
    spark = some_spark(level=level, batches=3)
    actor = spark.driver()
    while spark.checkpoint.next_batch < 1:
        actor.go()
    actor.go(Fault.KILLED_BEFORE)
    spark.brokers.pass_time(7 * 24 * 3600)
    spark.brokers.expire_ids()
    spark.new_workers()

    assert run_until_done(spark) is None
    assert spark.brokers.visible == expected(spark)


@LEVELS
@pytest.mark.parametrize("seed", share(range(150), gate=50, why="the same with other seeds"))
def test_random_faults_lose_and_duplicate_nothing(level: int, seed: int) -> None:
    chance = random.Random(f"{seed} {level}")
    spark = some_spark(level=level, batches=chance.randint(2, 6), tasks=chance.randint(1, 4))
    error = faults_until_a_loss(spark, chance)

    assert not spark.brokers.visible - expected(spark), "nothing is doubled"
    if error is None:
        assert spark.brokers.visible == expected(spark)
    else:
        last = spark.brokers.ledger[-1]
        assert last is not None
        assert spark.brokers.mixed(last), "an alarm only where something is lost"


def faults_until_a_loss(spark: Spark, chance: random.Random) -> DataLossError | None:
    """Some drivers at a time, on one checkpoint, each with random faults of its own; then a last one without faults."""
    actors: list[Actor] = []
    lossy, slow = chance.random() * 0.15, chance.random() * 0.05
    for _ in range(chance.randint(50, 400)):
        if not any(not actor.ended for actor in actors) or (len(actors) < 3 and chance.random() < 0.05):
            home = spark
            if chance.random() < 0.5:
                home = Spark(spark.brokers, spark.checkpoint)
                home.new_workers(chance.randint(1, 3))
            odds = chance.random()
            calls = chance.random() < 0.5
            actors.append(
                home.driver(attempts=lambda _b, _p, odds=odds: 1 + (chance.random() < odds / 3), calls=calls)  # type: ignore[misc]
            )
        actors = [actor for actor in actors if not actor.ended]
        if not actors:
            break  # nothing is left to write
        actor = chance.choice(actors)
        actor.go(chance.choice(FAULTS) if chance.random() < lossy else Fault.NONE)
        if isinstance(actor.error, DataLossError):
            break
        if chance.random() < slow:
            spark.brokers.pass_time(chance.choice([0.1, 0.3, 0.6, 1.1]) * TIMEOUT)
    for actor in actors:
        while not actor.ended:
            actor.go(chance.choice([Fault.NONE, Fault.KILLED_BEFORE]))
    return run_until_done(spark)


def test_the_steps_of_a_driver_are_complete() -> None:
    start = ["list", "lease", "read", "task", "task"]
    end = ["list", "describe", "produce", "end the entry", "commit", "commit", "produce", "end the entry", "checkpoint"]

    assert steps_of_a_good_run(2) == (start + end) * 2
