"""Cost of exactly-once and all-or-nothing: jobs and micro-batches compared with at-least-once, and Spark's own sink.

`python benchmarks/spark_guarantees.py --help`; the table is Markdown, its rules are those of `spark.py`. Jobs write a
cached frame with keys. Each micro-batch of a stream has the same rows, after a join that takes its share of the time; a
run's figure is the median of its micro-batches.
"""

from __future__ import annotations

import sys
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from statistics import median
from typing import Any, Final

import attrs
import click
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from rounds import Broker
from spark import WITHIN, Bench
from spark_figures import Case, incomplete, markdown, ratios, same_rounds
from spark_frames import ACCEL, SINK, Direction, keyed
from spark_session import cached, environment, spark_session

from ottla_spark.atomic import atomically
from ottla_spark.exactly_once import write_once
from ottla_testkit.kafka_cluster import KafkaCluster

PREFIX: Final = "transactional.id.prefix"
ONCE: Final = Direction(
    name="exactly-once", format="ottla", options={**ACCEL.options, "guarantee": "exactly-once", PREFIX: "benchmark"}
)
WHOLE: Final = Direction(name="all or nothing", format="foreachBatch", options=ACCEL.options)
"""Not a format: `atomically` returns it for `foreachBatch`."""

GOALS: Final = ((ONCE, SINK, 1.3), (ONCE, ACCEL, 0.85), (WHOLE, SINK, 0.9))
SMALL_ROWS: Final = 10
SMALL_MORE: Final = 0.030  # seconds


@attrs.frozen(kw_only=True)
class Streams:
    """Streams of one frame, with one broker."""

    spark: SparkSession
    broker: Broker
    partitions: int
    tasks: int
    codec: str

    def job(self, frame: DataFrame, way: Direction, *, rows: int) -> float | None:
        """Return the seconds of one job, or None if records are missing."""
        topic = self.broker.create_topic(self.partitions)
        options = self._options(way, topic)
        started = time.perf_counter()
        if way is ONCE:
            write_once(frame, {key: value for key, value in options.items() if key != "guarantee"}, job_id="benchmark")
        else:
            frame.write.format(way.format).mode("append").options(**options).save()
        seconds = time.perf_counter() - started
        held = self.broker.held(topic, self.partitions)
        self.broker.delete_topic(topic)
        # Offsets count the markers that end the tasks' transactions, too.
        markers = self.tasks * self.partitions if way is ONCE else 0
        return seconds if rows <= held <= rows + markers else None

    def run(self, frame: DataFrame, way: Direction, *, rows: int, batches: int) -> float | None:
        """Return the median seconds of a micro-batch without the first two, or None if records are missing."""
        topic = self.broker.create_topic(self.partitions)
        with tempfile.TemporaryDirectory(prefix="ottla-bench-", ignore_cleanup_errors=True) as folder:
            query = self._start(frame, way, topic, folder)
            try:
                deadline = time.monotonic() + WITHIN
                while query.isActive and (query.lastProgress or {"batchId": 0})["batchId"] < batches + 1:
                    if time.monotonic() > deadline:
                        return None
                    time.sleep(0.02)
            finally:
                query.stop()
            if trouble := query.exception():
                raise trouble
            progress = query.recentProgress
            held = self.broker.held(topic, self.partitions)  # with the markers, and what the end of the query cut off
        self.broker.delete_topic(topic)
        if held < rows * len(progress):
            return None
        return median(float(each["durationMs"]["addBatch"]) for each in progress if each["batchId"] > 1) / 1000

    def _start(self, frame: DataFrame, way: Direction, topic: str, folder: str) -> Any:
        ticks = self.spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).option("numPartitions", 1)
        stream = frame.crossJoin(F.broadcast(ticks.load().selectExpr("value as tick"))).select("key", "value")
        writer = stream.writeStream.option("checkpointLocation", folder)
        if way is WHOLE:
            sink = atomically(self._options(way, topic), transactional_id=f"benchmark-{uuid.uuid4().hex}")
            return writer.foreachBatch(sink).start()
        return writer.format(way.format).options(**self._options(way, topic)).start()

    def _options(self, way: Direction, topic: str) -> Mapping[str, str]:
        own = {PREFIX: topic} if PREFIX in way.options else {}
        return {**way.options_for(self.broker.servers, topic, self.codec), **own}


@click.command(context_settings={"show_default": True})
@click.option("--records", default=1_000_000, help="Rows of a large micro-batch; 0: none.")
@click.option("--batches", default=5, help="Large micro-batches of one run that count; two go before. 0: jobs only.")
@click.option("--small-batches", default=30, help="Micro-batches with ten rows of one run; 0: none.")
@click.option("--partitions", default=4, help="Of a topic.")
@click.option("--tasks", default=4, help="Partitions of the frame.")
@click.option("--cores", default=2, help="Of the local Spark.")
@click.option("--driver-memory", default="2g", help="Of the JVM that does all of Spark's work.")
@click.option("--rounds", default=3, help="Rounds that count; one more goes before them.")
@click.option("--codec", default="lz4")
def main(
    records: int,
    batches: int,
    small_batches: int,
    partitions: int,
    tasks: int,
    cores: int,
    driver_memory: str,
    rounds: int,
    codec: str,
) -> None:
    """Write the same micro-batches with every guarantee, in rounds; exit code 1 where a goal is missed."""
    with ExitStack() as stack:
        cluster = stack.enter_context(KafkaCluster(sustained=True))
        spark = stack.enter_context(spark_session(cores, driver_memory))
        broker = Broker(cluster.bootstrap_servers, {})
        bench = Bench(spark, broker, broker_pids=[cluster.pid(1)], partitions=partitions, rounds=rounds)
        streams = Streams(spark=spark, broker=broker, partitions=partitions, tasks=tasks, codec=codec)
        cases: list[Case] = []
        goals: list[tuple[str, bool]] = []
        if records:
            frame = cached(keyed(spark, records, value_size=100, tasks=tasks))
            case = Case(name=f"{records:,} rows a job, {codec}", records=records)
            cases.append(bench.interleave((SINK, ACCEL, ONCE), lambda way: streams.job(frame, way, rows=records), case))
            goals += _ratios(case)
            if batches:
                case = Case(name=f"{records:,} rows a micro-batch, {codec}", records=records)
                cases.append(
                    bench.interleave(
                        (SINK, ACCEL, ONCE, WHOLE),
                        lambda way: streams.run(frame, way, rows=records, batches=batches),
                        case,
                    )
                )
                goals += _ratios(case)
            frame.unpersist()
        if small_batches:
            small = spark.range(0, SMALL_ROWS, 1, 1).selectExpr("cast(id as string) as key", "cast(id as string) value")
            case = Case(name=f"{SMALL_ROWS} rows a micro-batch", records=SMALL_ROWS)
            cases.append(
                bench.interleave(
                    (ACCEL, ONCE),
                    lambda way: streams.run(small, way, rows=SMALL_ROWS, batches=small_batches),
                    case,
                )
            )
            goals.append(_difference(case))
    click.echo(environment(cores))
    for line in [
        *markdown(cases, SINK.name),
        "",
        *(f"- {text}: {'reached' if good else 'MISSED'}" for text, good in goals),
    ]:
        click.echo(line)
    if incomplete(cases, rounds):
        sys.exit("some runs are invalid; they count for nothing")
    if not all(good for _text, good in goals):
        sys.exit(1)


def _ratios(case: Case) -> Sequence[tuple[str, bool]]:
    found = []
    for way, other, goal in GOALS:
        if way.name not in case.seconds:
            continue
        ratio = median(ratios(case.seconds, other.name, way.name))
        found.append((f"{case.name}: {way.name} is {ratio:.2f} x {other.name}, the goal is {goal}", ratio >= goal))
    return found


def _difference(case: Case) -> tuple[str, bool]:
    more = median(once - least for once, least in same_rounds(case.seconds, ONCE.name, ACCEL.name))
    text = f"{SMALL_ROWS} rows take {more * 1000:.0f} ms more with {ONCE.name}, the goal is {SMALL_MORE * 1000:.0f}"
    return text, more <= SMALL_MORE


if __name__ == "__main__":
    main()
