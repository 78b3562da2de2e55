"""Drivers of all-or-nothing batches as processes, and what readers of committed records make of their topic."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

import attrs
import psutil
import spark_atomic_program as program
from spark_atomic_program import ROWS, TaskPlan

from ottla import transactions
from ottla_testkit.kafka_cluster import KafkaCluster
from transactions_kit import await_true, read_pairs

LINE_TIMEOUT = 400.0
"""Seconds for a driver, of which a busy machine may need many to start a JVM."""

Record = tuple[bytes | None, bytes]


class Driver:
    """A driver with its JVM and workers, in a group of its own; killed with all of them at the end of a `with`."""

    def __init__(self, *orders: TaskPlan) -> None:
        self.orders = orders
        self.folder = Path(orders[0].folder)
        self.said: list[str] = []
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._log = (self.folder / "log").open("a")
        self._child = subprocess.Popen(
            [sys.executable, "-u", program.__file__, json.dumps([attrs.asdict(each) for each in orders])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.kill()
        self._thread.join(LINE_TIMEOUT)
        for stream in (self._child.stdin, self._child.stdout, self._log):
            if stream is not None:
                with suppress(BrokenPipeError):
                    stream.close()

    @property
    def pid(self) -> int:
        """The process, which is also the number of its group."""
        return self._child.pid

    def go(self, *, times: int = 1) -> Self:
        """Have it begin, or so many of its queries go on behind the points where they stopped."""
        assert self._child.stdin is not None
        if not self.said:
            self.wait_for("up")
        with suppress(BrokenPipeError):
            self._child.stdin.write("go\n" * times)
            self._child.stdin.flush()
        return self

    def next(self, *beginnings: str) -> str | None:
        """The next line that begins so; None: the driver has ended."""
        while True:
            try:
                line = self._lines.get(timeout=LINE_TIMEOUT)
            except queue.Empty:
                raise AssertionError(f"nothing within {LINE_TIMEOUT} s after {self.said[-20:]}\n{self.log}") from None
            if line is None:
                self._lines.put(None)
                return None
            self.said.append(line)
            if line.startswith(beginnings):
                return line

    def wait_for(self, *beginnings: str) -> str:
        """The same, where it must not end before."""
        line = self.next(*beginnings)
        assert line is not None, f"the driver ended before it said any of {beginnings}: {self.said}\n{self.log}"
        return line

    def reach(self, *, or_over: bool = False) -> None:
        """Wait until all queries that stop somewhere are there; or else, where that may be, have ended."""
        missing = {each.name: each.point for each in self.orders if each.point}
        while missing:
            ends = [name + "over" for name in missing] if or_over else []
            line = self.wait_for(*(name + point for name, point in missing.items()), *ends)
            missing = {name: point for name, point in missing.items() if line not in (name + point, f"{name}over")}

    def await_over(self) -> None:
        """Wait until every query has ended, but for one whose task waits for ever."""
        missing = {f"{each.name}over" for each in self.orders if each.point != "mid-task"}
        missing -= set(self.said)
        while missing:
            missing.discard(self.wait_for(*missing))

    def stopped_tasks(self) -> Sequence[int]:
        """The processes of the tasks that were made late, and wait for permission to continue."""
        flags = [program.flag_of(each, self.pid) for each in self.orders if each.point == "late task"]
        return [int(flag.read_text()) for flag in flags if flag.exists()]

    def finish(self) -> list[str]:
        """Its output until it succeeds."""
        line = self.wait_for("done", "failed")
        assert line == "done", f"{self.said}\n{self.log}"
        return self.said

    def end(self) -> bool:
        """Wait for its end, good or bad; True: good."""
        return self.next("done", "failed") == "done"

    def kill(self, *, leaving: Collection[int] = ()) -> None:
        """-9 for the driver and its JVM, whose workers end with it; *leaving* some of them to be as they are."""
        if self._child.poll() is None:
            family = [each for each in psutil.Process(self.pid).children(recursive=True) if each.pid not in leaving]
            for process in family:
                with suppress(psutil.NoSuchProcess):  # it may end by itself
                    if leaving and "java" not in process.name():  # who else would end them goes first
                        process.kill()
            os.killpg(self.pid, signal.SIGKILL)
            for process in family:
                with suppress(psutil.NoSuchProcess):
                    if process.status() == psutil.STATUS_STOPPED:  # such a worker does not see that its JVM has ended
                        process.kill()
        self._child.wait(LINE_TIMEOUT)

    @property
    def log(self) -> str:
        """The end of what all drivers of the folder have logged."""
        return (self.folder / "log").read_text()[-4000:]

    def _read(self) -> None:
        assert self._child.stdout is not None
        for line in self._child.stdout:
            self._lines.put(line.rstrip("\n"))
        self._lines.put(None)


@attrs.define(kw_only=True)
class Checkpoint:
    """One query over all its drivers: where its rows come from, and what its topic should have."""

    kafka: KafkaCluster
    topic: str
    folder: Path
    batches: int = 0
    partitions: int = program.PARTITIONS

    def put(self, batches: int) -> None:
        """Rows for so many more."""
        for _ in range(batches):
            program.put(self.folder, self.batches)
            self.batches += 1

    def orders(self, **more: object) -> TaskPlan:
        """For a driver of this query."""
        place = {"servers": self.kafka.bootstrap_servers, "topic": self.topic, "folder": str(self.folder)}
        return TaskPlan(**(place | more))  # type: ignore[arg-type]

    @contextmanager
    def driver(self, **more: object) -> Iterator[Driver]:
        """A driver of this query."""
        with Driver(self.orders(**more)) as driver:
            yield driver

    def visible(self, *, after_markers: bool = False) -> Counter[Record]:
        """The records that a reader of committed records has now."""
        servers = self.kafka.bootstrap_servers
        found = read_pairs(servers, self.topic, partitions=self.partitions, after_markers=after_markers)
        return Counter(pair for pairs in found for pair in pairs)

    def wholes(self) -> int:
        """The number of visible batches, each of them complete; there are no writes meanwhile.

        Markers follow the answer to a commit, so what is visible may take a moment.
        """
        counts: Counter[int] = Counter()

        def whole() -> bool:
            nonlocal counts
            counts = Counter()
            for (_key, value), times in self.visible().items():
                counts[int(value) // ROWS] += times
            return set(counts.values()) <= {ROWS}

        await_true(whole, within=30)
        return len(counts)

    def check(self) -> None:
        """Every row of every batch is there once, with its key, and nothing is open."""
        assert self.visible(after_markers=True) == all_rows(self.batches)
        assert not list(
            transactions.find_open_transactions({"bootstrap.servers": self.kafka.bootstrap_servers}, self.topic)
        )

    def check_counts(self) -> None:
        """Check that each row of the query with a state is there once."""
        assert self.visible(after_markers=True) == all_counts(self.batches)


def all_rows(batches: int) -> Counter[Record]:
    """The rows of `numbers` for so many files."""
    texts = [str(number).encode() for number in range(batches * ROWS)]
    return Counter((None if number % 3 == 0 else text, text) for number, text in enumerate(texts))


def all_counts(batches: int) -> Counter[Record]:
    """The rows of `counts` for so many files, in either mode: every group grows with each."""
    each = ROWS // program.GROUPS
    groups = [str(group).encode() for group in range(program.GROUPS)]
    return Counter((group, str(each * batch).encode()) for batch in range(1, batches + 1) for group in groups)


def wake(pid: int) -> None:
    """Continue a process that was stopped, and wait for its end; results that it could not deliver are lost."""
    with suppress(ProcessLookupError, psutil.NoSuchProcess):
        process = psutil.Process(pid)
        os.kill(pid, signal.SIGCONT)
        with suppress(psutil.TimeoutExpired):
            process.wait(20)
        process.kill()


def soon(seconds: float, act: Callable[[], object]) -> threading.Timer:
    """Do it in a while, on a thread of its own."""
    timer = threading.Timer(seconds, act)
    timer.start()
    return timer
