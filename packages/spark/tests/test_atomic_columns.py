"""The columns of a frame that atomic batches take: by their names, which are case-sensitive. No row is written."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame, SparkSession

from ottla_spark.atomic.sink import SparkRows
from ottla_spark.errors import InvalidWriteError
from ottla_spark.options.options import read_options

pytestmark = pytest.mark.spark


def rows_of(frame: DataFrame) -> SparkRows:
    options = read_options({"kafka.bootstrap.servers": "127.0.0.1:1", "topic": "t"}, problems=[])
    return SparkRows(frame=frame, options=options, transactional_id="id", counts={"t": 1})


def test_columns_that_differ_in_case_are_distinguished(spark: SparkSession) -> None:
    frame = spark.createDataFrame([("K", "v", "k", "V", 1)], ["KEY", "value", "key", "Value", "a.b"])
    [row] = rows_of(frame)._sent.collect()

    assert row.asDict() == {"value": "v", "key": "k"}


def test_a_column_that_occurs_twice_is_refused(spark: SparkSession) -> None:
    frame = spark.createDataFrame([("1", "2", "3")], ["value", "value", "note"])

    with pytest.raises(InvalidWriteError, match="column 'value' occurs 2 times; keep one"):
        rows_of(frame)


def test_a_frame_without_columns_of_records_is_refused(spark: SparkSession) -> None:
    with pytest.raises(InvalidWriteError, match="required column 'value' not found"):
        rows_of(spark.createDataFrame([("1",)], ["note"]))
