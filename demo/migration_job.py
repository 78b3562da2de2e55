"""The job that moves from Spark's own sink: one frame of three tables, written by the name of a format."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from pathlib import Path
from typing import Final

from flights_input import MISSING, table
from flights_job import session
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import array, col, concat, lit, struct, to_json

from ottla_testkit.java.spark_sink import spark_sink_jars

SINKS: Final = ("kafka", "ottla")
KEYS: Final = {"flights": "tailnum", "planes": "tailnum", "weather": "origin"}


@contextmanager
def session_with_both(folder: Path) -> Iterator[SparkSession]:
    """Yield a session that also has Spark's own sink. Raises KafkaUnavailableError where its jars cannot be fetched."""
    jars = spark_sink_jars()
    with session(folder) as spark:
        for jar in jars:
            spark.sql(f"ADD JAR '{jar}'")
        yield spark


def topic_of(name: str, sink: str) -> str:
    """Return the topic of a table that this sink writes."""
    return f"{name}-by-{sink}"


def prepare(spark: SparkSession, names: Sequence[str], folder: Path) -> DataFrame:
    """Return key, value and headers of every row of these tables, and the table's name, in Spark's memory."""
    frames = [_rows(spark.read.csv(str(table(name, folder)), header=True, nullValue=MISSING), name) for name in names]
    frame = reduce(DataFrame.unionByName, frames).cache()
    frame.count()
    return frame


def write(frame: DataFrame, sink: str, bootstrap_servers: str, compression: str) -> None:
    """Run the job. To move it, 'kafka' becomes 'ottla'; nothing else changes."""
    (
        frame.withColumn("topic", concat("name", lit(topic_of("", sink))))
        .write.format(sink)
        .option("kafka.bootstrap.servers", bootstrap_servers)
        .option("kafka.compression.type", compression)
        .mode("append")
        .save()
    )


def _rows(rows: DataFrame, name: str) -> DataFrame:
    header = struct(lit("table").alias("key"), lit(name).cast("binary").alias("value"))
    return rows.select(
        lit(name).alias("name"),
        col(KEYS[name]).alias("key"),
        to_json(struct(*rows.columns)).alias("value"),
        array(header).alias("headers"),
    )
