"""A driver that writes numbered rows in all-or-nothing batches, and stops where a test wants to kill it.

Also the faults that its tasks have, for tests that run the driver themselves.
"""

from __future__ import annotations

import os
import signal
import sys
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession

from ottla.transactions import Ended, SharedTransaction
from ottla_spark.atomic import AtomicSink, atomically, sink
from ottla_spark.atomic.marker import Marker
from ottla_spark.atomic.owning import TransactionOwner
from ottla_spark.atomic.task import TaskWrite
from ottla_spark.outbox import Outbox

ROWS = 200
PARTITIONS = 4
POINTS = ("mid-task", "before the marker", "before the commit", "after the commit")

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]  # executors need not find this file


@attrs.frozen(kw_only=True)
class FaultyTask(TaskWrite):
    """Once, the task of one owner comes to grief when all its rows are in Kafka: as *fault* says."""

    fault: str
    flag: Path
    faulty_owner: int = 0

    def _prove(self, outbox: Outbox, ends: Mapping[tuple[str, int], int], *, task: str) -> None:
        TaskWrite._prove(self, outbox, ends, task=task)
        if not task.startswith(f"owner {self.faulty_owner} "):
            return
        try:
            self.flag.touch(exist_ok=False)
        except FileExistsError:
            return
        match self.fault:
            case "raises":
                raise RuntimeError("the task fails when everything is written")
            case "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            case "waits":
                time.sleep(600)


def with_fault(fault: str, flag: Path) -> Any:
    """What makes tasks in place of TaskWrite."""

    def make(**fields: Any) -> FaultyTask:
        return FaultyTask(**fields, fault=fault, flag=flag)

    return make


@attrs.frozen(kw_only=True)
class StoppingOwner(TransactionOwner):
    """Says that the point is reached, and waits there to be killed; not for the first batch."""

    point: str

    def mark(self, shared: SharedTransaction, marker: Marker) -> None:
        self._stop("before the marker", marker.batch)
        TransactionOwner.mark(self, shared, marker)
        self._stop("before the commit", marker.batch)

    def end(self, shared: SharedTransaction, *, commit: bool) -> Ended:
        ended = TransactionOwner.end(self, shared, commit=commit)
        if commit:
            self._stop("after the commit", 1)
        return ended

    def _stop(self, point: str, batch: int) -> None:
        if point == self.point and batch:
            print(point, flush=True)
            time.sleep(600)


def numbers(session: SparkSession, folder: Path) -> DataFrame:
    """One batch for each file."""
    lines = session.readStream.schema("n string").option("maxFilesPerTrigger", 1).csv(str(folder / "in"))
    return lines.selectExpr("n as value", "case when n % 3 = 0 then null else n end as key")


def put(folder: Path, batch: int) -> None:
    """A file of rows, numbered through."""
    (folder / "in").mkdir(exist_ok=True)
    hidden = folder / f"{batch}.tmp"
    hidden.write_text("".join(f"{batch * ROWS + row}\n" for row in range(ROWS)))
    hidden.rename(folder / "in" / f"{batch}.csv")


def run(frame: DataFrame, written: AtomicSink, folder: Path, *, mode: str = "append") -> None:
    """Everything that is there, and then the end."""
    writer = frame.writeStream.foreachBatch(written).outputMode(mode)
    query = writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start()
    query.awaitTermination()


def session_with(cores: int) -> SparkSession:
    """A local Spark."""
    builder = SparkSession.builder.master(f"local[{cores}]").config("spark.driver.memory", "1g")
    settings: dict[str, bool | float | int | str | None] = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": str(cores + 1),
        "spark.sql.files.maxPartitionBytes": str(500 * cores),
    }
    return builder.config(map=settings).getOrCreate()


def main(servers: str, topic: str, place: str, cores: str, point: str) -> None:
    """Write what is there, or stop at the point."""
    folder = Path(place)
    session = session_with(int(cores))
    written = atomically(
        {"kafka.bootstrap.servers": servers, "topic": topic},
        transactional_id=topic,
        on_batch=lambda batch: print(f"batch {batch.batch} {batch.records}", flush=True),
    )
    written._owner = StoppingOwner(**attrs.asdict(written._owner), point=point)
    if point == "mid-task":
        setattr(sink, "TaskWrite", with_fault("waits", folder / "mid-task"))  # noqa: B010 - mypy knows its type
    run(numbers(session, folder), written, folder)
    print("done", flush=True)


if __name__ == "__main__":
    os.environ["PYSPARK_PYTHON"] = sys.executable
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    main(*sys.argv[1:])
