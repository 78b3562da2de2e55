"""Versions of PySpark that lack data sources, or those of streams: the errors name the functions to call."""

from __future__ import annotations

import subprocess
import sys

import pytest
from pyspark.sql import DataFrame
from pyspark.sql.types import StringType, StructType

import ottla_spark
from ottla import OttlaError
from ottla_spark import InvalidWriteError, OttlaDataSource, planned_writers
from ottla_spark.atomic import atomically
from ottla_spark.data_source_api import HAS_ARROW_STREAMS, HAS_DATA_SOURCES, PYSPARK

OPTIONS = {"kafka.bootstrap.servers": "localhost:9092", "topic": "t"}
WITHIN = 60.0  # seconds

PROGRAM = """
import logging
import sys

import pyspark.sql

if hasattr(pyspark.sql, "datasource"):
    del pyspark.sql.datasource
sys.modules["pyspark.sql.datasource"] = None
logging.basicConfig(format="%(name)s: %(message)s", stream=sys.stdout)
logging.getLogger("ottla_spark").setLevel(logging.INFO)

import ottla_spark
import pyspark_ottla

ottla_spark.foreach_batch({"kafka.bootstrap.servers": "localhost:9092", "topic": "t"})
try:
    ottla_spark.register(None)
except ottla_spark.errors.OttlaError as error:
    print(f"register: {error}")
"""
CALLS = (
    f'{PYSPARK} has no data sources in Python, so format("ottla") does not exist: call ottla_spark.write(df, options) '
    "for a batch, and pass ottla_spark.foreach_batch(options) to writeStream.foreachBatch for a stream"
)


def test_the_functions_are_named_where_pyspark_has_no_data_sources() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=WITHIN, check=False)

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [f"ottla_spark: {CALLS}", f"register: {CALLS}"]


@pytest.mark.skipif(not HAS_DATA_SOURCES, reason="this PySpark has no data sources in Python")
def test_a_stream_without_arrow_batches_is_refused_with_the_function(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planned_writers, "HAS_ARROW_STREAMS", False)
    schema = StructType().add("value", StringType())

    with pytest.raises(InvalidWriteError, match=r"pass ottla_spark\.foreach_batch\(options\) to writeStream"):
        OttlaDataSource(OPTIONS).streamWriter(schema, overwrite=False)


def test_whole_micro_batches_are_refused_before_spark_4_1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(DataFrame, "repartitionById", raising=False)

    with pytest.raises(InvalidWriteError, match=r"has no DataFrame\.repartitionById"):
        atomically(OPTIONS, transactional_id="t")


def test_the_data_source_exists_as_pyspark_allows() -> None:
    version = tuple(map(int, PYSPARK.removeprefix("PySpark ").split(".")[:2]))

    assert (version >= (4, 0)) == HAS_DATA_SOURCES
    assert (version >= (4, 1)) == HAS_ARROW_STREAMS
    if not HAS_DATA_SOURCES:
        with pytest.raises(OttlaError, match=r"call ottla_spark\.write"):
            ottla_spark.register(None)  # type: ignore[arg-type]
