"""A program that uses what most tests use of Spark, for Java to record the classes; it waits for the end of the JVM.

    python spark_warm_up.py FOLDER

FOLDER is for files of the program.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark import SparkContext, cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]


class Nowhere(DataSource):
    """A sink that drops all rows."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `format`."""
        return "nowhere"

    def writer(self, schema: Any, overwrite: bool) -> Any:
        """Return a writer for a batch."""
        return Drop()

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:
        """Return a writer for a stream."""
        return DropStream()


class Drop(DataSourceArrowWriter):
    """Reads all rows."""

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Read the rows of a task."""
        for _batch in iterator:
            pass
        return WriterCommitMessage()


class DropStream(DataSourceStreamArrowWriter):
    """Reads all rows."""

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Read the rows of a task."""
        for _batch in iterator:
            pass
        return WriterCommitMessage()


def use(spark: SparkSession, folder: Path) -> None:
    """Write a batch and two streams, one of them with a state."""
    spark.dataSource.register(Nowhere)
    rows = spark.range(0, 20, 1, 2).selectExpr("cast(id as string) as key", "cast(id as string) as value")
    rows.repartition(3).write.format("nowhere").mode("append").save()
    rows.mapInArrow(lambda batches: batches, "key string, value string").collect()
    spark.createDataFrame([("k", "v")], "key string, value string").count()
    rows.write.json(str(folder / "in"))
    stream = (
        spark.readStream.schema("key string, value string").option("maxFilesPerTrigger", 1).json(str(folder / "in"))
    )
    plain = stream.repartition(2).writeStream.format("nowhere").option("checkpointLocation", str(folder / "plain"))
    plain.trigger(availableNow=True).start().awaitTermination()
    counts = stream.groupBy("key").count().writeStream.outputMode("update").foreachBatch(count)
    counts.option("checkpointLocation", str(folder / "counts")).trigger(availableNow=True).start().awaitTermination()


def count(frame: DataFrame, _batch: int) -> None:
    """Count the rows of a micro-batch."""
    frame.count()


def main(folder: str) -> None:
    """Use Spark, and return when its JVM has ended."""
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(Path(folder, "warehouse")),
    }
    spark = SparkSession.builder.master("local[2]").config(map={**settings}).getOrCreate()
    use(spark, Path(folder))
    spark.stop()
    gateway = SparkContext._gateway
    assert gateway is not None
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
