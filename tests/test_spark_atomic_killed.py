"""Drivers of all-or-nothing batches that are killed with -9: their successors go on, and nothing is lost or doubled.

Each successor has other cores, and so other tasks and other files in them. The long form (OTTLA_SOAK) has every point
several times in any order, and two drivers on one checkpoint at the same time.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import spark_atomic_program as program

from ottla import transactions
from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.pytest_plugin import MakeTopic
from transactions_kit import LONG, chance, read

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

PATIENCE = 400.0
"""Seconds for a driver, of which a busy machine may need many to start a JVM."""


@contextmanager
def driver(kafka: KafkaCluster, topic: str, folder: Path, *, cores: int, point: str) -> Iterator[subprocess.Popen[str]]:
    """A driver with its JVM and workers, in a group of its own; killed with all of them at the end."""
    arguments = [kafka.bootstrap_servers, topic, str(folder), str(cores), point]
    log = (folder / "log").open("a")
    child = subprocess.Popen(
        [sys.executable, "-u", program.__file__, *arguments],
        stdout=subprocess.PIPE,
        stderr=log,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    with log, child:
        try:
            yield child
        finally:
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)


def reach(child: subprocess.Popen[str], point: str, folder: Path) -> None:
    """Wait until the driver is at the point."""
    if point == "mid-task":
        flag = folder / point
        deadline = time.monotonic() + PATIENCE
        while not flag.exists():
            assert child.poll() is None, (folder / "log").read_text()[-3000:]
            assert time.monotonic() < deadline, f"no task began within {PATIENCE} s"
            time.sleep(0.02)
        flag.unlink()
        return
    assert child.stdout is not None
    seen = []
    for line in child.stdout:
        seen.append(line.strip())
        if seen[-1] == point:
            return
    raise AssertionError(f"the driver ended before {point!r}: {seen}\n{(folder / 'log').read_text()[-3000:]}")


def finish(child: subprocess.Popen[str], folder: Path) -> list[str]:
    """What the driver says until its good end."""
    out, _none = child.communicate(timeout=PATIENCE)
    assert out.endswith("done\n"), (folder / "log").read_text()[-3000:]
    return out.splitlines()[:-1]


def committed(kafka: KafkaCluster, topic: str) -> Counter[int]:
    found = read(kafka.bootstrap_servers, topic, partitions=program.PARTITIONS)
    return Counter(int(value) for values in found for value in values)


def test_whatever_a_driver_does_when_it_is_killed_each_batch_is_there_once(
    kafka: KafkaCluster, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic(program.PARTITIONS)
    points = ["mid-task", "after the commit"]
    if LONG:
        points = list(program.POINTS) * 3
        chance("driver kills").shuffle(points)
    batches = 0
    for cores, point in enumerate(points):
        for _ in range(2):
            program.put(tmp_path, batches)
            batches += 1
        with driver(kafka, topic, tmp_path, cores=1 + cores % 2, point=point) as child:
            reach(child, point, tmp_path)
            os.killpg(child.pid, signal.SIGKILL)
        print(f"killed {point}")
    with driver(kafka, topic, tmp_path, cores=2, point="") as child:
        told = finish(child, tmp_path)

    assert committed(kafka, topic) == Counter(range(batches * program.ROWS))
    assert not list(transactions.leftovers({"bootstrap.servers": kafka.bootstrap_servers}, topic))
    if points[-1] == "after the commit":
        assert any(line.endswith(" None") for line in told), "no batch was found in Kafka: the test tests nothing"


@pytest.mark.skipif(not LONG, reason="the long form, with OTTLA_SOAK=1")
def test_two_drivers_on_one_checkpoint_write_each_batch_once(
    kafka: KafkaCluster, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic(program.PARTITIONS)
    for batch in range(6):
        program.put(tmp_path, batch)
    with (
        driver(kafka, topic, tmp_path, cores=1, point="before the commit") as first,
        driver(kafka, topic, tmp_path, cores=2, point="") as second,
    ):
        reach(first, "before the commit", tmp_path)
        second.communicate(timeout=PATIENCE)
    with driver(kafka, topic, tmp_path, cores=2, point="") as third:
        finish(third, tmp_path)

    assert committed(kafka, topic) == Counter(range(6 * program.ROWS))
