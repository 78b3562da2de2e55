"""Ways to write a DataFrame to Kafka: rows per second, processor time and guarantee, near and far from the brokers.

`python benchmarks/spark_comparison.py --help`; the tables are Markdown. Spark's own sink, Ottla at least once and
exactly once, and confluent-kafka in `foreachPartition` write the same cached rows, then again through a proxy that
delays all bytes. A second table has Ottla's sink and its floor: the same work without Kafka. Rounds and checks are
those of `spark.py`.
"""

from __future__ import annotations

import sys
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median
from typing import Final

import attrs
import click
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from rounds import Broker
from spark import Bench
from spark_confluent import CONFLUENT, by_confluent
from spark_figures import Case, incomplete, ratios, with_spread
from spark_floor import ADDRESS, DISCARDS, PARTITIONS, Discards, discarding_address
from spark_frames import ACCEL, SINK, Direction, keyed, wide
from spark_session import cached, environment, spark_session

from ottla.tables.sealed import TableSealer
from ottla_spark.exactly_once import write_once
from ottla_testkit.kafka_cluster import KafkaCluster

ONCE: Final = Direction(name="ottla, exactly once", format="write_once", options=ACCEL.options)
"""Not a format: a call."""

COMPARED: Final = (SINK, ACCEL, ONCE, CONFLUENT)
GUARANTEES: Final = {ONCE.name: "exactly once"}
SLOWER: Final = 4
"""confluent-kafka writes a fourth of the rows; rates are compared."""

ONCE_GOAL: Final = 1.3  # x Spark's sink
FLOOR_GOAL: Final = 1.2  # x the floor
ENCODER_GOAL: Final = 15.0  # % of the processor time of a write
ENCODED_ROWS: Final = 65_000
"""About as many as the sink passes to the producer at once."""
ENCODED_TABLES: Final = 15


@attrs.frozen(kw_only=True)
class Comparison:
    """Writes of frames to one cluster."""

    broker: Broker
    partitions: int
    tasks: int
    codec: str
    discarding: str = ""

    def write(self, frame: DataFrame, way: Direction, *, rows: int) -> float | None:
        """Return the seconds of one write into a new topic, or None if records are missing."""
        topic = self.broker.create_topic(self.partitions)
        options = self._options(way, topic)
        started = time.perf_counter()
        if way.name == CONFLUENT.name:
            frame.foreachPartition(by_confluent(options))
        elif way.name == ONCE.name:
            write_once(frame, {**options, "transactional.id.prefix": topic}, job_id=uuid.uuid4().hex)
        else:
            frame.write.format(way.format).mode("append").options(**options).save()
        seconds = time.perf_counter() - started
        held = self.broker.held(topic, self.partitions) if way.to_kafka else rows
        self.broker.delete_topic(topic)
        # Offsets count the markers that end the tasks' transactions, too.
        markers = self.tasks * self.partitions if way.name == ONCE.name else 0
        return seconds if rows <= held <= rows + markers else None

    def _options(self, way: Direction, topic: str) -> Mapping[str, str]:
        floor = {ADDRESS: self.discarding, PARTITIONS: str(self.partitions)} if way.name == DISCARDS.name else {}
        return {**way.options_for(self.broker.servers, topic, self.codec), **floor}


@attrs.frozen(kw_only=True)
class Load:
    """What all writes of a run have in common."""

    spark: SparkSession
    rows: int
    tasks: int
    partitions: int
    rounds: int
    broker_pids: Sequence[int]

    def bench(self, broker: Broker) -> Bench:
        """Return the rounds."""
        return Bench(
            self.spark,
            broker,
            broker_pids=self.broker_pids,
            partitions=self.partitions,
            rounds=self.rounds,
            warm_up=1,
        )

    def comparison(self, broker: Broker, codec: str, *, discarding: str = "") -> Comparison:
        """Return what writes to a cluster, and for the floor to the address *discarding*."""
        return Comparison(
            broker=broker, partitions=self.partitions, tasks=self.tasks, codec=codec, discarding=discarding
        )


@click.command(context_settings={"show_default": True})
@click.option("--rows", default=1_000_000, help="Of a write: keys of 16 bytes, values of 100.")
@click.option("--rounds", default=5, help="Rounds that count; one more goes before them.")
@click.option("--round-trip", default=20.0, help="Milliseconds to the far brokers and back; 0: near ones only.")
@click.option("--codec", default="lz4", help="Of the comparison.")
@click.option("--floors/--no-floors", default=True, help="Compare with the floor, with and without keys and codecs.")
@click.option("--comparison/--no-comparison", default=True, help="Compare the ways to write.")
@click.option("--partitions", default=4, help="Of a topic.")
@click.option("--tasks", default=4, help="Partitions of the frame.")
@click.option("--cores", default=2, help="Of the local Spark.")
@click.option("--driver-memory", default="2g", help="Of the JVM that does all of Spark's work.")
@click.option("--markdown", "page", type=click.Path(dir_okay=False, path_type=Path), help="Write the tables there.")
def main(
    rows: int,
    rounds: int,
    round_trip: float,
    codec: str,
    floors: bool,
    comparison: bool,
    partitions: int,
    tasks: int,
    cores: int,
    driver_memory: str,
    page: Path | None,
) -> None:
    """Write the same rows in every way, in rounds."""
    lines = []
    # The clusters outlive the session, whose workers would else try to reach them again and again.
    with ExitStack() as stack:
        round_trips = sorted({0.0, round_trip}) if comparison else [0.0]
        clusters = [
            stack.enter_context(KafkaCluster(sustained=True, round_trip=each / 1000 or None)) for each in round_trips
        ]
        spark = stack.enter_context(spark_session(cores, driver_memory))
        spark.dataSource.register(Discards)
        load = Load(
            spark=spark,
            rows=rows,
            tasks=tasks,
            partitions=partitions,
            rounds=rounds,
            broker_pids=[cluster.pid(1) for cluster in clusters],
        )
        cases: list[Case] = []
        if comparison:
            cases += _compared(load, codec, dict(zip(round_trips, clusters, strict=True)))
            lines += [*_table(cases), ""]
        if floors:
            found = list(_floors(load, clusters[0]))
            cases += found
            lines += [*_floor_table(found), "", _encoder_line(found)]
    text = "\n".join([environment(cores), "", *lines])
    click.echo(text)
    if page is not None:
        page.write_text(text + "\n")
    if incomplete(cases, rounds):
        sys.exit("some runs are invalid; they count for nothing")


def _compared(load: Load, codec: str, clusters: Mapping[float, KafkaCluster]) -> Iterator[Case]:
    """Write with every way to each cluster; the seconds of confluent-kafka's fewer rows become those of all."""
    frame = cached(keyed(load.spark, load.rows, value_size=100, tasks=load.tasks))
    few = cached(keyed(load.spark, load.rows // SLOWER, value_size=100, tasks=load.tasks))
    for round_trip, cluster in clusters.items():
        broker = Broker(cluster.bootstrap_servers, {})
        to_kafka = load.comparison(broker, codec)

        def run(way: Direction, to_kafka: Comparison = to_kafka) -> float | None:
            if way is CONFLUENT:
                return to_kafka.write(few, way, rows=load.rows // SLOWER)
            return to_kafka.write(frame, way, rows=load.rows)

        name = f"{round_trip:g} ms" if round_trip else "near"
        case = load.bench(broker).interleave(COMPARED, run, Case(name=name, records=load.rows))
        for figures in (case.seconds, case.cpu):
            figures[CONFLUENT.name] = {number: each * SLOWER for number, each in figures[CONFLUENT.name].items()}
        yield case
    frame.unpersist()
    few.unpersist()


def _floors(load: Load, cluster: KafkaCluster) -> Iterator[Case]:
    """Write with Ottla and with its floor: each codec, without keys, and rows of fifty columns as JSON."""
    spark, rows, tasks = load.spark, load.rows, load.tasks
    broker = Broker(cluster.bootstrap_servers, {})
    with discarding_address() as address:
        bench = load.bench(broker)

        def case(name: str, frame: DataFrame, codec: str, count: int, options: Mapping[str, str]) -> Case:
            write = load.comparison(broker, codec, discarding=address).write
            ways = [attrs.evolve(way, options={**ACCEL.options, **options}) for way in (DISCARDS, ACCEL)]
            return bench.interleave(ways, partial(write, frame, rows=count), Case(name=name, records=count))

        with_keys = cached(keyed(spark, rows, value_size=100, tasks=tasks))
        for codec in ("none", "lz4", "zstd"):
            yield case(f"{rows:,} rows with keys, {codec}", with_keys, codec, rows, {})
        yield case(f"{rows:,} rows without keys, lz4", with_keys.select("value"), "lz4", rows, {})
        with_keys.unpersist()
        count = rows // 10
        columns = cached(wide(spark, count, tasks=tasks))
        yield case(f"{count:,} rows of 50 columns as JSON, lz4", columns, "lz4", count, {"value.format": "json"})
        columns.unpersist()


def _table(cases: Sequence[Case]) -> list[str]:
    """Return the medians of the rounds; ratios are those of a round."""
    lines = [
        "| brokers | way | guarantee | rows/s | x the rate of Spark's sink | CPU s per million rows |",
        "|---|---|---|---|---|---|",
    ]
    for case in cases:
        for name, seconds in case.seconds.items():
            cpu = median(case.cpu[name].values()) * 1e6 / case.records
            faster = with_spread(ratios(case.seconds, SINK.name, name))
            figures = f"{case.records / median(seconds.values()):,.0f} | {faster} | {cpu:.2f}"
            lines.append(f"| {case.name} | {name} | {GUARANTEES.get(name, 'at least once')} | {figures} |")
    for case in cases:
        ratio = median(ratios(case.seconds, SINK.name, ONCE.name))
        reached = "reached" if ratio >= ONCE_GOAL else "MISSED"
        lines += ["", f"{case.name}: exactly once at {ratio:.2f} x Spark's sink, the goal is {ONCE_GOAL}: {reached}"]
    return lines


def _floor_table(cases: Sequence[Case]) -> list[str]:
    lines = [
        f"| rows | time / the floor's, goal {FLOOR_GOAL} | CPU / the floor's | rows/s | CPU s per million rows "
        "| of the broker | processors in use |",
        "|---|---|---|---|---|---|---|",
    ]
    for case in cases:
        shown = " | ".join(
            with_spread(ratios(figures, ACCEL.name, DISCARDS.name)) for figures in (case.seconds, case.cpu)
        )
        seconds, cpu, broker_cpu = (
            median(figures[ACCEL.name].values()) * 1e6 / case.records
            for figures in (case.seconds, case.cpu, case.broker_cpu)
        )
        lines.append(
            f"| {case.name} | {shown} | {1e6 / seconds:,.0f} | {cpu:.2f} | {broker_cpu:.2f} "
            f"| {(cpu + broker_cpu) / seconds:.2f} |"
        )
    return lines


def _encoder_line(cases: Sequence[Case]) -> str:
    """Compare the encoder, in this process and without a codec, with a write of the same rows."""
    values = [f"{number * 199_933 % 99_999_999:08d} " * 11 for number in range(ENCODED_ROWS)]
    keys = [f"key-{number % 100_000:012d}" for number in range(ENCODED_ROWS)]
    table = pa.table(
        {"key": pa.array(keys, pa.binary()), "value": pa.array([each + "x" for each in values], pa.binary())}
    )
    settings = {"bootstrap.servers": "127.0.0.1:9", "record.encoder": "native"}
    spent = []
    with TableSealer(settings, {"t": 4}) as sealer:
        for _ in range(ENCODED_TABLES):
            before = time.process_time()
            sealer.seal("t", table)
            spent.append(time.process_time() - before)
    encoder = median(spent) * 1e9 / ENCODED_ROWS
    parts = []
    for case in cases[:3]:
        whole = median(case.cpu[ACCEL.name].values()) * 1e9 / case.records
        parts.append(f"{case.name}: {100 * encoder / whole:.1f} %")
    return (
        f"Partitions and encoding of a row take {encoder:.0f} ns of processor time; that is, of the whole write "
        f"(goal: at most {ENCODER_GOAL:g} %): {'; '.join(parts)}"
    )


if __name__ == "__main__":
    main()
