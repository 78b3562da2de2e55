"""A local Spark for benchmarks, and the processor time that it and its workers take."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pyspark
from pyspark.sql import DataFrame, SparkSession
from spark_frames import OnlyReads

from ottla_testkit.java.spark_sink import spark_sink_jars


def cached(frame: DataFrame) -> DataFrame:
    """Return the frame with its rows in memory."""
    kept = frame.cache()
    kept.count()
    return kept


def environment(cores: int) -> str:
    """Return what figures depend on, for the head of a table."""
    return (
        f"Spark {pyspark.__version__} with {cores} cores, shared with the broker; {platform.machine()}, "
        f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}"
    )


@contextmanager
def spark_session(cores: int, memory: str) -> Iterator[SparkSession]:
    """Start a local Spark, which has its own Kafka sink and the source that only reads."""
    # The JVM reads it at its start; its Python workers import the source that only reads from here.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    settings: dict[str, bool | float | int | str | None] = {
        "spark.driver.memory": memory,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": False,
        "spark.ui.showConsoleProgress": False,
        "spark.log.level": "OFF",
        "spark.jars": ",".join(map(str, spark_sink_jars())),
        "spark.sql.streaming.numRecentProgressUpdates": 10_000,
    }
    session = SparkSession.builder.master(f"local[{cores}]").appName("benchmark").config(map=settings).getOrCreate()
    try:
        session.dataSource.register(OnlyReads)
        yield session
    finally:
        session.stop()


def cpu_seconds(without: Sequence[int]) -> Mapping[tuple[int, float], float]:
    """Return the seconds of each process below this one; those of ended ones are lost: Spark does not wait for them."""
    found = {}
    for process in psutil.Process().children(recursive=True):
        if process.pid not in without:
            with suppress(psutil.NoSuchProcess):
                found[process.pid, process.create_time()] = sum(process.cpu_times()[:2])  # user and system
    return found


def broker_seconds(pids: Sequence[int]) -> float:
    """Return the seconds of all brokers."""
    return float(sum(sum(psutil.Process(pid).cpu_times()[:2]) for pid in pids))


def spent(before: Mapping[tuple[int, float], float], after: Mapping[tuple[int, float], float]) -> float:
    """Return the seconds between two results of `cpu_seconds`."""
    return sum(seconds - before.get(process, 0.0) for process, seconds in after.items())
