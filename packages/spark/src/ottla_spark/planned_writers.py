"""The writers of the data source: made and checked in the process that plans a write.

The functions get the data source and not its options, which error reporters would find among their variables.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql.types import StructType

from ottla_spark.data_source_api import HAS_ARROW_STREAMS, PYSPARK, DataSource, DataSourceStreamArrowWriter
from ottla_spark.errors import InvalidWriteError
from ottla_spark.options.options import not_for_batches, read_options
from ottla_spark.options.write_options import Guarantee, WriteOptions
from ottla_spark.sink.columns import ColumnPositions, find_columns
from ottla_spark.sink.formats import prepare_formats
from ottla_spark.sink.writer import OttlaStreamWriter, OttlaWriter
from ottla_spark.worker.garbage_collection import reduce_collection

_OPTIONS_OF_A_TABLE: Final = (
    "the write has no options; if its table has some, Spark does not pass them to a sink written in Python, so name "
    "them in each statement, INSERT INTO ... WITH ('kafka.bootstrap.servers' = ..., 'topic' = ...), or with "
    "df.writeTo(table).options(...).append(); insertInto and CREATE TABLE ... AS SELECT cannot pass options. Or insert "
    "into a temporary view, which passes its own: CREATE TEMPORARY VIEW ... USING ottla OPTIONS (...)"
)


def batch_writer(source: DataSource, schema: StructType, *, overwrite: bool) -> OttlaWriter:
    """Return the writer of a batch, after the check of its topics. Raises InvalidWriteError with all problems."""
    problems: list[str] = []
    if overwrite:
        problems.append('records can only be appended to a topic; use .mode("append") instead of "overwrite"')
    options, columns = _checked(source, schema, problems)
    problems += not_for_batches(options)
    if problems and not source.options:
        problems.append(_OPTIONS_OF_A_TABLE)
    if problems:
        raise InvalidWriteError(problems)
    writer = OttlaWriter(options, columns)
    writer.plan()
    return writer


def stream_writer(source: DataSource, schema: StructType) -> DataSourceStreamArrowWriter:
    """Return the writer of a micro-batch. Raises InvalidWriteError with all problems."""
    problems: list[str] = []
    if not HAS_ARROW_STREAMS:
        problems.append(
            f'{PYSPARK} passes no Arrow batches to sinks of streams, which format("ottla") needs; pass '
            "ottla_spark.foreach_batch(options) to writeStream.foreachBatch"
        )
    options, columns = _checked(source, schema, problems)
    if problems:
        raise InvalidWriteError(problems)
    if options.guarantee is Guarantee.EXACTLY_ONCE:
        from ottla_spark.exactly_once.stream import stream_writer as exactly_once  # imports many modules

        return exactly_once(options, columns)
    return OttlaStreamWriter(options, columns)


def _checked(source: DataSource, schema: StructType, problems: list[str]) -> tuple[WriteOptions, ColumnPositions]:
    reduce_collection()
    options = read_options(source.options, problems=problems)
    columns = find_columns(schema, topic=options.topic, problems=problems, formats=options.formats)
    return options if problems else prepare_formats(options, schema, columns, problems=problems), columns
