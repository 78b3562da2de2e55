"""A stream of files into Kafka, exactly once: what goes in, the drivers that write it, and what readers find.

Every driver is a program of its own (`exactly_once_program`), which dies where the test says.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
import psutil
from confluent_kafka import TopicPartition
from exactly_once_program import DriverSettings, Fault
from long_forms import LONG

from ottla.transactions import find_open_transactions
from ottla_testkit.kafka_cluster import KafkaCluster
from readback import end_offset
from transactions_kit import UNCOMMITTED, WAIT, await_true, consumer, read_pairs

HERE = Path(__file__).parent
PARTITIONS = 3
LONGEST = 1800.0 if LONG else 300.0
TIMES = int(os.environ.get("OTTLA_TIMES") or 10)
"""How often the long forms have each fault happen."""

STATES = "__transaction_state"
"""Partitions of the topic in which brokers keep transactions."""

Row = tuple[bytes | None, bytes]


@attrs.frozen
class Driver:
    """A driver that runs. Its output goes into a file, because no process reads a pipe while it is stopped."""

    process: subprocess.Popen[bytes]
    log_file: Path

    def end(self) -> tuple[int, str]:
        """Wait for it: its exit code, and what it said."""
        return self.process.wait(LONGEST), self.log_file.read_text(errors="replace")

    def run_on(self, seconds: float) -> None:
        """Let it go on for so long; it must not end meanwhile."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            raise AssertionError(f"the driver has ended with {self.process.wait(seconds)}")

    def kill(self) -> None:
        """End it, its JVM and all of its workers, with -9."""
        driver = psutil.Process(self.process.pid)
        for each in [driver, *driver.children(recursive=True)]:
            with contextlib.suppress(psutil.NoSuchProcess):  # it may end by itself
                each.kill()


@attrs.define
class Stream:
    """A folder of files, the query's checkpoint, and the topic that it writes; all drivers get `driver_settings`."""

    kafka: KafkaCluster
    folder: Path
    topic: str
    prefix: str = attrs.Factory(lambda: f"p-{uuid.uuid4().hex[:8]}")
    driver_settings: dict[str, Any] = attrs.Factory(dict)
    rows: Counter[Row] = attrs.Factory(Counter)
    files: int = 0
    faults: int = 0
    drivers: int = 0

    def add(self, files: int, *, rows: int = 60, again: random.Random | None = None) -> None:
        """Files more, each of them a micro-batch; with *again* some rows of earlier ones are in it once more."""
        for _ in range(files):
            pairs = [(f"k{row % 7}", f"{self.files}-{row}") for row in range(rows)]
            repeated = again.sample(sorted(self.rows), min(len(self.rows), rows // 2)) if again is not None else []
            lines = [*pairs, *(((key or b"").decode(), value.decode()) for key, value in repeated)]
            path = self.folder / "in" / f"{self.files:05}.json"
            path.parent.mkdir(exist_ok=True)
            hidden = path.with_name("." + path.name)
            hidden.write_text("\n".join(json.dumps({"key": key, "value": value}) for key, value in lines))
            hidden.rename(path)
            os.utime(path, (self.files + 1_000_000_000,) * 2)  # Spark reads the oldest first
            self.rows.update((key.encode(), value.encode()) for key, value in pairs)
            self.files += 1

    def plan(self, *faults: Fault, rng: random.Random | None = None, rows: int = 60) -> None:
        """Have each of these happen to a batch of its own, behind those that are there; *rng* leaves some out."""
        for fault in faults:
            again = rng if self.driver_settings.get("stateful") else None
            self.add(1 if rng is None else rng.randint(1, 2), rows=rows, again=again)
            attrs.evolve(fault, batch=self.files - 1).save(self.folder)
            self.faults += 1

    @property
    def happened(self) -> int:
        """How many faults have happened."""
        return len(list((self.folder / "faults").glob("*.done")))

    def committed(self, batch: int) -> bool:
        """Whether Spark calls a batch done."""
        return (self.folder / "checkpoint" / "commits" / str(batch)).exists()

    def await_committed(self, batch: int) -> None:
        """Until Spark calls it done."""
        await_true(lambda: self.committed(batch), within=LONGEST)

    @contextmanager
    def driver(self, **driver_settings: Any) -> Iterator[Driver]:
        """A driver in a process of its own."""
        reported = DriverSettings(
            servers=self.kafka.bootstrap_servers,
            topic=self.topic,
            prefix=self.prefix,
            **{**self.driver_settings, **driver_settings},
        )
        python_path = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
        self.drivers += 1
        log_file = self.folder / f"driver-{self.drivers}.log"
        with (
            log_file.open("wb") as log,
            subprocess.Popen(
                [
                    sys.executable,
                    str(HERE / "exactly_once_program.py"),
                    self.folder,
                    json.dumps(attrs.asdict(reported)),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, "PYTHONPATH": python_path},
            ) as process,
        ):
            try:
                yield Driver(process, log_file)
            finally:
                process.kill()

    def run(self, **driver_settings: Any) -> tuple[int, str]:
        """Let a driver run to its end: its exit code, and what it said."""
        with self.driver(**driver_settings) as driver:
            return driver.end()

    def finish(self, **driver_settings: Any) -> str:
        """Let a driver write all that is left; what it said."""
        code, log = self.run(**driver_settings)
        assert code == 0, log[-6000:]
        return log

    def await_stall(self, *, but: int = -1) -> int:
        """Until a driver stands still, another one than at the batch *but*; the batch at which it does."""
        found: list[int] = []

        def stalled() -> bool:
            batches = [int(each.name.removeprefix("stalled-")) for each in self.folder.glob("stalled-*")]
            found.extend(batch for batch in batches if batch != but)
            return bool(found)

        await_true(stalled, within=LONGEST)
        return found[0]

    def wake(self, batch: int) -> None:
        """Let the driver go on that stands still at this batch."""
        (self.folder / f"stalled-{batch}").unlink()

    def check(self) -> None:
        """Readers find every row once, no fault was left out, and no reader is kept waiting."""
        found = read_pairs(self.kafka.bootstrap_servers, self.topic, partitions=PARTITIONS)

        counts = Counter(pair for pairs in found for pair in pairs)
        assert counts == self.rows, f"missing: {dict(self.rows - counts)}; too many: {dict(counts - self.rows)}"
        assert self.happened == self.faults
        assert find_open_transactions({"bootstrap.servers": self.kafka.bootstrap_servers}, self.prefix) == []


def transactional_ids(bootstrap_servers: str, prefix: str) -> set[str]:
    """All that brokers remember under a prefix, as their own topic has them."""
    found: set[str] = set()
    with consumer(bootstrap_servers, isolation=UNCOMMITTED) as reader:
        states = reader.list_topics(STATES, timeout=WAIT).topics[STATES].partitions
        places = [TopicPartition(STATES, partition, 0) for partition in states]
        unread = {place.partition: end_offset(reader, place) for place in places}
        reader.assign(places)
        deadline = time.monotonic() + WAIT
        while unread:
            assert time.monotonic() < deadline, f"partitions {sorted(unread)} were not read to their end"
            for message in reader.consume(10_000, timeout=0.1):
                key = message.key()
                if message.error() is None and isinstance(key, bytes):
                    found.add(key[4:].decode())  # behind its version and its length
                elif (message.offset() or 0) >= unread.get(message.partition() or 0, 0):
                    unread.pop(message.partition() or 0, None)
    return {each for each in found if each.startswith(f"{prefix}/")}


def local(cores: int) -> str:
    """A Spark in the driver's JVM that tries each task four times."""
    return f"local[{cores}, 4]"
