"""`format("ottla")` compared with Spark's own Kafka sink, and with a writer that only reads its rows.

`python benchmarks/spark.py --help`; the table is Markdown. It uses a local Spark, a broker of its own, and rounds that
interleave the ways in rotating order. Cached rows, acks=all, idempotent; a run counts only if the topic's end offsets
add up.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Final, TypeVar

import attrs
import click
from pyspark.sql import DataFrame, SparkSession
from rounds import Broker
from spark_aims import Aim, table
from spark_figures import Case, incomplete, markdown
from spark_frames import ACCEL, FLOOR, LATE_FLOOR, PYTHON, SINK, WAYS, Direction, keyed, wide
from spark_session import broker_seconds, cached, cpu_seconds, environment, spark_session, spent

from ottla_testkit.kafka_cluster import KafkaCluster

CODECS: Final = ("none", "lz4", "zstd")
WITHIN: Final = 600.0  # seconds for one query

AIMS: Final = {"none": 2.0, "lz4": 2.0, "zstd": 2.5}
"""Target speed relative to Spark's sink."""

PYTHON_AIM: Final = 1.2
JSON_AIM: Final = 1.5
FLOOR_AIM: Final = 0.5
SMALL_AIM: Final = 0.04  # seconds more

C = TypeVar("C", bound=Case)


@attrs.frozen(kw_only=True)
class CaseWithAims(Case):
    """A case, and what its figures should be."""

    aims: Sequence[Aim] = ()


class Bench:
    """One session and one broker for all runs."""

    def __init__(
        self,
        spark: SparkSession,
        broker: Broker,
        *,
        broker_pids: Sequence[int],
        partitions: int,
        rounds: int,
        warm_up: int = 1,
    ) -> None:
        self.spark = spark
        self._broker = broker
        self._broker_pids = broker_pids
        self._partitions = partitions
        self._rounds = rounds
        self._warm_up = warm_up

    def interleave(self, ways: Sequence[Direction], run: Callable[[Direction], float | None], case: C) -> C:
        """Run all ways in rounds; the first rounds are a warm-up."""
        for number in range(1 - self._warm_up, self._rounds + 1):
            first = number % len(ways)
            for way in (*ways[first:], *ways[:first]):
                before, broker_before = cpu_seconds(self._broker_pids), broker_seconds(self._broker_pids)
                seconds = run(way)
                cpu = spent(before, cpu_seconds(self._broker_pids))
                broker_cpu = broker_seconds(self._broker_pids) - broker_before
                shown = "invalid" if seconds is None else f"{seconds:.3f} s, {cpu:.2f} s of CPU"
                click.echo(f"{case.name}, round {number}, {way.name}: {shown}", err=True)
                if number > 0 and seconds is not None:
                    case.seconds[way.name][number] = seconds
                    case.cpu[way.name][number] = cpu
                    case.broker_cpu[way.name][number] = broker_cpu
        return case

    def batch(self, frame: DataFrame, way: Direction, *, records: int, codec: str) -> float | None:
        """Return the seconds of one write into a new topic, or None if records are missing."""
        topic = self._broker.create_topic(self._partitions) if way.to_kafka else ""
        writer = frame.write.format(way.format).mode("append").options(**self._options(way, topic, codec))
        started = time.perf_counter()
        writer.save()
        seconds = time.perf_counter() - started
        if not way.to_kafka:
            return seconds
        held = self._broker.held(topic, self._partitions)
        self._broker.delete_topic(topic)
        return seconds if held == records else None

    def micro_batches(self, way: Direction, *, rows: int, batches: int) -> float | None:
        """Return the median seconds of a micro-batch, or None if records are missing."""
        topic = self._broker.create_topic(self._partitions) if way.to_kafka else ""
        with tempfile.TemporaryDirectory(prefix="ottla-bench-", ignore_cleanup_errors=True) as folder:
            source = self.spark.readStream.format("rate-micro-batch").option("rowsPerBatch", rows)
            stream = source.option("numPartitions", 1).load().selectExpr("cast(value as string) as value")
            query = (
                stream.writeStream.format(way.format)
                .options(**self._options(way, topic, "none"))
                .option("checkpointLocation", folder)
                .start()
            )
            try:
                deadline = time.monotonic() + WITHIN
                while query.isActive and (query.lastProgress or {"batchId": 0})["batchId"] < batches:
                    if time.monotonic() > deadline:
                        return None
                    time.sleep(0.1)
                progress = list(query.recentProgress)
            finally:
                query.stop()
            if trouble := query.exception():
                raise trouble
        if way.to_kafka:
            held = self._broker.held(topic, self._partitions)
            self._broker.delete_topic(topic)
            if held < rows * len(progress):
                return None
        # The first micro-batches start workers, compile, and connect.
        return median(float(each["durationMs"]["addBatch"]) for each in progress[len(progress) // 3 :]) / 1000

    def _options(self, way: Direction, topic: str, codec: str) -> Mapping[str, str]:
        if not way.to_kafka:
            return way.options
        return way.options_for(self._broker.servers, topic, codec)


@click.command(context_settings={"show_default": True})
@click.option("--bootstrap-servers", help="A cluster that runs already; default: one is started for the benchmark.")
@click.option("--records", default=2_000_000, help="Rows of a batch write.")
@click.option("--value-size", default=100, help="Bytes of a value; keys have 16.")
@click.option("--partitions", default=4, help="Of a topic.")
@click.option("--tasks", default=4, help="Partitions of the frame.")
@click.option("--cores", default=2, help="Of the local Spark.")
@click.option("--driver-memory", default="2g", help="Of the JVM that does all of Spark's work.")
@click.option("--rounds", default=5, help="Rounds that count.")
@click.option("--warm-up", default=2, help="Rounds before them: the JVM compiles what runs often.")
@click.option("--codecs", default=",".join(CODECS), help="By commas; empty: no batch writes.")
@click.option("--ways", "names", default=",".join(WAYS), help="Who writes batches, by commas.")
@click.option("--micro-batches", default=30, help="In one run of micro-batches with ten rows; 0: none.")
@click.option("--wide-records", default=200_000, help="Rows of 50 columns that become JSON; 0: none.")
@click.option("--json", "file", type=click.Path(dir_okay=False, path_type=Path), help="Write every figure there.")
@click.option("--markdown", "page", type=click.Path(dir_okay=False, path_type=Path), help="Write the tables there.")
def main(
    bootstrap_servers: str | None,
    records: int,
    value_size: int,
    partitions: int,
    tasks: int,
    cores: int,
    driver_memory: str,
    rounds: int,
    warm_up: int,
    codecs: str,
    names: str,
    micro_batches: int,
    wide_records: int,
    file: Path | None,
    page: Path | None,
) -> None:
    """Write the same rows with every way, in rounds."""
    ways = [WAYS[name.strip()] for name in names.split(",")]
    with ExitStack() as stack:
        cluster = None if bootstrap_servers else stack.enter_context(KafkaCluster(sustained=True))
        servers = cluster.bootstrap_servers if cluster else bootstrap_servers or ""
        pids = [cluster.pid(1)] if cluster else []
        spark = stack.enter_context(spark_session(cores, driver_memory))
        bench = Bench(
            spark, Broker(servers, {}), broker_pids=pids, partitions=partitions, rounds=rounds, warm_up=warm_up
        )
        cases = []
        if codecs:
            frame = cached(keyed(spark, records, value_size=value_size, tasks=tasks))
            cases += [_plain(bench, ways, frame, records, codec) for codec in codecs.split(",")]
            frame.unpersist()
        if wide_records:
            cases.append(_wide(bench, ways, wide_records, tasks))
        if micro_batches:
            cases.append(_small(bench, [*ways, LATE_FLOOR] if FLOOR in ways else ways, micro_batches))
    aims = table([(each.aims, each.seconds) for each in cases])
    text = "\n".join([environment(cores), "", *markdown(cases, SINK.name), "", *aims])
    click.echo(text)
    if page is not None:
        page.write_text(text + "\n")
    if file is not None:
        file.write_text(json.dumps({"environment": environment(cores), "cases": list(map(attrs.asdict, cases))}))
    if incomplete(cases, rounds):
        sys.exit("some runs are invalid; they count for nothing")


def _plain(bench: Bench, ways: Sequence[Direction], frame: DataFrame, records: int, codec: str) -> CaseWithAims:
    def run(way: Direction) -> float | None:
        return bench.batch(frame, way, records=records, codec=codec)

    name = f"{records:,} rows, {codec}"
    aims = [
        Aim(name=name, way=ACCEL.name, baseline=SINK.name, times=AIMS.get(codec, PYTHON_AIM)),
        Aim(name=name, way=PYTHON.name, baseline=SINK.name, times=PYTHON_AIM),
    ]
    if codec == "none":
        aims.append(Aim(name=f"{name}: share of the floor", way=ACCEL.name, baseline=FLOOR.name, times=FLOOR_AIM))
    return bench.interleave(ways, run, CaseWithAims(name=name, records=records, aims=aims))


def _wide(bench: Bench, ways: Sequence[Direction], records: int, tasks: int) -> CaseWithAims:
    frame = cached(wide(bench.spark, records, tasks=tasks))
    as_json = frame.selectExpr("to_json(struct(*)) as value")

    def run(way: Direction) -> float | None:
        if way is SINK:
            return bench.batch(as_json, way, records=records, codec="lz4")
        chosen = attrs.evolve(way, options={**way.options, "value.format": "json"})
        return bench.batch(frame, chosen, records=records, codec="lz4")

    name = f"{records:,} rows of 50 columns as JSON, lz4"
    aims = [Aim(name=name, way=ACCEL.name, baseline=SINK.name, times=JSON_AIM)]
    return bench.interleave(ways, run, CaseWithAims(name=name, records=records, aims=aims))


def _small(bench: Bench, ways: Sequence[Direction], batches: int) -> CaseWithAims:
    def run(way: Direction) -> float | None:
        return bench.micro_batches(way, rows=10, batches=batches)

    name = "10 rows, a micro-batch"
    aims = [
        Aim(name=name, way=way.name, baseline=SINK.name, seconds_more=SMALL_AIM)
        for way in (ACCEL, PYTHON, FLOOR, LATE_FLOOR)
    ]
    return bench.interleave(ways, run, CaseWithAims(name=name, records=10, aims=aims))


if __name__ == "__main__":
    main()
