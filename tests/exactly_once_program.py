"""A driver as a program of its own: a stream of files to Kafka, exactly once, that dies or fails where it is told to.

    python exactly_once_program.py FOLDER SERVERS TOPIC PREFIX CORES STARTS

FOLDER/in holds the files, each a micro-batch; FOLDER/faults what shall happen to which of them. A query that fails is
started again, STARTS times in all.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
import psutil
import pyarrow as pa
from pyspark import TaskContext
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from ottla_spark import OttlaDataSource
from ottla_spark.exactly_once.brokers import Brokers
from ottla_spark.exactly_once.stream import ExactlyOnceWriter, TaskPrepared

SCHEMA = "key string, value string"


@attrs.frozen(kw_only=True)
class Fault:
    """`deed` is kill (the whole driver), exit (this Python worker), fail or stall.

    `step` is a method of the cluster, or `write` for a task; `nth` counts from 1: the call while a batch is planned
    or committed, or the task; `after` that step or before it.
    """

    deed: str
    step: str
    batch: int = 0
    nth: int = 1
    after: bool = True

    def save(self, folder: Path) -> None:
        """Have it happen once."""
        (folder / "faults").mkdir(exist_ok=True)
        (folder / "faults" / f"{self.batch:05}.json").write_text(json.dumps(attrs.asdict(self)))


class Trouble(Exception):
    """A task failed because it was told to."""


class Faulty(OttlaDataSource):
    """The data source, with a fault somewhere."""

    def streamWriter(self, schema: StructType, overwrite: bool) -> Any:
        """The same writer with a fault."""
        writer = super().streamWriter(schema, overwrite)
        assert isinstance(writer, ExactlyOnceWriter)
        return FaultyWriter(writer._settings, writer._options, writer._columns)


class FaultyWriter(ExactlyOnceWriter):
    """Looks for the fault at every step of planning, writing and committing."""

    _batch: int | None = None

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskPrepared:
        """Half of the rows, then what was told."""
        context = TaskContext.get()
        assert context is not None
        batch = int(context.getLocalProperty("streaming.sql.batchId") or -1)
        fault = pending("write", batch)
        if fault is None or context.partitionId() != fault.nth - 1:
            return super().write(iterator)
        if fault.after:
            prepared = super().write(iterator)
            strike(fault)
            return prepared
        return super().write(halved(iterator, fault))

    def commit(self, messages: Any, batchId: int) -> None:
        """The batch is known from here on."""
        self._batch = batchId
        super().commit(messages, batchId)

    @contextmanager
    def cluster(self) -> Any:
        """Every method looks for the fault."""
        with super().cluster() as brokers:
            yield FaultyCluster(brokers, next_batch() if self._batch is None else self._batch)


class FaultyCluster:
    """Brokers whose every answer may be the last one."""

    def __init__(self, brokers: Brokers, batch: int) -> None:
        self._brokers = brokers
        self._batch = batch
        self._seen: dict[str, int] = {}

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._brokers, name)

        def watched(*arguments: Any, **named: Any) -> Any:
            self._seen[name] = self._seen.get(name, 0) + 1
            fault = pending(name, self._batch)
            if fault is None or self._seen[name] != fault.nth:
                return method(*arguments, **named)
            if not fault.after:
                strike(fault)
            answer = method(*arguments, **named)
            strike(fault)
            return answer

        return watched


def halved(iterator: Iterator[pa.RecordBatch], fault: Fault) -> Iterator[pa.RecordBatch]:
    """The first half of the first batch, and then the fault."""
    for batch in iterator:
        yield batch.slice(0, max(1, batch.num_rows // 2))
        strike(fault)


def pending(step: str, batch: int) -> Fault | None:
    """The fault, if this is its step and it has not happened yet."""
    with contextlib.suppress(FileNotFoundError):
        fault = Fault(**json.loads((home() / "faults" / f"{batch:05}.json").read_text()))
        return fault if fault.step == step else None
    return None


def next_batch() -> int:
    """The batch that is planned, as Spark's checkpoint has it: the one behind the last that it calls committed."""
    commits = home() / "checkpoint" / "commits"
    return 1 + max((int(each.name) for each in commits.glob("[0-9]*")), default=-1)


def strike(fault: Fault) -> None:
    """Do it, once."""
    at = home() / "faults" / f"{fault.batch:05}.json"
    try:
        at.rename(at.with_suffix(".done"))
    except FileNotFoundError:
        return
    match fault.deed:
        case "kill":
            driver = psutil.Process(int((home() / "driver").read_text()))
            for process in [driver, *driver.children(recursive=True)]:
                if process.pid != os.getpid():
                    process.kill()
            os.kill(os.getpid(), signal.SIGKILL)
        case "exit":
            os._exit(1)
        case "stall":
            (home() / "stalled").touch()
            while (home() / "stalled").exists():
                time.sleep(0.05)
        case _:
            raise Trouble(f"told to fail at {fault.step}")


def home() -> Path:
    """The folder of this run."""
    return Path(os.environ["EXACTLY_ONCE_FOLDER"])


def main(folder: str, servers: str, topic: str, prefix: str, cores: str, starts: str) -> None:
    """Write what is there, and end."""
    os.environ["EXACTLY_ONCE_FOLDER"] = folder
    os.environ["PYSPARK_PYTHON"] = sys.executable
    (home() / "driver").write_text(str(os.getpid()))
    spark = (
        SparkSession.builder.master(f"local[{cores}, 4]")
        .config("spark.driver.memory", "1g")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", cores)
        .config("spark.sql.warehouse.dir", str(home() / "warehouse"))
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    spark.dataSource.register(Faulty)
    frame = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(home() / "in"))
    for _ in range(int(starts)):
        query = (
            frame.repartition(int(cores))
            .writeStream.format("ottla")
            .option("kafka.bootstrap.servers", servers)
            .option("checkpointLocation", str(home() / "checkpoint"))
            .option("guarantee", "exactly-once")
            .option("transactional.id.prefix", prefix)
            .option("topic", topic)
            .trigger(availableNow=True)
            .start()
        )
        try:
            query.awaitTermination()
        except StreamingQueryException as error:
            failed = error
            print(str(error).splitlines()[0][:300], file=sys.stderr)
        else:
            break
    else:
        raise failed
    spark.stop()


if __name__ == "__main__":
    import exactly_once_program  # by its name, so that Spark's workers find the classes there

    exactly_once_program.main(*sys.argv[1:])
