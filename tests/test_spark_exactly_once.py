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

from ottla_testkit.kafka_cluster import KafkaCluster
from transactions_kit import LONG, WAIT, read

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

HERE = Path(__file__).parent
PARTITIONS = 3


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
    def driver(self, fault: Fault | None = None, *, cores: int = 2) -> Iterator[subprocess.Popen[str]]:
        """A driver in a process of its own."""
        if fault is not None:
            fault.save(self.folder)
        python_path = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
        child = subprocess.Popen(
            [sys.executable, str(HERE / "exactly_once_program.py")]
            + [str(self.folder), self.kafka.bootstrap_servers, self.topic, self.prefix, str(cores)],
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

    def run(self, fault: Fault | None = None, *, cores: int = 2) -> tuple[int, str, str]:
        """Let a driver run to its end: its exit code, and what it said."""
        with self.driver(fault, cores=cores) as child:
            out, log = child.communicate(timeout=WAIT)
            return child.returncode, out, log

    def finish(self, *, cores: int = 2) -> str:
        """Let a driver write all that is left."""
        code, out, log = self.run(cores=cores)
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
    "while it is planned": Fault(deed="kill", step="take_lease"),
    "in the middle of a task": Fault(deed="kill", step="write", batch=1, after=False),
    "after a task": Fault(deed="kill", step="write", batch=1, nth=2),
    "before the commit point": Fault(deed="kill", step="append", batch=1, after=False),
    "right after the commit point": Fault(deed="kill", step="append", batch=1),
    "between two ends": Fault(deed="kill", step="end", batch=1),
    "after all ends": Fault(deed="kill", step="end", batch=1, nth=2),
    "before Spark's own commit": Fault(deed="kill", step="append", batch=1, nth=2),
}


@pytest.mark.parametrize(
    "when", KILLS if LONG else ["in the middle of a task", "right after the commit point", "between two ends"]
)
def test_a_driver_that_is_killed_loses_and_doubles_nothing(stream: Stream, when: str) -> None:
    stream.add(3)
    code, _out, log = stream.run(KILLS[when])
    stream.finish(cores=3)

    assert code == -9, log[-6000:]
    assert stream.visible() == stream.rows
