"""A DataFrame as Avro in Kafka: `format("ottla")` with a schema registry, compared with `to_avro` and Spark's own sink.

`python benchmarks/spark_schemas.py --avro-jar spark-avro_2.13-4.2.0.jar`, with the jar of Spark's avro package. Both
write the same cached flights to a real broker, in interleaved rounds. Only ours writes the registry's header, which
`to_avro` lacks. `--parts` also measures how much of the time has nothing to do with Avro: reading the rows alone, and
handing them to a Python process, as Arrow, that discards them.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import click
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.avro.functions import to_avro
from schemas import registry

from ottla_testkit.java.spark_sink import spark_sink_jars
from ottla_testkit.kafka_cluster import KafkaCluster

OURS: Final = 'format("ottla")'
SINK: Final = "to_avro and Spark's sink"
READ: Final = "rows are read, nothing else"
DISCARD: Final = "rows go to Python as Arrow, which discards them"
TOPIC: Final = "flights"


def flights(spark: SparkSession, rows: int, tasks: int) -> DataFrame:
    """Return cached flights of fourteen columns."""
    frame = spark.range(0, rows, 1, tasks).selectExpr(
        "cast(id % 9000 as int) as number",
        "element_at(array('UA', 'LX', 'B6'), cast(id % 3 + 1 as int)) as carrier",
        "element_at(array('EWR', 'JFK', 'LGA', 'ZRH'), cast(id % 4 + 1 as int)) as origin",
        "element_at(array('BOS', 'ORD', 'SFO'), cast(id % 3 + 1 as int)) as destination",
        "if(id % 10 = 0, null, id % 60 / 4) as delay",
        "50 + id % 300 as seats",
        "id % 7 = 0 as late",
        "cast(2013 as int) as year",
        "cast(id % 12 + 1 as int) as month",
        "cast(id % 28 + 1 as int) as day",
        "timestamp_millis(1750000000000 + id) as scheduled",
        "concat('N', id % 5000) as tail",
        "id % 1000 / 8 as distance",
        "slice(array('BOS', 'ORD'), 1, cast(id % 3 as int)) as stops",
    )
    frame = frame.cache()
    frame.count()
    return frame


def ways(frame: DataFrame, servers: str, address: str) -> Mapping[str, Callable[[], None]]:
    """Return what is compared, by name."""
    kafka = {"kafka.bootstrap.servers": servers, "topic": TOPIC}
    avro = {"value.format": "avro", "schema.registry.url": address}

    def ours() -> None:
        frame.write.format("ottla").mode("append").options(**kafka, **avro).save()

    def sink() -> None:
        columns = ", ".join(frame.columns)
        values = frame.selectExpr(f"struct({columns}) as row").select(to_avro("row").alias("value"))
        values.write.format("kafka").options(**kafka).save()

    return {OURS: ours, SINK: sink}


def parts(frame: DataFrame) -> Mapping[str, Callable[[], None]]:
    """Return what a write in Python cannot do without, by name."""

    def read() -> None:
        frame.write.format("noop").mode("append").save()

    def discard() -> None:
        frame.mapInArrow(_nothing, "number int").write.format("noop").mode("append").save()

    return {READ: read, DISCARD: discard}


def _nothing(batches: Iterator[Any]) -> Iterator[Any]:
    for _batch in batches:
        pass
    yield from ()


@click.command(help=__doc__)
@click.option("--avro-jar", required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--rows", default=1_000_000, show_default=True)
@click.option("--tasks", default=2, show_default=True)
@click.option("--rounds", default=5, show_default=True, help="Rounds that count; two more go before them.")
@click.option("--parts", "with_parts", is_flag=True, help="Measure also what takes time without Avro.")
@click.option("--batch-rows", default=10_000, show_default=True, help="Rows of an Arrow batch.")
def main(avro_jar: Path, rows: int, tasks: int, rounds: int, batch_rows: int, *, with_parts: bool) -> None:
    """Print the median seconds of each way, and the median of the ratios of each round."""
    with KafkaCluster(sustained=True) as kafka, registry() as address, tempfile.TemporaryDirectory() as folder:
        kafka.create_topic(TOPIC, partitions=4)
        os.environ |= {"OTTLA_ALLOWED_URLS": address, "PYSPARK_PYTHON": sys.executable}
        builder = SparkSession.builder.master(f"local[{tasks}]").config("spark.driver.host", "127.0.0.1")
        builder = builder.config("spark.jars", ",".join(map(str, (avro_jar, *spark_sink_jars()))))
        builder = builder.config("spark.sql.execution.arrow.maxRecordsPerBatch", batch_rows)
        session = builder.config("spark.sql.warehouse.dir", folder).config("spark.ui.enabled", "false").getOrCreate()
        try:
            frame = flights(session, rows, tasks)
            compared = ways(frame, kafka.bootstrap_servers, address)
            taken = _measured({**compared, **parts(frame)} if with_parts else compared, rounds)
        finally:
            session.stop()
    for name, seconds in taken.items():
        ratio = statistics.median(other / own for other, own in zip(seconds, taken[OURS], strict=True))
        median = statistics.median(seconds)
        click.echo(f"{name}: {median:.2f} s, {rows / median:,.0f} rows/s, {ratio:.2f} times the time of {OURS}")


def _measured(compared: Mapping[str, Callable[[], None]], rounds: int) -> Mapping[str, list[float]]:
    taken: dict[str, list[float]] = {name: [] for name in compared}
    for number in range(rounds + 2):
        for name in list(compared) if number % 2 else reversed(list(compared)):
            started = time.perf_counter()
            compared[name]()
            if number > 1:
                taken[name].append(time.perf_counter() - started)
    return taken


if __name__ == "__main__":
    main()
