"""Rows that come only as far as a test allows, so that it can break something while a job is in its middle."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

WITHIN = 180.0  # seconds; an executor of a busy machine may need a minute for its first task
FILLER = "." * 2000  # buffers of 64 KiB are on the way through Spark, and our writer sends 8 MiB at once


def gated(spark: SparkSession, *, tasks: int, rows: int, gate: Path) -> DataFrame:
    """So many tasks with so many rows each, numbered over all of them, in a column `value` that `number_of` reads.

    Each task gives half of its rows, and the other half once the file *gate* is there.
    """
    path, half = str(gate), rows // 2

    def through(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import time
        from pathlib import Path

        given = 0
        for batch in batches:
            first = batch.slice(0, max(half - given, 0))
            yield first
            given += batch.num_rows
            if given >= half:
                deadline = time.monotonic() + WITHIN
                while not Path(path).exists():
                    if time.monotonic() > deadline:
                        raise TimeoutError(f"no process opened {path}")
                    time.sleep(0.02)
            yield batch.slice(first.num_rows)

    return _numbers(spark, tasks=tasks, rows=rows).mapInArrow(through, "value string")


def failing_once(spark: SparkSession, *, tasks: int, rows: int) -> DataFrame:
    """The same rows, but each task's first attempt fails when it has given them all."""

    def through(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        yield from batches
        context = TaskContext.get()
        if context is not None and context.attemptNumber() == 0:
            raise RuntimeError("the first attempt fails")

    return _numbers(spark, tasks=tasks, rows=rows).mapInArrow(through, "value string")


def number_of(value: bytes | None) -> int:
    """The number of the row that this value was."""
    return int((value or b"").rstrip(b"."))


def _numbers(spark: SparkSession, *, tasks: int, rows: int) -> DataFrame:
    return spark.range(0, tasks * rows, 1, tasks).selectExpr(f"concat(id, '{FILLER}') as value")
