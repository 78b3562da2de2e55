"""Columns as JSON, against what Spark's `to_json` makes of the same rows."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pyarrow as pa
import pyspark
import pytest
from pyspark.sql import SparkSession

from ottla.plugins.serializers.json_columns import objects
from ottla_accel.json_rows import objects as compiled
from ottla_spark.sink.encoders import json_rows

pytestmark = pytest.mark.spark

OF_ALL_TYPES = """
    select case when id % 3 != 0 then id end as id, cast(id as tinyint) as small, id / 7 as ratio,
        cast(id / 7 as float) as single, cast('NaN' as double) as nan, cast(id / 7 as decimal(20, 3)) as price,
        id % 2 = 0 as even, concat('"', cast(id as string), '\\n') as text, cast('ab' as binary) as bytes,
        date_add(date '1999-12-31', cast(id as int)) as day, timestamp_millis(id * 86400123 - 5) as moment,
        cast('2013-01-01 05:00:00.5' as timestamp_ntz) as local, array(id, null) as ids,
        map('a', id, 'b', null) as pairs, map(cast(id as int), 1.5D) as numbers,
        named_struct('a', id, 'b', cast(null as string), 'c', named_struct('d', array(named_struct('e', id)))) as deep,
        null as nothing
    from range(20)
"""


@pytest.mark.slow
def test_rows_are_read_as_if_written_by_to_json(spark: SparkSession) -> None:
    frame = spark.sql(OF_ALL_TYPES)
    theirs = [row[0] for row in frame.selectExpr("to_json(struct(*))").collect()]
    batches = frame._collect_as_arrow()  # type: ignore[operator] # PySpark 3.5 has no toArrow
    [batch] = pa.Table.from_batches(batches).combine_chunks().to_batches()

    for rows in (None, compiled):
        ours = objects(batch.schema.names, batch.columns, count=batch.num_rows, rows=rows).to_pylist()

        assert [json.loads(text) for text in ours] == [json.loads(text) for text in theirs]


def test_the_configured_encoder_writes_rows_if_it_can() -> None:
    assert json_rows(None) is compiled
    assert json_rows("Native") is compiled
    assert json_rows("python") is None
    assert json_rows("unknown") is None


FAR = """
    select timestamp_micros(9223372036854775807) as last, timestamp_micros(-9223372036854775807) as first,
        date_from_unix_date(2000000000) as late, date_from_unix_date(-2000000000) as early,
        timestamp_ntz '20000-01-01 00:00:00' as local, timestamp '0001-01-01 00:00:00' as old,
        array(timestamp_ntz '9999-12-31 23:59:59.999', timestamp_ntz '10000-01-01 00:00:00') as years,
        transform(sequence(0, 600), week -> timestamp '2037-06-01 12:00:00Z' + week * interval '7' day) as weeks,
        array(timestamp '5000-07-01 00:00:00Z', timestamp '9999-07-01 00:00:00Z', null) as summers
"""

OPTIONS = ", map('timestampFormat', 'yyyy-MM-dd\\'T\\'HH:mm:ss.SSSXXXXX')" if pyspark.__version__ < "4" else ""
"""Spark 3.5 leaves the seconds of an offset out, as in the local times of before 1883: another moment."""


@pytest.fixture(params=["UTC", "Europe/Berlin", "America/New_York"])
def zoned(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[SparkSession]:
    """A session with another time zone."""
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", request.param)
    yield spark
    spark.conf.set("spark.sql.session.timeZone", str(before))


@pytest.mark.slow
def test_the_text_of_a_far_moment_equals_that_of_to_json(zoned: SparkSession) -> None:
    frame = zoned.sql(FAR)
    theirs = [row[0] for row in frame.selectExpr(f"to_json(struct(*){OPTIONS})").collect()]
    [batch] = pa.Table.from_batches(frame._collect_as_arrow()).to_batches()  # type: ignore[operator]

    for rows in (None, compiled):
        ours = objects(batch.schema.names, batch.columns, count=batch.num_rows, rows=rows).to_pylist()

        assert ours == theirs


@pytest.mark.slow
def test_keys_of_maps_that_are_times_are_written_as_other_times_are(zoned: SparkSession) -> None:
    """The numbers of `to_json` are Spark's own form of a time."""
    frame = zoned.sql(
        "select time, day, map(time, 1) as times, map(day, 1) as days "
        "from (select timestamp '2013-07-01 05:00:00.5Z' as time, date '2013-07-01' as day)"
    )
    [theirs] = [json.loads(row[0]) for row in frame.selectExpr("to_json(struct(*))").collect()]
    [batch] = pa.Table.from_batches(frame._collect_as_arrow()).to_batches()  # type: ignore[operator]

    assert list(theirs["days"]) == ["15887"]
    for rows in (None, compiled):
        [ours] = map(json.loads, objects(batch.schema.names, batch.columns, count=1, rows=rows).to_pylist())

        assert (ours["time"], ours["day"]) == (theirs["time"], theirs["day"])
        assert list(ours["times"]) == [ours["time"]]
        assert list(ours["days"]) == [ours["day"]]
