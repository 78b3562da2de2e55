"""All-or-nothing batches of a real Spark through brokers that go away, and 200 of them with a fault in every third.

The long forms only (OTTLA_SOAK). `OTTLA_BATCHES` names another number; `OTTLA_SEED` repeats a failure.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import attrs
import pytest
from long_forms import only_long
from spark_atomic_kit import Checkpoint, Driver, soon, wake
from spark_atomic_program import OF_A_TASK, PARTITIONS, POINTS, ROWS, TaskFault

from ottla.plugins.partitioners.murmur2_hash import murmur2
from ottla_testkit.kafka_cluster import KafkaCluster
from transactions_kit import await_in_sync, chance, coordinator

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.slow,
    only_long("takes minutes"),
]

TIMES = 10
MANY = 200
BATCHES = int(os.environ.get("OTTLA_BATCHES") or 200)
SOON_MISSED = {"broker.session.timeout.ms": 2_500, "broker.heartbeat.interval.ms": 250}
KINDS = {"raises": 6, "killed": 6, "broker": 3, "driver": 3, "two drivers": 1}


def test_tasks_that_fail_and_workers_that_are_killed_leave_batches_once(tmp_path: Path) -> None:
    """Spark tries each task again by itself, four times."""
    rng = chance("tasks")
    kinds = ["raises", "killed"] * TIMES
    rng.shuffle(kinds)
    faults = {
        str(2 * number + 1): TaskFault(kind=kind, owner=rng.randrange(2), rows=rng.randrange(0, ROWS, 10))
        for number, kind in enumerate(kinds)
    }
    with KafkaCluster() as kafka:
        kafka.create_topic("rows", partitions=PARTITIONS)
        checkpoint = Checkpoint(kafka=kafka, topic="rows", folder=tmp_path)
        checkpoint.put(2 * len(kinds) + 1)
        with checkpoint.driver(faults=faults) as driver:
            said = driver.go().finish()
        attempts = {line.split()[1]: line.split()[3] for line in said if line.startswith("batch")}

        assert attempts == {str(batch): "2" if str(batch) in faults else "1" for batch in range(checkpoint.batches)}
        checkpoint.check()


@pytest.mark.parametrize("nodes", [1, 3])
def test_brokers_that_go_away_at_any_moment_leave_each_batch_once(nodes: int, tmp_path: Path) -> None:
    """Of three, it is the coordinator of the id or of the marker's group, or a leader."""
    rng = chance(f"{nodes} nodes")
    with KafkaCluster(nodes=nodes, config=SOON_MISSED if nodes > 1 else {}) as kafka:
        kafka.create_topic("rows", partitions=PARTITIONS, replication=nodes)
        checkpoint = Checkpoint(kafka=kafka, topic="rows", folder=tmp_path)
        checkpoint.put(3 * TIMES)
        lost = drivers = 0
        while lost < TIMES:
            drivers += 1
            checkpoint.put(3)
            with checkpoint.driver(cores=1 + drivers % 2) as driver:
                driver.go()
                while lost < TIMES and driver.next("begin") is not None:
                    victim = 1 if nodes == 1 else rng.choice([coordinator(kafka, "rows"), kafka.leader("rows")])
                    soon(rng.uniform(0, 1.5), lambda: kafka.kill(victim)).join()  # noqa: B023 - joined at once
                    kafka.start(victim)
                    lost += 1
                    if nodes > 1:
                        await_in_sync(kafka, "rows", "__transaction_state", "__consumer_offsets")
                driver.end()
        checkpoint.put(1)
        with checkpoint.driver(cores=2) as driver:
            driver.go().finish()
        print(f"{lost} nodes were killed, {drivers} drivers needed, {checkpoint.batches} batches")

        checkpoint.check()


def test_a_batch_of_hundreds_of_tasks_survives_a_failed_one(tmp_path: Path) -> None:
    with KafkaCluster() as kafka:
        kafka.create_topic("rows", partitions=MANY)
        checkpoint = Checkpoint(kafka=kafka, topic="rows", folder=tmp_path, partitions=MANY)
        checkpoint.put(2)
        settings = {
            "spark.default.parallelism": str(MANY),
            "spark.sql.files.maxPartitionBytes": "4",
            "spark.sql.files.openCostInBytes": "1",
        }
        owner = (murmur2(b"%d" % (ROWS + 2)) & 0x7FFFFFFF) % MANY  # of a row of the second batch
        faults = {"1": TaskFault(kind="raises", owner=owner)}
        with checkpoint.driver(settings=settings, faults=faults) as driver:
            said = driver.go().finish()

        assert [line for line in said if line.startswith("batch")] == [f"batch 0 {ROWS} 1", f"batch 1 {ROWS} 2"]
        checkpoint.check()


def test_many_batches_with_a_fault_in_every_third_are_there_once(tmp_path: Path) -> None:
    rng = chance("a fault in every third batch")
    with KafkaCluster() as kafka:
        kafka.create_topic("rows", partitions=PARTITIONS)
        checkpoint = Checkpoint(kafka=kafka, topic="rows", folder=tmp_path)
        checkpoint.put(BATCHES)
        stream = FaultyStream(checkpoint=checkpoint, rng=rng, faults=planned(rng))
        stream.go_through()
        print(f"{stream.drivers} drivers; faults: {dict(stream.happened)}")

        checkpoint.check()
        assert sum(stream.happened.values()) >= BATCHES // 3


def planned(rng: random.Random) -> Mapping[int, str]:
    """The fault in every third batch."""
    kinds = rng.choices(list(KINDS), weights=list(KINDS.values()), k=BATCHES // 3)
    return dict(zip(range(2, BATCHES, 3), kinds, strict=False))


@attrs.define(kw_only=True)
class FaultyStream:
    """Goes through all batches with one driver after the other."""

    checkpoint: Checkpoint
    rng: random.Random
    faults: Mapping[int, str]
    drivers: int = 0
    happened: Counter[str] = attrs.field(factory=Counter)
    _at: int = -1
    _left: list[int] = attrs.field(factory=list)

    def go_through(self) -> None:
        while not self._one_driver():
            assert self.drivers < BATCHES, "it does not come to an end"

    def _one_driver(self) -> bool:
        """True: everything is written."""
        self.drivers += 1
        ends = [batch for batch, kind in self.faults.items() if kind in ("driver", "two drivers") and batch > self._at]
        orders = {"cores": self.rng.randint(1, 3), "faults": self._of_tasks()}
        point = self.rng.choice(POINTS) if ends else ""
        if ends:
            orders |= {"point": point, "since": ends[0]}
        with self.checkpoint.driver(**orders) as driver:
            driver.go()
            for late in self._left:
                wake(late)
            self._left = []
            while (line := driver.next("begin", "done", point or "done")) not in (None, "done"):
                if line == point:
                    self._at = ends[0]
                    self._end(driver, point, self.faults[ends[0]])
                    return False
                assert line is not None
                self._begun(int(line.split()[1]))
            return line == "done"

    def _begun(self, batch: int) -> None:
        kind = self.faults.get(batch)
        if batch <= self._at or kind not in ("raises", "killed", "broker"):
            return
        self._at = batch
        self.happened[kind] += 1
        if kind == "broker":
            kafka = self.checkpoint.kafka
            soon(self.rng.uniform(0, 1), lambda: kafka.kill(1)).join()
            kafka.start(1)

    def _end(self, driver: Driver, point: str, kind: str) -> None:
        self.happened[f"{kind}, {point}"] += 1
        if kind == "two drivers" and point not in OF_A_TASK:
            with self.checkpoint.driver(cores=2) as second:
                second.go().wait_for("batch", "done")
                driver.go()  # it wakes up while the other one is in the middle of its batches
                driver.end()
                second.kill()
            return
        self._left = list(driver.stopped_tasks())
        driver.kill(leaving=self._left)

    def _of_tasks(self) -> Mapping[str, TaskFault]:
        found = {
            str(batch): TaskFault(kind=kind, owner=self.rng.randrange(3), rows=self.rng.choice([0, 20, 60, ROWS]))
            for batch, kind in self.faults.items()
            if kind in ("raises", "killed")
        }
        return found | {"": TaskFault(kind="", owner=self.rng.randrange(3), rows=self.rng.choice([0, 20, 60]))}
