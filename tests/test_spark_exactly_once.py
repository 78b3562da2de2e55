"""Exactly-once from Spark, whatever dies: drivers killed at every step, tasks and workers lost, two drivers at once."""

from __future__ import annotations

import os
import uuid
from collections.abc import Sequence
from pathlib import Path

import attrs
import pytest
from exactly_once_program import Fault
from exactly_once_stream import PARTITIONS, TIMES, Stream, local, transactional_ids
from long_forms import LONG, only_long

from ottla_spark.exactly_once.ledger.lease import lease_id
from ottla_spark.exactly_once.ledger.topic import own_topic
from ottla_testkit.kafka_cluster import KafkaCluster
from transactions_kit import await_in_sync, chance, coordinator

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


@pytest.fixture
def stream(kafka: KafkaCluster, tmp_path: Path) -> Stream:
    topic = f"t-{uuid.uuid4().hex[:8]}"
    kafka.create_topic(topic, partitions=PARTITIONS)
    return Stream(kafka, tmp_path, topic)


KILLS = {
    "while it is planned": Fault(action="kill", step="take_lease"),
    "in the middle of a task": Fault(action="kill", step="write", after=False),
    "after a task": Fault(action="kill", step="write", nth=2),
    "before the commit point": Fault(action="kill", step="append", after=False),
    "right after the commit point": Fault(action="kill", step="append"),
    "between two ends": Fault(action="kill", step="end"),
    "after all ends": Fault(action="kill", step="end", nth=2),
    "before Spark's own commit": Fault(action="kill", step="append", nth=2),
}
FAILURES = {
    "a task half-way": Fault(action="fail", step="write", after=False),
    "a task that had prepared": Fault(action="fail", step="write", nth=2),
    "a Python worker half-way": Fault(action="exit", step="write", after=False),
    "a Python worker that had prepared": Fault(action="exit", step="write"),
    "the planner": Fault(action="fail", step="ledger"),
    "the planner's process": Fault(action="exit", step="take_lease"),
    "the commit before its point": Fault(action="fail", step="append", after=False),
    "the commit after its point": Fault(action="fail", step="append"),
    "the process that commits, between two ends": Fault(action="exit", step="end"),
}

IN_GATE = ("a task that had prepared", "the process that commits, between two ends")
IN_SHORT = (*IN_GATE, "the planner's process", "the commit before its point")
"""Failures of the data source in the short form: each process of the driver once, and a task's retry.

With those of the calls, a worker is lost, too, and a batch fails before and after it was recorded.
"""

BY_CALLS = (
    "a task half-way",
    "a task that had prepared",
    "a Python worker half-way",
    "the planner",
    "the commit before its point",
    "the commit after its point",
)
"""The driver's own process plans and commits, so it is not killed alone."""

BY_CALLS_IN_SHORT = ("a Python worker half-way", "the planner", "the commit after its point")


WHERE = ("open_transactions", "take_lease", "ledger", "statuses", "append", "mid-append", "end", "write")
ZOMBIES = {
    "before it looks whether all are open": Fault(action="stall", step="statuses", after=False),
    "before the ledger write": Fault(action="stall", step="append", after=False),
    "in the middle of the ledger write": Fault(action="stall", step="mid-append"),
    "behind the ledger write": Fault(action="stall", step="append"),
    "between two ends": Fault(action="stall", step="end"),
}


@only_long("takes minutes")
@pytest.mark.parametrize("when", [*KILLS, "anywhere, with state"])
def test_repeatedly_killed_drivers_lose_and_duplicate_nothing(stream: Stream, when: str) -> None:
    """Each of them begins with other cores and partitions, except that a state keeps its partitions."""
    rng = chance(when)
    stream.driver_settings["stateful"] = when not in KILLS
    kills = [KILLS[when]] * TIMES if when in KILLS else [rng.choice(list(KILLS.values())) for _ in range(TIMES)]
    stream.plan(*kills, rng=rng)
    stream.add(2)
    for kill in range(TIMES):
        code, log = stream.run(master=local(rng.randint(1, 3)), parts=rng.randint(2, 4))
        assert code == -9, f"kill {kill}: {log[-6000:]}"
    stream.finish()

    stream.check()


@only_long("takes minutes")
def test_drivers_killed_at_any_moment_lose_and_duplicate_nothing(stream: Stream) -> None:
    rng = chance("moments")
    for _ in range(TIMES):
        stream.add(8)
        before = max((batch for batch in range(stream.files) if stream.committed(batch)), default=-1)
        with stream.driver(parts=rng.randint(1, 4)) as child:
            stream.await_committed(before + 2)
            child.run_on(rng.uniform(0, 1))
            child.kill()
    stream.finish()

    stream.check()


@pytest.mark.parametrize(
    "failures",
    [
        pytest.param(IN_GATE, id="two"),
        pytest.param(
            list(FAILURES) * TIMES if LONG else IN_SHORT,
            id="all",
            marks=pytest.mark.thorough(
                "more failures; packages/spark/tests/test_exactly_once_faults.py simulates each"
            ),
        ),
    ],
)
def test_a_killed_driver_and_any_failure_lose_and_duplicate_nothing(stream: Stream, failures: Sequence[str]) -> None:
    """A killed driver, then failures while its successor lives: tasks are tried again by Spark; what fails on the
    driver ends the query, which is started again.
    """
    stream.plan(attrs.evolve(KILLS["between two ends"]))
    code, log = stream.run()
    faults = [FAILURES[name] for name in failures]
    stream.plan(*faults)
    stream.add(1)
    stream.finish(master=local(3), parts=3, starts=1 + len(faults))

    assert code == -9, log[-6000:]
    stream.check()


@pytest.mark.thorough(
    "the test before it has the data source, and packages/spark/tests/test_spark_killed_workers.py calls"
)
def test_foreach_batch_duplicates_and_loses_nothing_whatever_fails(stream: Stream) -> None:
    """A killed driver, then failures in one driver, whose query is started again in the same process."""
    stream.driver_settings["calls"] = True
    stream.plan(attrs.evolve(KILLS["between two ends"]))
    code, log = stream.run()
    faults = [FAILURES[name] for name in (BY_CALLS * TIMES if LONG else BY_CALLS_IN_SHORT)]
    stream.plan(*faults)
    stream.add(1)
    stream.finish(master=local(3), parts=3, starts=1 + len(faults))

    assert code == -9, log[-6000:]
    stream.check()


@pytest.mark.thorough(
    "packages/spark/tests/test_exactly_once_faults.py has two drivers at any step, with a simulated Kafka"
)
def test_of_two_drivers_on_one_checkpoint_the_older_cannot_commit(stream: Stream) -> None:
    stream.plan(attrs.evolve(ZOMBIES["in the middle of the ledger write"]))
    stream.add(1)
    with stream.driver() as zombie:
        stalled = stream.await_stall()
        stream.finish()
        stream.wake(stalled)
        code, log = zombie.end()

    assert code == 1
    assert "another driver has taken the ledger over" in log, log[-6000:]
    stream.check()


@only_long("takes minutes")
def test_alternating_drivers_on_one_checkpoint_duplicate_nothing(stream: Stream) -> None:
    """Each stands still at its step until the other one does at a later batch, and is a zombie when it wakes."""
    rng = chance("turns")
    zombies = rng.sample(list(ZOMBIES.values()) * TIMES, TIMES * len(ZOMBIES))
    for zombie in zombies:
        stream.add(1)
        stream.plan(zombie)
    stream.add(1)
    starts = 2 * len(zombies)
    with stream.driver(starts=starts) as first:
        stalled = stream.await_stall()
        with stream.driver(starts=starts) as second:
            for _ in zombies[1:]:
                before, stalled = stalled, stream.await_stall(but=stalled)
                stream.wake(before)
            stream.await_committed(stream.files - 1)
            stream.wake(stalled)
            ends = [driver.end() for driver in (first, second)]

    assert [code for code, _log in ends] == [0, 0], "\n".join(log[-6000:] for _code, log in ends)
    assert sum(log.count("another driver has taken the ledger over") for _code, log in ends) >= len(zombies) // 4
    stream.check()


@only_long("takes minutes")
def test_a_broker_that_restarts_loses_and_duplicates_nothing(stream: Stream) -> None:
    rng = chance("restarts")
    stream.add(4 * TIMES + 2)
    with stream.driver(starts=TIMES) as child:
        for restart in range(TIMES):
            stream.await_committed(4 * restart)
            child.run_on(rng.uniform(0, 1))
            stream.kafka.kill(1)
            stream.kafka.start(1)
        code, log = child.end()

    assert code == 0, log[-6000:]
    stream.check()


@only_long("takes minutes")
def test_a_stream_whose_coordinators_move_duplicates_nothing(tmp_path: Path) -> None:
    """The node that coordinates the lease is killed, and with it the coordinators of a third of the tasks."""
    rng = chance("moves")
    config = {"broker.session.timeout.ms": 2_500, "broker.heartbeat.interval.ms": 250}
    with KafkaCluster(nodes=3, config=config) as kafka:
        kafka.create_topic("t", partitions=PARTITIONS, replication=3, config={"min.insync.replicas": 2})
        stream = Stream(kafka, tmp_path, "t", driver_settings={"options": {"ledger.replication.factor": "3"}})
        stream.add(4 * TIMES + 2)
        with stream.driver(starts=TIMES) as child:
            for move in range(TIMES):
                stream.await_committed(4 * move)
                child.run_on(rng.uniform(0, 1))
                node = coordinator(kafka, lease_id(stream.prefix))
                kafka.kill(node)
                kafka.start(node)
                await_in_sync(kafka, "t", own_topic(stream.prefix), "__transaction_state")
            code, log = child.end()

        assert code == 0, log[-6000:]
        stream.check()


@only_long("takes minutes")
def test_many_micro_batches_with_a_fault_in_every_third_are_exact(stream: Stream) -> None:
    rng = chance("exactly once from Spark")
    batches = int(os.environ.get("OTTLA_BATCHES", "200"))
    for batch in range(batches):
        if batch % 3:
            stream.add(1, rows=20)
            continue
        action = rng.choice(["fail", "fail", "exit", "exit", "kill"] if batch % 30 == 0 else ["fail", "exit"])
        step = rng.choice(WHERE)
        nth = rng.randint(1, 2) if step in ("append", "end", "write") else 1
        stream.plan(Fault(action=action, step=step, nth=nth, after=rng.random() < 0.5))
    for _ in range(2 + batches // 30):
        code, log = stream.run(master=local(rng.randint(1, 3)), starts=batches, parts=rng.randint(2, 3))
        if code == 0:
            break

    assert code == 0, log[-6000:]
    stream.check()


@only_long("takes minutes")
def test_a_thousand_micro_batches_use_a_handful_of_ids(stream: Stream) -> None:
    stream.add(int(os.environ.get("OTTLA_BATCHES", "1000")), rows=6)
    stream.finish()

    stream.check()
    ids = transactional_ids(stream.kafka.bootstrap_servers, stream.prefix)
    print(f"{len(ids)} transactional ids after {stream.files} micro-batches")
    assert len(ids) <= 1 + 2 * 2, "the lease, and for each of two workers as many as there are tasks"


@only_long("takes minutes")
def test_micro_batches_of_hundreds_of_tasks_are_exact(stream: Stream) -> None:
    stream.add(1, rows=1_000)
    stream.plan(*FAILURES.values(), rows=1_000)
    stream.finish(parts=300, starts=1 + len(FAILURES))

    stream.check()
    ids = transactional_ids(stream.kafka.bootstrap_servers, stream.prefix)
    print(f"{len(ids)} transactional ids after {stream.files} micro-batches of 300 tasks")
