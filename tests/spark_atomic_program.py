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
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import attrs
import psutil
import pyarrow as pa
from pyspark import cloudpickle
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from ottla.transactions import Ended, SharedTransaction
from ottla_spark.atomic import atomically, sink
from ottla_spark.atomic.driver import BatchWritten
from ottla_spark.atomic.marker import Marker
from ottla_spark.atomic.task import TaskWrite
from ottla_spark.atomic.transaction_owner import TransactionOwner
from ottla_spark.sink.in_flight import InFlightTables

ROWS = 200
PARTITIONS = 4
GROUPS = 10
SEALED_BATCH_BYTES = 400
"""Batches of about ten rows, so that a task can fail between two of them."""

OF_THE_DRIVER = ("before the marker", "before the commit", "after the commit", "before Spark's log")
OF_A_TASK = ("mid-task", "late task")
POINTS = (*OF_A_TASK, *OF_THE_DRIVER)

READING = threading.Lock()

BatchFunction = Callable[[DataFrame, int], None]

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]  # executors need not find this file


@attrs.frozen(kw_only=True)
class TaskFault:
    """The fault, once, of an owner's task when it has sent so many rows, or all.

    `raises`, `killed`, `waits` (until its process is killed), `stops` (until its process is continued, whatever
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

    def write(self, sealed_rows: Iterator[pa.RecordBatch], *, owner: int, attempt: int) -> int:
        if self._is_faulty(owner):
            sealed_rows = self._one_by_one(sealed_rows)
        return TaskWrite.write(self, sealed_rows, owner=owner, attempt=attempt)

    def _check_first_offsets(
        self, in_flight: InFlightTables, ends: Mapping[tuple[str, int], int], *, task: str
    ) -> None:
        TaskWrite._check_first_offsets(self, in_flight, ends, task=task)
        if self._is_faulty(int(task.split()[1])):
            self._kill()

    def _is_faulty(self, owner: int) -> bool:
        return owner == self.fault.owner % self.assignment.owners and not self.flag.exists()

    def _one_by_one(self, sealed_rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        given = 0
        for some in sealed_rows:
            for number, records in enumerate(some.column("records").to_pylist()):
                if given >= self.fault.rows:
                    self._kill()
                given += records
                yield some.slice(number, 1)

    def _kill(self) -> None:
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
                os.setsid()  # else the system continues it as soon as its parent has ended
                signal.signal(signal.SIGHUP, signal.SIG_IGN)
                os.kill(os.getpid(), signal.SIGSTOP)


class Faults:
    """The faults of tasks that are due, by the transactional id of their query. Makes tasks in place of TaskWrite."""

    def __init__(self) -> None:
        self._due: dict[str, tuple[TaskFault, Path]] = {}

    def plan(self, transactional_id: str, fault: TaskFault | None, flag: Path) -> None:
        """The fault in the query's next tasks; None: no fault."""
        self._due.pop(transactional_id, None)
        if fault is not None:
            self._due[transactional_id] = fault, flag

    def __call__(self, **fields: Any) -> TaskWrite:
        found = self._due.get(fields["shared"].transactional_id)
        if found is None:
            return TaskWrite(**fields)
        fault, flag = found
        return FaultyTask(**fields, fault=fault, flag=flag)


@attrs.frozen(kw_only=True)
class TaskPlan:
    """One query of a driver. `point` is where it stops, from batch `since` on, when it came there `passes` times.

    The driver prints `up` and waits for a line; so does the query at its point, and goes on if one comes. What it
    prints begins with `name`. `faults` are of tasks, by the number of the batch; that of "" comes to a task's point.
    """

    servers: str
    topic: str
    folder: str
    name: str = ""
    cores: int = 2
    master: str = "local[{cores},4]"
    mode: str = "append"
    point: str = ""
    passes: int = 0
    since: int = 0
    faults: Mapping[str, TaskFault] = attrs.field(factory=dict)
    settings: Mapping[str, str] = attrs.field(factory=dict)

    @classmethod
    def of(cls, fields: dict[str, Any]) -> TaskPlan:
        """The objects, from the dictionaries of `attrs.asdict`."""
        fields["faults"] = {batch: TaskFault(**fault) for batch, fault in fields["faults"].items()}
        return cls(**fields)


class Stop:
    """A file by which a driver reports that it has reached a point, and waits."""

    def __init__(self, orders: TaskPlan) -> None:
        self._point = orders.point
        self._passes = orders.passes
        self._since = orders.since
        self._name = orders.name
        self._is_time = False
        self.batch = -1

    def due(self, point: str) -> bool:
        """Whether this is the time."""
        if point != self._point or self.batch < self._since:
            return False
        self._passes -= 1
        return self._passes == -1

    def comes_to_a_task(self) -> bool:
        """Whether a task is to fail from now on: a batch may have no task if it is in Kafka already."""
        self._is_time = self._is_time or (self._point in OF_A_TASK and self.due(self._point))
        return self._is_time

    def at(self, point: str) -> None:
        if self.due(point):
            say_and_wait(self._name + point)


@attrs.frozen(kw_only=True)
class StoppingOwner(TransactionOwner):
    """Stops before and after what it does."""

    stop: Stop

    def mark(self, shared: SharedTransaction, marker: Marker, *, read: bool = False) -> Marker | None:
        self.stop.at("before the marker")
        committed = TransactionOwner.mark(self, shared, marker, read=read)
        self.stop.at("before the commit")
        return committed

    def end(self, shared: SharedTransaction, *, commit: bool) -> Ended:
        ended = TransactionOwner.end(self, shared, commit=commit)
        if commit:
            self.stop.at("after the commit")
        return ended


def say(line: str) -> None:
    """Print it in one piece: queries speak at the same time."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def say_and_wait(word: str) -> None:
    """Until the test says `go`, which is for one of those that wait."""
    say(word)
    with READING:
        heard = os.read(sys.stdin.fileno(), len("go\n"))
    if not heard:
        time.sleep(600)  # there is no reader; the end comes from outside


def say_when_there(word: str, flag: Path) -> None:
    """A task that comes to its point can only leave a file."""
    while not flag.exists():
        time.sleep(0.02)
    say(word)


def flag_of(orders: TaskPlan, driver: int) -> Path:
    """The file of a task that reaches its point, for this driver."""
    return Path(orders.folder) / f"{orders.point} of {driver}"


def numbers(session: SparkSession, folder: Path) -> DataFrame:
    """One batch for each file."""
    lines = session.readStream.schema("n string").option("maxFilesPerTrigger", 1).csv(str(folder / "in"))
    return lines.selectExpr("n as value", "case when n % 3 = 0 then null else n end as key")


def counts(session: SparkSession, folder: Path) -> DataFrame:
    """The number of rows of each group so far: a query with a state."""
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
        **of_tasks(cores),
    }
    settings.update(more)
    return builder.config(map=settings).getOrCreate()


def of_tasks(cores: int) -> dict[str, str]:
    """The settings that make several tasks of a small file, and of what is shuffled."""
    return {
        "spark.sql.shuffle.partitions": str(cores + 1),
        "spark.sql.files.maxPartitionBytes": str(500 * cores),
    }


def begun(session: SparkSession, orders: TaskPlan, faults: Faults) -> StreamingQuery:
    """A query, which writes what is there, or stops at its point."""
    folder, stop = Path(orders.folder), Stop(orders)

    def tell(batch: BatchWritten) -> None:
        say(f"{orders.name}batch {batch.batch} {batch.records} {batch.attempts}")
        stop.at("before Spark's log")

    written = atomically(
        {"kafka.bootstrap.servers": orders.servers, "topic": orders.topic},
        transactional_id=orders.topic,
        on_batch=tell,
    )
    fields = {name: getattr(written._owner, name) for name in attrs.fields_dict(TransactionOwner)}
    written._owner = StoppingOwner(**fields, stop=stop)

    killed = flag_of(orders, os.getpid())
    if orders.point in OF_A_TASK:
        threading.Thread(target=say_when_there, args=(orders.name + orders.point, killed), daemon=True).start()

    def with_faults(frame: DataFrame, batch: int) -> None:
        stop.batch = batch
        fault, flag = orders.faults.get(str(batch)), folder / f"fault in {batch}"
        if not killed.exists() and stop.comes_to_a_task():
            kind = "waits" if orders.point == "mid-task" else "stops"
            fault = attrs.evolve(orders.faults.get("", TaskFault(kind="")), kind=kind)
            flag = killed
        faults.plan(orders.topic, fault, flag)
        say(f"{orders.name}begin {batch}")
        written(frame, batch)

    frame = numbers if orders.mode == "append" else counts
    return started(frame(session, folder), with_faults, folder, mode=orders.mode)


def main(text: str) -> None:
    """All queries at the same time, to their end; the session is as the first one's orders are."""
    all_orders = [TaskPlan.of(fields) for fields in json.loads(text)]
    first = all_orders[0]
    session = session_with(first.cores, master=first.master, **first.settings)
    faults = Faults()
    setattr(sink, "TaskWrite", faults)  # noqa: B010 - mypy knows its type
    setattr(sink, "SEALED_BATCH_BYTES", SEALED_BATCH_BYTES)  # noqa: B010 - it is final
    say_and_wait("up")
    queries = [begun(session, orders, faults) for orders in all_orders]
    with ThreadPoolExecutor(len(queries)) as pool:
        names = [orders.name for orders in all_orders]
        good = all(pool.map(comes_through, queries, names))
    say("done" if good else "failed")


def comes_through(query: StreamingQuery, name: str) -> bool:
    """Wait for a query's end, and say that it is there."""
    try:
        query.awaitTermination()
    except StreamingQueryException as error:
        print(error, file=sys.stderr)
        return False
    finally:
        say(f"{name}over")
    return True


if __name__ == "__main__":
    os.environ["PYSPARK_PYTHON"] = sys.executable
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    main(*sys.argv[1:])
