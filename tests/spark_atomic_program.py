"""A driver that writes numbered rows in all-or-nothing batches, and stops where a test wants to kill it.

Also the faults that its tasks have, for tests that run the driver themselves.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
import psutil
import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from ottla.transactions import Ended, SharedTransaction
from ottla_spark import outbox as outboxes
from ottla_spark.atomic import atomically, sink
from ottla_spark.atomic.course import BatchWritten
from ottla_spark.atomic.marker import Marker
from ottla_spark.atomic.owning import TransactionOwner
from ottla_spark.atomic.task import TaskWrite
from ottla_spark.outbox import Outbox

ROWS = 200
PARTITIONS = 4
GROUPS = 10
PIECE = 10
"""So many rows at a time are given to a task that comes to grief among them."""

OF_THE_DRIVER = ("before the marker", "before the commit", "after the commit", "before Spark's log")
OF_A_TASK = ("mid-task", "late task")
POINTS = (*OF_A_TASK, *OF_THE_DRIVER)

BatchFunction = Callable[[DataFrame, int], None]

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]  # executors need not find this file


@attrs.frozen(kw_only=True)
class TaskFault:
    """What happens, once, to the task of an owner when it has sent so many rows, or all that it has.

    `raises`, `killed`, `waits` (until its process is killed), `stops` (until its process is told to go on, whatever
    became of those above it), or `executor`, which is killed with it.
    """

    kind: str
    owner: int = 0
    rows: int = ROWS


@attrs.frozen(kw_only=True)
class FaultyTask(TaskWrite):
    """A task that comes to grief, and says so by a file with the number of its process."""

    fault: TaskFault
    flag: Path

    def write(self, batches: Iterator[pa.RecordBatch], *, owner: int, attempt: int) -> int:
        if self._is_faulty(owner):
            batches = self._in_pieces(batches)
        return TaskWrite.write(self, batches, owner=owner, attempt=attempt)

    def _prove(self, outbox: Outbox, ends: Mapping[tuple[str, int], int], *, task: str) -> None:
        TaskWrite._prove(self, outbox, ends, task=task)
        if self._is_faulty(int(task.split()[1])):
            self._come_to_grief()

    def _is_faulty(self, owner: int) -> bool:
        return owner == self.fault.owner % self.ownership.owners and not self.flag.exists()

    def _in_pieces(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        setattr(outboxes, "TABLE_BYTES", 1)  # noqa: B010 - it is final; each piece is to be sent when it comes
        given = 0
        for batch in batches:
            for start in range(0, batch.num_rows, PIECE):
                if given >= self.fault.rows:
                    self._come_to_grief()
                piece = batch.slice(start, PIECE)
                given += piece.num_rows
                yield piece

    def _come_to_grief(self) -> None:
        if self.flag.exists():
            return
        hidden = self.flag.with_suffix(".new")
        hidden.write_text(str(os.getpid()))
        hidden.rename(self.flag)
        match self.fault.kind:
            case "raises":
                raise RuntimeError("the task fails when something is written")
            case "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            case "waits":
                time.sleep(600)
            case "executor":
                java = psutil.Process().parents()[1]  # between them is the one that forks workers
                java.kill()
            case "stops":
                signal.signal(signal.SIGHUP, signal.SIG_IGN)
                os.kill(os.getpid(), signal.SIGSTOP)


def with_fault(fault: TaskFault, flag: Path) -> Any:
    """What makes tasks in place of TaskWrite."""

    def make(**fields: Any) -> FaultyTask:
        return FaultyTask(**fields, fault=fault, flag=flag)

    return make


@attrs.frozen(kw_only=True)
class Orders:
    """What a driver is to do. `point` is where it stops, from batch `since` on, when it came there `passes` times.

    It prints `up` and waits for a line; so it does at the point, and goes on if one comes. `faults` are of tasks, by
    the number of the batch; that of "" comes to the point of a task.
    """

    servers: str
    topic: str
    folder: str
    cores: int = 2
    master: str = "local[{cores},4]"
    mode: str = "append"
    point: str = ""
    passes: int = 0
    since: int = 0
    faults: Mapping[str, TaskFault] = attrs.field(factory=dict)
    settings: Mapping[str, str] = attrs.field(factory=dict)

    def text(self) -> str:
        """For the command line."""
        return json.dumps(attrs.asdict(self))

    @classmethod
    def of(cls, text: str) -> Orders:
        """What `text` made."""
        fields = json.loads(text)
        fields["faults"] = {batch: TaskFault(**fault) for batch, fault in fields["faults"].items()}
        return cls(**fields)


class Stop:
    """Where a driver says that it has come to a point, and waits."""

    def __init__(self, orders: Orders) -> None:
        self._point = orders.point
        self._passes = orders.passes
        self._since = orders.since
        self.batch = -1

    def due(self, point: str) -> bool:
        """Whether this is the time."""
        if point != self._point or self.batch < self._since:
            return False
        self._passes -= 1
        return self._passes == -1

    def at(self, point: str) -> None:
        if self.due(point):
            say_and_wait(point)


@attrs.frozen(kw_only=True)
class StoppingOwner(TransactionOwner):
    """Stops before and after what it does."""

    stop: Stop

    def mark(self, shared: SharedTransaction, marker: Marker) -> None:
        self.stop.at("before the marker")
        TransactionOwner.mark(self, shared, marker)
        self.stop.at("before the commit")

    def end(self, shared: SharedTransaction, *, commit: bool) -> Ended:
        ended = TransactionOwner.end(self, shared, commit=commit)
        if commit:
            self.stop.at("after the commit")
        return ended


def say_and_wait(word: str) -> None:
    """Until a line comes."""
    print(word, flush=True)
    if not sys.stdin.readline():
        time.sleep(600)  # nobody is there to say anything; the end comes from outside


def say_when_there(flag: Path) -> None:
    """A task that comes to its point can only leave a file."""
    while not flag.exists():
        time.sleep(0.02)
    print(flag.name, flush=True)


def numbers(session: SparkSession, folder: Path) -> DataFrame:
    """One batch for each file."""
    lines = session.readStream.schema("n string").option("maxFilesPerTrigger", 1).csv(str(folder / "in"))
    return lines.selectExpr("n as value", "case when n % 3 = 0 then null else n end as key")


def counts(session: SparkSession, folder: Path) -> DataFrame:
    """How many rows of each group there were so far: a query with a state."""
    groups = numbers(session, folder).selectExpr(f"cast(value % {GROUPS} as string) as key")
    return groups.groupBy("key").count().selectExpr("key", "cast(count as string) as value")


def put(folder: Path, batch: int) -> None:
    """A file of rows, numbered through."""
    (folder / "in").mkdir(exist_ok=True)
    hidden = folder / f"{batch}.tmp"
    hidden.write_text("".join(f"{batch * ROWS + row}\n" for row in range(ROWS)))
    os.utime(hidden, (batch, batch))  # Spark takes them by age
    hidden.rename(folder / "in" / f"{batch}.csv")


def run(frame: DataFrame, written: BatchFunction, folder: Path, *, mode: str = "append") -> None:
    """Everything that is there, and then the end."""
    started(frame, written, folder, mode=mode).awaitTermination()


def started(frame: DataFrame, written: BatchFunction, folder: Path, *, mode: str = "append") -> StreamingQuery:
    """The same, not waited for."""
    writer = frame.writeStream.foreachBatch(written).outputMode(mode)
    return writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start()


def session_with(cores: int, *, master: str = "local[{cores}]", **more: str) -> SparkSession:
    """A local Spark, or one of a cluster."""
    builder = SparkSession.builder.master(master.format(cores=cores)).config("spark.driver.memory", "1g")
    settings: dict[str, bool | float | int | str | None] = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": str(cores + 1),
        "spark.sql.files.maxPartitionBytes": str(500 * cores),
    }
    settings.update(more)
    return builder.config(map=settings).getOrCreate()


def main(text: str) -> None:
    """Write what is there, or stop at the point."""
    orders = Orders.of(text)
    folder, stop = Path(orders.folder), Stop(orders)

    def tell(batch: BatchWritten) -> None:
        print(f"batch {batch.batch} {batch.records} {batch.attempts}", flush=True)
        stop.at("before Spark's log")

    session = session_with(orders.cores, master=orders.master, **orders.settings)
    written = atomically(
        {"kafka.bootstrap.servers": orders.servers, "topic": orders.topic},
        transactional_id=orders.topic,
        on_batch=tell,
    )
    fields = {name: getattr(written._owner, name) for name in attrs.fields_dict(TransactionOwner)}
    written._owner = StoppingOwner(**fields, stop=stop)

    def with_faults(frame: DataFrame, batch: int) -> None:
        stop.batch = batch
        fault, flag = orders.faults.get(str(batch)), folder / f"fault in {batch}"
        if orders.point in OF_A_TASK and stop.due(orders.point):
            kind = "waits" if orders.point == "mid-task" else "stops"
            fault, flag = attrs.evolve(orders.faults.get("", TaskFault(kind="")), kind=kind), folder / orders.point
            threading.Thread(target=say_when_there, args=(flag,), daemon=True).start()
        made: Any = TaskWrite if fault is None else with_fault(fault, flag)
        setattr(sink, "TaskWrite", made)  # noqa: B010 - mypy knows its type
        print(f"begin {batch}", flush=True)
        written(frame, batch)

    say_and_wait("up")
    frame = numbers if orders.mode == "append" else counts
    run(frame(session, folder), with_faults, folder, mode=orders.mode)
    print("done", flush=True)


if __name__ == "__main__":
    os.environ["PYSPARK_PYTHON"] = sys.executable
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    main(*sys.argv[1:])
