"""A driver as its own program: a stream of files to Kafka, exactly once, that dies or fails where the test wants it.

    python exactly_once_program.py FOLDER WISHES

FOLDER/in holds the files, each a micro-batch; FOLDER/faults what shall happen to which of them. WISHES says in JSON
the driver's other settings, see `DriverSettings`.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import attrs
import psutil
import pyarrow as pa
from pyspark import TaskContext
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from ottla_spark import OttlaDataSource, foreach_batch
from ottla_spark.exactly_once import micro_batch
from ottla_spark.exactly_once.kafka.cluster_client import KafkaClusterClient
from ottla_spark.exactly_once.ledger import writer as ledger_writer
from ottla_spark.exactly_once.stream import ExactlyOnceWriter
from ottla_spark.exactly_once.writer import BatchWriter, TaskPrepared

SCHEMA = "key string, value string"


SLOW = 60.0  # seconds in which another attempt has to overtake a slow or late task


@attrs.frozen(kw_only=True)
class DriverSettings:
    """The settings of a driver: topic, prefix, Spark, and how often to start again.

    `parts` is the number of tasks; `stateful` drops duplicates by the state of the query, `conf` is for Spark,
    `options` are for the sink. `calls`: by `foreach_batch`, not by the data source.
    """

    servers: str
    topic: str
    prefix: str
    master: str = "local[2, 4]"
    parts: int = 2
    starts: int = 1
    stateful: bool = False
    calls: bool = False
    conf: dict[str, str] = attrs.field(factory=dict)
    options: dict[str, str] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class Fault:
    """`action` is kill (the whole driver), exit (this Python worker), executor (the JVM above it), both, fail, stall,
    slow: a task that goes on when its batch is over, or late: when the driver stands still at the next one.

    `step` is a method of the cluster, `write` for a task, or `mid-append` between an entry's bytes and their commit;
    `nth` counts from 1: the call while a batch is planned or committed, or the task; `after` that step or before it.
    """

    action: str
    step: str
    batch: int = 0
    nth: int = 1
    after: bool = True

    def save(self, folder: Path) -> None:
        """Have it happen once."""
        (folder / "faults").mkdir(exist_ok=True)
        (folder / "faults" / f"{self.batch:05}.json").write_text(json.dumps(attrs.asdict(self)))


class FaultError(Exception):
    """A task failed because the test wanted it."""


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
        """Half of the rows, then the fault."""
        return written(iterator, super().write)

    def commit(self, messages: Any, batchId: int) -> None:
        """The batch is known from here on."""
        self._batch = batchId
        super().commit(messages, batchId)

    def cluster(self) -> Any:
        """Every method looks for the fault."""
        return faulty(super().cluster(), self._batch)


class FaultyBatchWriter(BatchWriter):
    """The same for a micro-batch of `foreach_batch`."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskPrepared:
        """Half of the rows, then the fault."""
        return written(iterator, super().write)

    def cluster(self) -> Any:
        """Every method looks for the fault."""
        return faulty(super().cluster(), self._of.batch)


def written(
    iterator: Iterator[pa.RecordBatch], write: Callable[[Iterator[pa.RecordBatch]], TaskPrepared]
) -> TaskPrepared:
    """Write a task's rows, with the fault in the middle or behind them."""
    context = TaskContext.get()
    assert context is not None
    batch = int(context.getLocalProperty("streaming.sql.batchId") or -1)
    note_attempt(context, batch)
    fault = pending("write", batch)
    if fault is None or context.partitionId() != fault.nth - 1:
        return write(iterator)
    if fault.after:
        prepared = write(iterator)
        strike(fault)
        return prepared
    prepared = write(halved(iterator, fault))
    if stalled_at(batch + 1).exists():
        (home() / f"late-{batch}").touch()
    return prepared


@contextmanager
def faulty(connected: AbstractContextManager[KafkaClusterClient], batch: int | None) -> Iterator[FaultyCluster]:
    """Brokers that look for the fault at every step; *batch* None: of the batch that is planned."""
    with connected as brokers:
        batch = next_batch() if batch is None else batch
        with between_bytes_and_commit(batch):
            yield FaultyCluster(brokers, batch)


class FaultyCluster:
    """Brokers whose every answer may be the last one."""

    def __init__(self, brokers: KafkaClusterClient, batch: int) -> None:
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


def note_attempt(context: TaskContext, batch: int) -> None:
    """A task that is begun as often as never before, for the second time, belongs to a stage that is tried again."""
    attempt = f"{context.stageId()}-{context.partitionId()}-{context.attemptNumber()}"
    begun = home() / "attempts"
    begun.mkdir(exist_ok=True)
    try:
        (begun / f"{(home() / 'driver').read_text()}-{attempt}").touch(exist_ok=False)
    except FileExistsError:
        (home() / f"stage-retried-{batch}").touch()


@contextmanager
def between_bytes_and_commit(batch: int) -> Iterator[None]:
    """Look for the fault in the middle of writing an entry."""
    module = vars(ledger_writer)
    end_txn = module["EndTxn"]

    def looking(*arguments: Any, **named: Any) -> Any:
        fault = pending("mid-append", batch)
        if fault is not None:
            strike(fault)
        return end_txn(*arguments, **named)

    module["EndTxn"] = looking
    try:
        yield
    finally:
        module["EndTxn"] = end_txn


def halved(iterator: Iterator[pa.RecordBatch], fault: Fault) -> Iterator[pa.RecordBatch]:
    """The first half of the first batch, then the fault, and what is left where the task goes on.

    Of two attempts that both found the fault pending it befalls one, and the other has to give all of its rows: Spark
    may take it for the one that came through.
    """
    for batch in iterator:
        half = max(1, batch.num_rows // 2)
        yield batch.slice(0, half)
        strike(fault)
        yield batch.slice(half)


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
    match fault.action:
        case "kill":
            end(driver())
        case "exit":
            os.kill(os.getpid(), signal.SIGKILL)
        case "executor":
            executor().kill()
            end()
        case "both":
            executor().kill()
            end(driver())
        case "stall":
            stalled = stalled_at(fault.batch)
            stalled.touch()
            while stalled.exists():
                time.sleep(0.05)
        case "slow":
            await_overtaken(home() / "checkpoint" / "commits" / str(fault.batch))
        case "late":
            await_overtaken(stalled_at(fault.batch + 1))
        case _:
            raise FaultError(f"asked to fail at {fault.step}")


def await_overtaken(sign: Path) -> None:
    """Stay where this task is until the file is there."""
    deadline = time.monotonic() + SLOW
    while not sign.exists():
        if time.monotonic() > deadline:
            raise FaultError("no other attempt has overtaken this task")
        time.sleep(0.05)


def stalled_at(batch: int) -> Path:
    """Is there while a driver stands still at this batch."""
    return home() / f"stalled-{batch}"


def driver() -> psutil.Process:
    """The driver's Python, above its JVM."""
    return psutil.Process(int((home() / "driver").read_text()))


def executor() -> psutil.Process:
    """The JVM that runs this task."""
    return next(
        each for each in psutil.Process().parents() if "CoarseGrainedExecutorBackend" in " ".join(each.cmdline())
    )


def end(*processes: psutil.Process) -> None:
    """Kill them, all below them, and this one."""
    for process in processes:
        for each in [process, *process.children(recursive=True)]:
            if each.pid != os.getpid():
                with contextlib.suppress(psutil.NoSuchProcess):  # it may end by itself
                    each.kill()
    os.kill(os.getpid(), signal.SIGKILL)


def home() -> Path:
    """The folder of this run."""
    return Path(os.environ["EXACTLY_ONCE_FOLDER"])


def main(folder: str, driver_settings: str) -> None:
    """Write what is there, and end."""
    os.environ["EXACTLY_ONCE_FOLDER"] = folder
    os.environ["PYSPARK_PYTHON"] = sys.executable
    (home() / "driver").write_text(str(os.getpid()))
    given_settings = DriverSettings(**json.loads(driver_settings))
    spark = session(given_settings)
    if given_settings.calls:
        vars(micro_batch)["BatchWriter"] = FaultyBatchWriter
    else:
        spark.dataSource.register(Faulty)
    failed: StreamingQueryException | None = None
    for _ in range(given_settings.starts):
        options = {
            "kafka.bootstrap.servers": given_settings.servers,
            "guarantee": "exactly-once",
            "transactional.id.prefix": given_settings.prefix,
            "topic": given_settings.topic,
            **given_settings.options,
        }
        writer = rows(spark, given_settings).writeStream.option("checkpointLocation", str(home() / "checkpoint"))
        writer = (
            writer.foreachBatch(foreach_batch(options))
            if given_settings.calls
            else writer.format("ottla").options(**options)
        )
        query = writer.trigger(availableNow=True).start()
        try:
            query.awaitTermination()
        except StreamingQueryException as error:
            failed = error
            print(str(error).splitlines()[0][:300], file=sys.stderr, flush=True)
        else:
            spark.stop()
            return
    assert failed is not None
    raise failed


def session(given_settings: DriverSettings) -> SparkSession:
    """Spark with these settings."""
    settings = {
        "spark.driver.memory": "1g",
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(home() / "warehouse"),
        "spark.log.level": "ERROR",
        "spark.executorEnv.EXACTLY_ONCE_FOLDER": str(home()),
        **given_settings.conf,
    }
    builder = SparkSession.builder.master(given_settings.master)
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def rows(spark: SparkSession, given_settings: DriverSettings) -> DataFrame:
    """A file for each micro-batch."""
    frame = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(home() / "in"))
    return (
        frame.dropDuplicates(["key", "value"]) if given_settings.stateful else frame.repartition(given_settings.parts)
    )


if __name__ == "__main__":
    import exactly_once_program  # by its name, so that Spark's workers find the classes there

    exactly_once_program.main(*sys.argv[1:])
