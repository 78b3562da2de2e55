"""The conversion of Spark's record batches before they are sent: columns, invalid cells, topics."""

from __future__ import annotations

import re
from collections import defaultdict
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from spark_task_kit import received

from ottla_spark.errors import WriteError
from ottla_spark.options.options import read_options
from ottla_spark.sink.records import RowPlace, by_topic, records_of, size_of, valid_rows, with_headers
from ottla_spark.sink.refused_rows import RefusedRows

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
OPTIONS = read_options({"kafka.bootstrap.servers": "127.0.0.1:1"}, problems=[])
PLACE = RowPlace(task="Spark partition 3", rows_before=10)


def records(**columns: pa.Array) -> pa.RecordBatch:
    """The records that are sent for a record batch of these columns."""
    found, unserializable, _headers = records_of(
        pa.record_batch(columns), {name: at for at, name in enumerate(columns)}, options=OPTIONS
    )
    assert not unserializable
    valid, indexes = valid_rows(
        found, place=PLACE, topic=None, refused=RefusedRows(None, task="task"), unserializable={}
    )
    assert valid is found
    assert indexes is None
    return valid


def test_columns_are_found_at_any_position_under_our_names() -> None:
    batch = pa.record_batch({"note": ["n"], "k": ["key"], "VALUE": [b"v"]})

    assert records_of(batch, {"key": 1, "value": 2}, options=OPTIONS)[0].to_pylist() == [{"key": "key", "value": b"v"}]


def test_columns_are_not_copied() -> None:
    batch = pa.record_batch({"value": ["a", "b"]})
    [sent] = records_of(batch, {"value": 0}, options=OPTIONS)[0].columns

    assert sent.buffers()[2].address == batch.column(0).buffers()[2].address


def test_rows_keep_no_large_columns_that_are_not_sent() -> None:
    """All columns of a record batch of Spark are in one buffer; rows that wait would keep all of it."""
    batch, memory = received({"note": pa.array(["n" * 100] * 10), "value": pa.array(list("0123456789"))})
    kept, memory_kept = received({"note": pa.array(["n"] * 10), "value": pa.array(["v" * 100] * 10)})
    sent = [records_of(each, {"value": 1}, options=OPTIONS)[0] for each in (batch, kept)]
    del batch, kept

    assert sent[0].to_pylist() == [{"value": digit} for digit in "0123456789"]
    assert (memory() is None, memory_kept() is None) == (True, False)


def test_headers_that_have_all_their_offsets_are_not_copied() -> None:
    headers = pa.array([[{"key": "trace", "value": b"1"}], [{"key": "trace", "value": b""}]], HEADERS)
    sent = records(value=pa.array(["a", "b"]), headers=headers)

    assert sent.column("headers").buffers()[1].address == headers.buffers()[1].address


def test_headers_without_values_have_all_their_offsets() -> None:
    """Spark up to 4.0 leaves them out, and readers of a table by address would read the memory there."""
    keys = pa.Array.from_buffers(pa.string(), 0, [None, pa.py_buffer(b""), pa.py_buffer(b"")])
    values = pa.Array.from_buffers(pa.binary(), 0, [None, pa.py_buffer(b""), pa.py_buffer(b"")])
    pairs = pa.StructArray.from_arrays([keys, values], ["key", "value"])
    headers = pa.ListArray.from_arrays(pa.array([0, 0, 0], pa.int32()), pairs)
    sent = records(value=pa.array(["a", "b"]), headers=headers)

    assert sent.column("headers").to_pylist() == [[], []]
    assert [sent.column("headers").values.field(at).buffers()[1].size for at in (0, 1)] == [4, 4]


@pytest.mark.parametrize(
    ("column", "data", "row", "said"),
    [
        ("topic", pa.array(["a", None, None]), 12, "column 'topic' is null"),
        ("partition", pa.array([0, None, -1], pa.int32()), 13, "column 'partition' is negative"),
        (
            "timestamp",
            pa.array([datetime(1969, 12, 31, tzinfo=UTC), None, None], pa.timestamp("us", "UTC")),
            11,
            "column 'timestamp' is before 1970",
        ),
        (
            "headers",
            pa.array([None, [{"key": "a", "value": None}], [{"key": None, "value": b""}]], HEADERS),
            13,
            "column 'headers' has a null key",
        ),
        ("headers", pa.array([[], [None], None], HEADERS), 12, "column 'headers' has a null key"),
        (
            "headers",
            pa.array([None] * 9 + [[{"key": "a", "value": None}, None]] + [None] * 2, HEADERS).slice(9),
            11,
            "column 'headers' has a null key",
        ),
    ],
    ids=["topic", "partition", "timestamp", "header key", "header", "header of a slice"],
)
def test_a_wrong_cell_is_reported_with_row_and_column(column: str, data: pa.Array, row: int, said: str) -> None:
    columns = {"topic": pa.array(["t"] * 3), "value": pa.array(list("abc")), column: data}

    with pytest.raises(WriteError, match=re.escape(f"row {row} of Spark partition 3 was refused: {said}")):
        records(**columns)


def test_nullable_columns_may_contain_nulls() -> None:
    nulls = records(
        value=pa.array([None], pa.string()),
        key=pa.array([None], pa.binary()),
        partition=pa.array([None], pa.int32()),
        timestamp=pa.array([None], pa.timestamp("us", "UTC")),
        headers=pa.array([[{"key": "a", "value": None}]], HEADERS),
    )

    assert nulls.num_rows == 1
    assert size_of(nulls) == 0


def test_byte_counts_are_those_of_keys_and_values() -> None:
    assert size_of(records(value=pa.array(["grün", None]), key=pa.array([b"k", b"kk"]))) == 8
    assert size_of(records(value=pa.array(["1", "22", "333"])[1:2])) == 2


@given(st.lists(st.sampled_from(["a", "b", "c", "d"]), min_size=1, max_size=50))
def test_each_topic_gets_its_rows_in_order(topics: list[str]) -> None:
    batch = records(topic=pa.array(topics), value=pa.array([str(row) for row in range(len(topics))]))
    expected: dict[str, list[Any]] = defaultdict(list)
    for row, topic in enumerate(topics):
        expected[topic].append((row, str(row)))

    found = {
        part.topic: [
            (row if part.indexes is None else part.indexes[row].as_py(), value)
            for row, value in enumerate(part.rows.column("value").to_pylist())
        ]
        for part in by_topic(batch, topic=None, indexes=None)
    }

    assert found == expected


def test_rows_of_one_topic_are_not_copied() -> None:
    batch = records(topic=pa.array(["t", "t"]), value=pa.array(["1", "2"]))
    [part] = by_topic(batch, topic=None, indexes=None)

    assert part.rows.column("value").buffers()[2].address == batch.column("value").buffers()[2].address


def test_the_topic_option_applies_to_all_rows() -> None:
    [part] = by_topic(records(value=pa.array(["1", "2"])), topic="t", indexes=None)

    assert (part.topic, part.rows.num_rows) == ("t", 2)


PAIRS = st.lists(st.tuples(st.sampled_from("ab"), st.none() | st.binary(max_size=2)), max_size=3)


@settings(deadline=None)
@given(rows=st.lists(st.none() | PAIRS, min_size=1, max_size=5), cut=st.integers(0, 2))
def test_headers_of_a_format_take_the_place_of_those_of_the_row(rows: list[Any], cut: int) -> None:
    cut = min(cut, len(rows) - 1)
    pair = pa.struct([("key", pa.string()), ("value", pa.binary())])
    cells = [None if row is None else [dict(zip(("key", "value"), each, strict=True)) for each in row] for row in rows]
    given = pa.record_batch({"value": [b"v"] * len(rows), "headers": pa.array(cells, pa.list_(pair))}).slice(cut)
    made = with_headers(given, [("b", b"new"), ("c", None)])
    added = [{"key": "b", "value": b"new"}, {"key": "c", "value": None}]
    kept = [[each for each in row or [] if each["key"] != "b"] for row in cells[cut:]]
    assert made.column("headers").to_pylist() == [[*row, *added] for row in kept]
    assert with_headers(given.select(["value"]), [("c", None)]).column("headers").to_pylist() == [added[1:]] * len(kept)
