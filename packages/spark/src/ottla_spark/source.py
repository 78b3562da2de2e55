"""The data source that Spark finds under the name `ottla`. It only writes, and only batches."""

from __future__ import annotations

from typing import NoReturn

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from ottla_spark.columns import find_columns
from ottla_spark.errors import WriteRefused
from ottla_spark.options import read_options
from ottla_spark.writer import OttlaWriter


def register(spark: SparkSession) -> None:
    """Make `format("ottla")` known to this session, where Spark does not find `pyspark_ottla` by itself.

    A thread that did not make the session must call it, too: Spark looks for data sources written in Python only
    in the thread's active session.
    """
    spark.dataSource.register(OttlaDataSource)
    spark.createDataFrame([], "nothing int")  # what PySpark offers to make a session the thread's active one


class OttlaDataSource(DataSource):
    """`df.write.format("ottla")`: the columns and options of Spark's own Kafka sink."""

    @classmethod
    def name(cls) -> str:
        """The word for `format`."""
        return "ottla"

    def writer(self, schema: StructType, overwrite: bool) -> OttlaWriter:
        """Called on the driver while the write is planned. Raises WriteRefused with all that is wrong."""
        problems: list[str] = []
        if overwrite:
            problems.append('a topic cannot be overwritten, only added to; use .mode("append")')
        options = read_options(self.options, problems=problems)
        columns = find_columns(schema, topic=options.topic, problems=problems)
        if problems:
            raise WriteRefused(problems)
        return OttlaWriter(options, columns)

    def streamWriter(self, schema: StructType, overwrite: bool) -> NoReturn:
        """Raises WriteRefused: streams are not in this version."""
        raise WriteRefused(["streams are not in this version; write each micro-batch from writeStream.foreachBatch"])
