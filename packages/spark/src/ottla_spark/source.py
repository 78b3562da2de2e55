"""The data source that Spark finds under the name `ottla`. It writes batches and streams, and reads nothing."""

from __future__ import annotations

from typing import Final, NoReturn

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from ottla import OttlaError
from ottla_spark.data_source_api import (
    HAS_ARROW_STREAMS,
    HAS_DATA_SOURCES,
    INSTEAD,
    PYSPARK,
    DataSource,
    DataSourceStreamArrowWriter,
)
from ottla_spark.errors import InvalidWriteError
from ottla_spark.options.options import Guarantee, WriteOptions, not_for_batches, read_options
from ottla_spark.sink.columns import ColumnPositions, find_columns
from ottla_spark.sink.formats import prepare_formats
from ottla_spark.sink.writer import OttlaStreamWriter, OttlaWriter
from ottla_spark.worker.garbage_collection import reduce_collection

_WRITES_ONLY: Final = (
    'format("ottla") writes to Kafka and reads nothing; read with Spark\'s own format("kafka"), which may be in the '
    "same job"
)


def register(spark: SparkSession) -> None:
    """Register `format("ottla")` with this session, where Spark does not find `pyspark_ottla` by itself.

    A thread that did not create the session must call it, too: Spark searches for data sources written in Python only
    in the thread's active session. Raises OttlaError on PySpark 3.5, which has no data sources in Python.
    """
    if not HAS_DATA_SOURCES:
        raise OttlaError(f'{PYSPARK} has no data sources in Python, so format("ottla") does not exist: {INSTEAD}')
    try:
        spark.dataSource.register(OttlaDataSource)
    except AnalysisException as error:
        # PySpark 4.0 refuses a name that it has found by itself, or that another thread has registered.
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise
    spark.createDataFrame([], "nothing int")  # in PySpark only this makes a session the thread's active one


class OttlaDataSource(DataSource):
    """`format("ottla")` of a batch's `write` and a stream's `writeStream`: columns and options of Spark's own sink."""

    @classmethod
    def name(cls) -> str:
        """The name for `format`."""
        return "ottla"

    def writer(self, schema: StructType, overwrite: bool) -> OttlaWriter:
        """Create the batch writer; called on the driver while the write is planned.

        Raises InvalidWriteError with all problems.
        """
        problems: list[str] = []
        if overwrite:
            problems.append('records can only be appended to a topic; use .mode("append") instead of "overwrite"')
        options, columns = self._checked(schema, problems)
        problems += not_for_batches(options)
        if problems:
            raise InvalidWriteError(problems)
        writer = OttlaWriter(options, columns)
        writer.plan()
        return writer

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        """Create the writer; called on the driver for each micro-batch. Raises InvalidWriteError with all problems.

        With *overwrite*, in the output mode "complete", each micro-batch sends all rows, as Spark's own sink does.
        """
        problems: list[str] = []
        if not HAS_ARROW_STREAMS:
            problems.append(
                f'{PYSPARK} passes no Arrow batches to sinks of streams, which format("ottla") needs; pass '
                "ottla_spark.foreach_batch(options) to writeStream.foreachBatch"
            )
        options, columns = self._checked(schema, problems)
        if problems:
            raise InvalidWriteError(problems)
        if options.guarantee is Guarantee.EXACTLY_ONCE:
            from ottla_spark.exactly_once import stream_writer  # imports many modules, so only when it is needed

            return stream_writer(options, columns)
        return OttlaStreamWriter(options, columns)

    def schema(self) -> NoReturn:
        """Raise OttlaError: Spark calls this to read, and for `CREATE TABLE ... USING ottla` without columns."""
        raise OttlaError(_WRITES_ONLY)

    def reader(self, schema: StructType) -> NoReturn:
        """Raise OttlaError: this data source cannot read."""
        raise OttlaError(_WRITES_ONLY)

    def streamReader(self, schema: StructType) -> NoReturn:
        """Raise OttlaError: this data source cannot read."""
        raise OttlaError(_WRITES_ONLY)

    def _checked(self, schema: StructType, problems: list[str]) -> tuple[WriteOptions, ColumnPositions]:
        reduce_collection()
        options = read_options(self.options, problems=problems)
        columns = find_columns(schema, topic=options.topic, problems=problems, formats=options.formats)
        return options if problems else prepare_formats(options, schema, columns, problems=problems), columns
