"""Frames, sources and sinks of the Spark benchmark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import attrs
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from ottla_spark.worker.tcp_quickack import with_tcp_quickack

WORDS: Final = 500
KEYS: Final = 100_000
WIDE_COLUMNS: Final = 50


@attrs.frozen(kw_only=True)
class Direction:
    """One way of writing; `columns` None: the frame unchanged."""

    name: str
    format: str
    options: Mapping[str, str] = attrs.field(factory=dict)
    to_kafka: bool = True
    """False: nothing arrives, and nothing is checked."""

    def options_for(self, servers: str, topic: str, codec: str) -> Mapping[str, str]:
        """The options of a write into a topic: the same guarantee and codec for all ways to Kafka."""
        return {
            "kafka.bootstrap.servers": servers,
            "topic": topic,
            "kafka.acks": "all",
            "kafka.enable.idempotence": "true",
            "kafka.compression.type": codec,
            **self.options,
        }


SINK: Final = Direction(name="Spark's sink", format="kafka")
ACCEL: Final = Direction(name="ottla", format="ottla", options={"kafka.record.encoder": "native"})
PYTHON: Final = Direction(name="ottla, no accel", format="ottla", options={"kafka.record.encoder": "python"})
FLOOR: Final = Direction(name="only reads", format="only-reads", to_kafka=False)
LATE_FLOOR: Final = Direction(
    name="only reads, with late acks", format="only-reads", options={"acks": "late"}, to_kafka=False
)
WAYS: Final = {"sink": SINK, "accel": ACCEL, "python": PYTHON, "floor": FLOOR}


class OnlyReads(DataSource):
    """A Python sink that reads all rows and drops them: the lower bound.

    Rows are acknowledged as in Ottla's sink, or with `acks=late` by the kernel alone, as in any other sink.
    """

    @classmethod
    def name(cls) -> str:
        """The name for `format`."""
        return FLOOR.format

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Return the writer of a batch."""
        return ReadingWriter(self._late())

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        """Return the writer of a micro-batch."""
        return ReadingStreamWriter(self._late())

    def _late(self) -> bool:
        return bool(self.options.get("acks") == "late")


class ReadingWriter(DataSourceArrowWriter):
    """Read a task's rows; `commit` and `abort` do nothing."""

    def __init__(self, late: bool) -> None:
        self._late = late

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Read all rows."""
        return _read(iterator, late=self._late)


class ReadingStreamWriter(DataSourceStreamArrowWriter):
    """Read a task's rows of one micro-batch; `commit` and `abort` do nothing."""

    def __init__(self, late: bool) -> None:
        self._late = late

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Read all rows."""
        return _read(iterator, late=self._late)


def _read(batches: Iterator[Any], *, late: bool) -> WriterCommitMessage:
    for _ in batches if late else with_tcp_quickack(batches):
        pass
    return WriterCommitMessage()


def keyed(spark: SparkSession, count: int, *, value_size: int, tasks: int) -> DataFrame:
    """Return keys of 16 bytes, and values of words of eight digits, which compress about as well as JSON."""
    words = F.transform(
        F.sequence(F.lit(0), F.lit(value_size // 9)),
        lambda place: F.lpad((F.pmod(F.xxhash64("id", place), F.lit(WORDS)) * 199_933).cast("string"), 8, "0"),
    )
    key = F.concat(F.lit("key-"), F.lpad(F.pmod(F.xxhash64("id"), F.lit(KEYS)).cast("string"), 12, "0"))
    value = F.substring(F.concat_ws(" ", words), 1, value_size)
    return spark.range(0, count, 1, tasks).select(key.alias("key"), value.alias("value"))


def wide(spark: SparkSession, count: int, *, tasks: int) -> DataFrame:
    """Return fifty columns: numbers, text, dates, booleans and nulls."""
    kinds = (
        lambda n: F.pmod(F.xxhash64("id", F.lit(n)), F.lit(1_000_000)).alias(f"count{n}"),
        lambda n: (F.pmod(F.xxhash64("id", F.lit(n)), F.lit(10**6)) / 128).alias(f"price{n}"),
        lambda n: F.lpad(F.pmod(F.xxhash64("id", F.lit(n)), F.lit(500)).cast("string"), 8, "x").alias(f"name{n}"),
        lambda n: F.when(F.pmod(F.col("id"), F.lit(3)) > 0, F.pmod(F.col("id") + n, F.lit(2)) == 0).alias(f"flag{n}"),
        lambda n: F.date_add(F.lit("2013-01-01"), F.pmod(F.col("id") + n, F.lit(365)).cast("int")).alias(f"day{n}"),
    )
    return spark.range(0, count, 1, tasks).select(*(kinds[n % len(kinds)](n) for n in range(WIDE_COLUMNS)))
