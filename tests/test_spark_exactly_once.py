"""Exactly-once from Spark, whatever dies: drivers killed at every step, tasks and workers lost, two drivers at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs
import pytest
from exactly_once_program import Fault

from ottla.transactions import leftovers
from ottla_testkit.kafka_cluster import KafkaCluster
from transactions_kit import LONG, await_true, chance, read

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

HERE = Path(__file__).parent
PARTITIONS = 3
LONGEST = 1800.0 if LONG else 300.0


@attrs.define
class Stream:
    """A folder of files, the query's checkpoint, and the topic that it writes."""

    kafka: KafkaCluster
    folder: Path
    topic: str
    prefix: str = attrs.Factory(lambda: f"p-{uuid.uuid4().hex[:8]}")
    rows: Counter[bytes] = attrs.Factory(Counter)
    files: int = 0

    def add(self, files: int, *, rows: int = 60) -> None:
        """Files more, each of them a micro-batch."""
        for _ in range(files):
            values = [f"{self.files}-{row}" for row in range(rows)]
            lines = [json.dumps({"key": f"k{row % 7}", "value": value}) for row, value in enumerate(values)]
            path = self.folder / "in" / f"{self.files:05}.json"
            path.parent.mkdir(exist_ok=True)
            hidden = path.with_name("." + path.name)
            hidden.write_text("\n".join(lines))
            hidden.rename(path)
            os.utime(path, (self.files + 1_000_000_000,) * 2)  # Spark reads the oldest first
            self.rows.update(value.encode() for value in values)
            self.files += 1

    @contextmanager
    def driver(self, fault: Fault | None = None, *, cores: int = 2, starts: int = 1) -> Iterator[subprocess.Popen[str]]:
        """A driver in a process of its own."""
        if fault is not None:
            fault.save(self.folder)
        arguments = [str(self.folder), self.kafka.bootstrap_servers, self.topic, self.prefix, str(cores), str(starts)]
        python_path = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
        child = subprocess.Popen(
            [sys.executable, str(HERE / "exactly_once_program.py"), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": python_path},
        )
        with child:
            try:
                yield child
            finally:
                child.kill()

    def run(self, fault: Fault | None = None, *, cores: int = 2, starts: int = 1) -> tuple[int, str, str]:
        """Let a driver run to its end: its exit code, and what it said."""
        with self.driver(fault, cores=cores, starts=starts) as child:
            out, log = child.communicate(timeout=LONGEST)
            return child.returncode, out, log

    def finish(self, *, cores: int = 2, starts: int = 1) -> str:
        """Let a driver write all that is left."""
        code, out, log = self.run(cores=cores, starts=starts)
        assert code == 0, log[-6000:]
        return out

    def visible(self) -> Counter[bytes]:
        """What a reader of committed records finds."""
        found = read(self.kafka.bootstrap_servers, self.topic, partitions=PARTITIONS)
        return Counter(value for values in found for value in values)


@pytest.fixture
def stream(kafka: KafkaCluster, tmp_path: Path) -> Stream:
    topic = f"t-{uuid.uuid4().hex[:8]}"
    kafka.create_topic(topic, partitions=PARTITIONS)
    return Stream(kafka, tmp_path, topic)


KILLS = {
    "while it is planned": Fault(deed="kill", step="take_lease", batch=1),
    "in the middle of a task": Fault(deed="kill", step="write", batch=1, after=False),
    "after a task": Fault(deed="kill", step="write", batch=1, nth=2),
    "before the commit point": Fault(deed="kill", step="append", batch=1, after=False),
    "right after the commit point": Fault(deed="kill", step="append", batch=1),
    "between two ends": Fault(deed="kill", step="end", batch=1),
    "after all ends": Fault(deed="kill", step="end", batch=1, nth=2),
    "before Spark's own commit": Fault(deed="kill", step="append", batch=1, nth=2),
}
FAILURES = {
    "a task half-way": Fault(deed="fail", step="write", batch=0, after=False),
    "a task that had prepared": Fault(deed="fail", step="write", batch=1, nth=2),
    "a Python worker half-way": Fault(deed="exit", step="write", batch=2, after=False),
    "a Python worker that had prepared": Fault(deed="exit", step="write", batch=3),
    "the planner": Fault(deed="fail", step="ledger", batch=4),
    "the planner's process": Fault(deed="exit", step="take_lease", batch=5),
    "the commit before its point": Fault(deed="fail", step="append", batch=6, after=False),
    "the commit after its point": Fault(deed="fail", step="append", batch=7),
    "the process that commits, between two ends": Fault(deed="exit", step="end", batch=8),
}
STEPS = ("open_transactions", "take_lease", "ledger", "standings", "append", "end", "write")


@pytest.mark.parametrize("when", KILLS if LONG else ["between two ends"])
def test_a_driver_that_is_killed_loses_and_doubles_nothing(stream: Stream, when: str) -> None:
    stream.add(3)
    code, _out, log = stream.run(KILLS[when])
    stream.finish(cores=3)

    assert code == -9, log[-6000:]
    assert stream.visible() == stream.rows


def test_whatever_fails_while_the_driver_lives_loses_and_doubles_nothing(stream: Stream) -> None:
    """Tasks are tried again by Spark; what fails on the driver ends the query, which is started again."""
    stream.add(len(FAILURES) + 1, rows=20)
    for fault in FAILURES.values():
        fault.save(stream.folder)
    stream.finish(starts=1 + len(FAILURES))

    assert list((stream.folder / "faults").glob("*.json")) == [], "every fault has happened"
    assert stream.visible() == stream.rows
    assert open_transactions(stream) == []


def test_of_two_drivers_on_one_checkpoint_the_older_one_can_commit_no_more(stream: Stream) -> None:
    stream.add(2)
    stalled = stream.folder / "stalled"
    with stream.driver(Fault(deed="stall", step="append", batch=1, after=False)) as zombie:
        await_true(stalled.exists, within=LONGEST)
        stream.finish()
        stalled.unlink()
        _out, log = zombie.communicate(timeout=LONGEST)

    assert zombie.returncode == 1
    assert "another driver has taken its ledger over" in log, log[-6000:]
    assert stream.visible() == stream.rows


@pytest.mark.skipif(not LONG, reason="long form: OTTLA_SOAK=1")
def test_a_broker_that_restarts_loses_and_doubles_nothing(stream: Stream) -> None:
    stream.add(20)
    with stream.driver(starts=5) as child:
        await_true(lambda: (stream.folder / "checkpoint" / "commits" / "3").exists(), within=LONGEST)
        stream.kafka.kill(1)
        stream.kafka.start(1)
        _out, log = child.communicate(timeout=LONGEST)

    assert child.returncode == 0, log[-6000:]
    assert stream.visible() == stream.rows


@pytest.mark.skipif(not LONG, reason="long form: OTTLA_SOAK=1")
def test_many_micro_batches_with_a_fault_in_every_third_are_exact(stream: Stream) -> None:
    luck = chance("exactly once from Spark")
    batches = int(os.environ.get("OTTLA_BATCHES", "200"))
    stream.add(batches, rows=20)
    for batch in range(0, batches, 3):
        deed = luck.choice(["fail", "fail", "exit", "exit", "kill"] if batch % 30 == 0 else ["fail", "exit"])
        step = luck.choice(STEPS)
        nth = luck.randint(1, 2) if step in ("append", "end", "write") else 1
        Fault(deed=deed, step=step, batch=batch, nth=nth, after=luck.random() < 0.5).save(stream.folder)
    for _ in range(2 + batches // 30):
        code, _out, log = stream.run(cores=luck.randint(1, 3), starts=batches)
        if code == 0:
            break

    assert code == 0, log[-6000:]
    assert stream.visible() == stream.rows
    assert open_transactions(stream) == []


def open_transactions(stream: Stream) -> list[str]:
    """The ids that keep readers waiting."""
    found = leftovers({"bootstrap.servers": stream.kafka.bootstrap_servers}, stream.prefix)
    return [each.transactional_id for each in found]
