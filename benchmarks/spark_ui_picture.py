"""The picture of Spark's UI with writes of Ottla in `docs/spark-ui.md`.

`python benchmarks/spark_ui_picture.py docs` takes a minute. It needs the command `chromium`, as Debian's package of
this name has it, and Pillow. Writes and a stream go to a real broker; the UI is that of the driver.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import click
from PIL import Image
from pyspark.sql import DataFrame, SparkSession

import ottla_spark
from ottla_testkit.kafka_cluster import KafkaCluster

TOPIC: Final = "orders"
BATCHES: Final = 2
WITHIN: Final = 120.0
"""Seconds for the stream, and for one picture."""
COLORS: Final = 48


@click.command()
@click.argument("folder", type=click.Path(file_okay=False, exists=True, path_type=Path))
@click.option("--chromium", default="chromium", help="The command.", show_default=True)
def main(folder: Path, chromium: str) -> None:
    """Write the picture into FOLDER, and print the log lines and the progress of the stream's sink."""
    logging.basicConfig(format="%(levelname)s %(name)s: %(message)s")
    logging.getLogger("ottla_spark").setLevel(logging.INFO)
    with KafkaCluster() as kafka, _session() as spark:
        kafka.create_topic(TOPIC, partitions=4)
        options = {"kafka.bootstrap.servers": kafka.bootstrap_servers, "topic": TOPIC}
        frame = spark.range(0, 100_000, 1, 4).selectExpr("cast(id as string) as key", "concat('order ', id) as value")
        _write(spark, frame, options)
        click.echo(_stream(spark, options))
        address = str(spark.sparkContext.uiWebUrl)
        picture = folder / "spark-ui-jobs.png"
        _picture(chromium, f"{address}/jobs/", picture, view=(2_250, 1_000), part=(0, 345, 1_560, 735))


def _write(spark: SparkSession, frame: DataFrame, options: Mapping[str, str]) -> None:
    context = spark.sparkContext
    ottla_spark.write(frame, options)
    context.setJobDescription("nightly export")
    ottla_spark.write_once(frame, {**options, "transactional.id.prefix": "nightly"}, job_id="orders of 2026-11-21")
    context.setLocalProperty("spark.job.description", None)  # type: ignore[arg-type] # None removes it
    frame.write.format("ottla").mode("append").options(**options).save()


def _stream(spark: SparkSession, options: Mapping[str, str]) -> str:
    """Run some micro-batches exactly once, and return the last progress of the sink."""
    sink = ottla_spark.foreach_batch(
        {**options, "guarantee": "exactly-once", "transactional.id.prefix": "orders-by-day"}
    )
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1_000).load()
    rows = source.selectExpr("cast(value as string) as value")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        query = (
            rows.writeStream.queryName("orders by day").foreachBatch(sink).option("checkpointLocation", folder).start()
        )
        deadline = time.monotonic() + WITHIN
        while (query.lastProgress or {"batchId": 0})["batchId"] < BATCHES:
            if not query.isActive or time.monotonic() > deadline:
                raise click.ClickException(f"the stream made no progress: {query.exception()}")
            time.sleep(0.1)
        query.stop()
        progress = query.lastProgress
    assert progress is not None
    return str(progress["sink"])


def _picture(
    chromium: str, address: str, file: Path, *, view: tuple[int, int], part: tuple[int, int, int, int]
) -> None:
    """Take a picture of *part* of a page (left, top, right, bottom), and store it with few colors."""
    width, height = view
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        command = [chromium, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        command += [f"--user-data-dir={profile}", f"--window-size={width},{height}", "--virtual-time-budget=8000"]
        subprocess.run([*command, f"--screenshot={file}", address], check=True, capture_output=True, timeout=WITHIN)
    Image.open(file).convert("RGB").crop(part).quantize(COLORS).save(file, optimize=True)


@contextmanager
def _session() -> Iterator[SparkSession]:
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    settings: dict[str, bool | float | int | str | None] = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.port": 0,
        "spark.ui.showConsoleProgress": False,
        "spark.log.level": "ERROR",
    }
    session = SparkSession.builder.master("local[2]").appName("orders").config(map=settings).getOrCreate()
    try:
        ottla_spark.register(session)
        yield session
    finally:
        session.stop()


if __name__ == "__main__":
    main()
