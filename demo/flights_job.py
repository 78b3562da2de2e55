"""The Spark job: from the CSV file to a topic, as a user would write it."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from flights_input import COLUMNS, KEY, MISSING
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, struct, to_json

import ottla_spark

SPARK_TYPES = {int: "int", str: "string"}
READING: dict[str, Any] = {
    "schema": ", ".join(f"{name} {SPARK_TYPES[kind]}" for name, kind in COLUMNS.items()),
    "header": True,
    "nullValue": MISSING,
    "mode": "FAILFAST",
}
LOG_SETTINGS = """
rootLogger.level=error
rootLogger.appenderRef.err.ref=err
appender.err.type=Console
appender.err.name=err
appender.err.target=SYSTEM_ERR
appender.err.layout.type=PatternLayout
logger.gateway.name=org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level=error
"""


@contextmanager
def session(folder: Path) -> Iterator[SparkSession]:
    """Yield a session with all cores of this machine, with this Python, and without Spark's usual output."""
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    # The flights' package installs pandas; nothing here uses it.
    warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas", category=FutureWarning)
    log_settings = folder / "log4j2.properties"
    log_settings.write_text(LOG_SETTINGS)
    spark = (
        SparkSession.builder.master("local[*]")
        .appName("flights")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.extraJavaOptions", f"-Dlog4j2.configurationFile={log_settings}")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .getOrCreate()
    )
    ottla_spark.register(spark)
    try:
        yield spark
    finally:
        spark.stop()


def prepare(spark: SparkSession, flights: Path, *, avro: bool) -> DataFrame:
    """Return the rows to write, in Spark's memory, so that writing can be timed alone.

    They have a key, and the value as JSON; for Avro, the columns of the value.
    """
    frame = _rows(spark.read.csv(str(flights), **READING), avro=avro).cache()
    frame.count()
    return frame


def prepare_stream(spark: SparkSession, months: Path, *, avro: bool) -> DataFrame:
    """Return the same for a folder with a file for each month: each is a micro-batch."""
    files = spark.readStream.option("maxFilesPerTrigger", 1).csv(str(months), **READING)
    return _rows(files, avro=avro)


def nothing_of(frame: DataFrame) -> DataFrame:
    """Return the frame without its rows: writing it starts Spark's Python workers, whose start a long job hides."""
    return frame.where("length(key) < 0")  # Spark cannot know beforehand that this is none of them


def write(frame: DataFrame, options: Mapping[str, str]) -> None:
    """Write the frame; return when Kafka has acknowledged every record."""
    frame.write.format("ottla").options(**options).mode("append").save()


def write_stream(frame: DataFrame, options: Mapping[str, str], *, folder: Path) -> None:
    """Write the stream; return when every file was a micro-batch, and Kafka has acknowledged every record."""
    query = (
        frame.writeStream.format("ottla")
        .queryName("flights")
        .options(**options)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def _rows(flights: DataFrame, *, avro: bool) -> DataFrame:
    key = col(KEY).alias("key")
    if avro:
        return flights.select(key, *COLUMNS)
    return flights.select(key, to_json(struct(*COLUMNS)).alias("value"))
