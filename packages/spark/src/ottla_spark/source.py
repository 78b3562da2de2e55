"""The data source that Spark finds under the name `ottla`. It writes batches and streams, and reads nothing.

Spark imports this module in a Python process that only looks the name up, so the methods import what plans a write.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NoReturn

from ottla import OttlaError
from ottla_spark.data_source_api import HAS_DATA_SOURCES, INSTEAD, PYSPARK, DataSource, DataSourceStreamArrowWriter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from ottla_spark.sink.writer import OttlaWriter

_WRITES_ONLY: Final = (
    'format("ottla") writes to Kafka and reads nothing; read with Spark\'s own format("kafka"), which may be in the '
    "same job"
)
_WITHOUT_COLUMNS: Final = (
    f"{_WRITES_ONLY}. To insert into a table of this format, name its columns: "
    "CREATE TABLE orders (key STRING, value STRING) USING ottla"
)


def register(spark: SparkSession) -> None:
    """Register `format("ottla")` with this session, where Spark does not find `pyspark_ottla` by itself.

    A thread that did not create the session must call it, too: Spark searches for data sources written in Python only
    in the thread's active session. Raises OttlaError on PySpark 3.5, which has no data sources in Python, and if the
    Python that Spark starts on the driver does not have this package.
    """
    if not HAS_DATA_SOURCES:
        raise OttlaError(f'{PYSPARK} has no data sources in Python, so format("ottla") does not exist: {INSTEAD}')
    from pyspark.errors import AnalysisException

    from ottla_spark.python_of_spark import check_python_of_spark

    check_python_of_spark(spark)
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
        from ottla_spark.planned_writers import batch_writer

        return batch_writer(self, schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        """Create the writer; called on the driver for each micro-batch. Raises InvalidWriteError with all problems.

        With *overwrite*, in the output mode "complete", each micro-batch sends all rows, as Spark's own sink does.
        """
        from ottla_spark.planned_writers import stream_writer

        return stream_writer(self, schema)

    def schema(self) -> NoReturn:
        """Raise OttlaError: Spark calls this to read, and for `CREATE TABLE ... USING ottla` without columns."""
        raise OttlaError(_WITHOUT_COLUMNS)

    def reader(self, schema: StructType) -> NoReturn:
        """Raise OttlaError: this data source cannot read."""
        raise OttlaError(_WRITES_ONLY)

    def streamReader(self, schema: StructType) -> NoReturn:
        """Raise OttlaError: this data source cannot read."""
        raise OttlaError(_WRITES_ONLY)
