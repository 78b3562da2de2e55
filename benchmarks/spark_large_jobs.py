"""Memory and rate of ever larger jobs: is a job of a billion rows only longer?

`python benchmarks/spark_large_jobs.py --help`; the table is Markdown. Each job writes rows that Spark generates, at
least once or exactly once. The peaks are those of the Python workers while the job runs; the JVM's heap is what is used
after a collection at its end. The last line extrapolates.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final

import attrs
import click
import psutil
from pyspark.sql import SparkSession
from rounds import Broker
from spark_frames import ACCEL, keyed
from spark_session import environment, spark_session

from ottla.transactions import PreparedTransaction
from ottla_spark.exactly_once import write_once
from ottla_spark.exactly_once.ledger.entry import Entry, Status, TaskTransaction
from ottla_testkit.kafka_cluster import KafkaCluster

FIRST: Final = 1_000
BILLION: Final = 1_000_000_000
EVERY: Final = 0.1
"""Seconds between two samples of the memory."""
MIB: Final = 1 << 20
TASK_ID: Final = f"nightly/{uuid.UUID(int=0).hex}/100"


@attrs.frozen(kw_only=True)
class Job:
    """What one job took."""

    rows: int
    guarantee: str
    tasks: int
    seconds: float
    worker: float
    """Peak of the resident memory of a Python worker, in MiB."""
    unshared: float
    """Peak of its memory that it shares with no other process."""
    heap: float
    """Used heap of the JVM after the job, in MiB."""


@click.command(context_settings={"show_default": True})
@click.option("--rows", "sizes", default="2000000,5000000,10000000", help="Of the jobs, by commas.")
@click.option("--rows-of-task", default=1_000_000, help="Rows of one task: larger jobs have more tasks.")
@click.option("--partitions", default=4, help="Of the topic.")
@click.option("--cores", default=2, help="Of the local Spark.")
@click.option("--driver-memory", default="1g", help="Of the JVM, which is driver and executor.")
@click.option("--codec", default="lz4")
def main(sizes: str, rows_of_task: int, partitions: int, cores: int, driver_memory: str, codec: str) -> None:
    """Run the jobs, the smallest first, each in both guarantees."""
    jobs: list[Job] = []
    with KafkaCluster(sustained=True) as cluster, spark_session(cores, driver_memory) as spark:
        broker = Broker(cluster.bootstrap_servers, {})
        # The first job of each guarantee, in a fresh application, takes seconds that later ones do not. It is left out.
        for rows in (FIRST, *map(int, sizes.split(","))):
            for guarantee in ("at least once", "exactly once"):
                topic = broker.create_topic(partitions)
                jobs.append(_run(spark, broker, topic, rows, max(1, rows // rows_of_task), guarantee, codec))
                held = broker.held(topic, partitions)
                broker.delete_topic(topic)
                if held < rows:
                    raise click.ClickException(f"{rows} rows were written, the topic holds {held}")
                click.echo(str(jobs[-1]), err=True)
        measured = [job for job in jobs if job.rows != FIRST]
        text = [environment(cores), "", *_table(measured), "", *_extrapolated(measured, rows_of_task)]
    click.echo("\n".join(text))


def _run(spark: SparkSession, broker: Broker, topic: str, rows: int, tasks: int, guarantee: str, codec: str) -> Job:
    frame = keyed(spark, rows, value_size=100, tasks=tasks)
    options = {
        "kafka.bootstrap.servers": broker.servers,
        "topic": topic,
        "kafka.compression.type": codec,
        **ACCEL.options,
    }
    with _peaks() as peaks:
        started = time.perf_counter()
        if guarantee == "exactly once":
            write_once(frame, {**options, "transactional.id.prefix": topic}, job_id=uuid.uuid4().hex)
        else:
            frame.write.format("ottla").mode("append").options(**options).save()
        seconds = time.perf_counter() - started
    return Job(
        rows=rows,
        guarantee=guarantee,
        tasks=tasks,
        seconds=seconds,
        worker=peaks[0],
        unshared=peaks[1],
        heap=_used_heap(spark),
    )


@contextmanager
def _peaks() -> Iterator[list[float]]:
    """Peak memory of a Python worker while the block runs, resident and unshared, in MiB."""
    peaks, ended = [0.0, 0.0], threading.Event()

    def sample() -> None:
        while not ended.wait(EVERY):
            for process in psutil.Process().children(recursive=True):
                with suppress(psutil.Error):
                    if "python" in process.name():
                        found = process.memory_full_info()
                        peaks[:] = max(peaks[0], found.rss / MIB), max(peaks[1], found.uss / MIB)

    thread = threading.Thread(target=sample, daemon=True)
    thread.start()
    try:
        yield peaks
    finally:
        ended.set()
        thread.join()


def _used_heap(spark: SparkSession) -> float:
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    jvm.System.gc()
    runtime = jvm.java.lang.Runtime.getRuntime()
    return float(runtime.totalMemory() - runtime.freeMemory()) / MIB


def _table(jobs: Sequence[Job]) -> list[str]:
    lines = [
        "| rows | guarantee | tasks | seconds | rows/s | worker, MiB (unshared) | JVM's heap, MiB |",
        "|---|---|---|---|---|---|---|",
    ]
    for job in jobs:
        memory = f"{job.worker:.0f} ({job.unshared:.0f}) | {job.heap:.0f}"
        rate = job.rows / job.seconds
        lines.append(f"| {job.rows:,} | {job.guarantee} | {job.tasks} | {job.seconds:.1f} | {rate:,.0f} | {memory} |")
    return lines


def _extrapolated(jobs: Sequence[Job], rows_of_task: int) -> list[str]:
    """Extrapolate from the difference of the largest and the smallest job, which leaves out the fixed part."""
    lines = []
    for guarantee in dict.fromkeys(job.guarantee for job in jobs):
        small, *_, large = [job for job in jobs if job.guarantee == guarantee]
        per_row = (large.seconds - small.seconds) / (large.rows - small.rows)
        lines.append(f"{guarantee}: a billion rows take {BILLION * per_row / 60:.0f} minutes on these cores")
    tasks = BILLION // rows_of_task
    lines.append(f"an entry of {tasks:,} tasks in the ledger has {len(_entry(tasks).to_bytes()) / 1000:,.0f} kB")
    return lines


def _entry(tasks: int) -> Entry:
    prepared = PreparedTransaction(transactional_id=TASK_ID, producer_id=10_000, epoch=100, level=2, written=True)
    listed = [TaskTransaction(prepared=prepared, partition=task, records=1_000_000) for task in range(tasks)]
    return Entry(query=uuid.UUID(int=0).hex, batch=0, status=Status.RECORDED, listed=listed)


if __name__ == "__main__":
    main()
