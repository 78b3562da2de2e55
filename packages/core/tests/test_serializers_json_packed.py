"""Dictionaries, runs and extension types as JSON: the text of what they stand for, with nulls and in slices."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nested_columns import columns

from ottla.plugins.serializers.json import JsonSerializer
from ottla.plugins.serializers.json_columns import JsonRows, problem, texts
from ottla_accel.json_rows import objects as compiled

BOTH = pytest.mark.parametrize("rows", [None, compiled], ids=["pyarrow", "compiled"])


def uuids(cells: list[UUID | None]) -> pa.Array:
    return pa.ExtensionArray.from_storage(pa.uuid(), pa.array([cell and cell.bytes for cell in cells], pa.binary(16)))


def field(column: pa.Array, rows: JsonRows | None) -> list[Any]:
    """What readers find in the field of an object that has this column."""
    assert problem(column.type) is None
    made = texts(pa.StructArray.from_arrays([column], ["c"]), rows=rows).to_pylist()
    return [json.loads(text).get("c") for text in made]


@BOTH
@given(cells=st.lists(st.none() | st.uuids(), max_size=6), start=st.integers(0, 2))
def test_a_uuid_has_the_text_of_send(rows: JsonRows | None, cells: list[UUID | None], start: int) -> None:
    expected = [cell and JsonSerializer().serialize("t", cell, ()) for cell in cells[start:]]
    found = texts(uuids(cells)[start:], rows=rows).to_pylist()
    assert [text and text.encode() for text in found] == expected
    assert field(uuids(cells)[start:], rows) == [cell and str(cell) for cell in cells[start:]]


def test_send_takes_a_uuid_as_field_and_as_name() -> None:
    sent = JsonSerializer().serialize("t", {UUID(int=1): [UUID(int=2)]}, ())
    assert sent == b'{"00000000-0000-0000-0000-000000000001":["00000000-0000-0000-0000-000000000002"]}'


@BOTH
@given(data=st.data())
def test_a_run_has_the_text_of_its_value_in_each_row(rows: JsonRows | None, data: st.DataObject) -> None:
    lengths = data.draw(st.lists(st.integers(1, 3), max_size=4))
    values = data.draw(columns(len(lengths)))
    ends = [sum(lengths[: place + 1]) for place in range(len(lengths))]
    width = data.draw(st.sampled_from([pa.int16(), pa.int32(), pa.int64()]))
    runs = pa.RunEndEncodedArray.from_arrays(pa.array(ends, width), values)
    start = data.draw(st.integers(0, len(runs)))

    each = [
        text for text, length in zip(texts(values, rows=rows).to_pylist(), lengths, strict=True) for _ in range(length)
    ]
    assert texts(runs[start:], rows=rows).to_pylist() == each[start:]


@BOTH
@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1, 0, None, -1], pa.int8())), [True, False, None, True]),
        (pa.array(['{"x":1}', None], pa.json_()), ['{"x":1}', None]),
        (pa.ExtensionArray.from_storage(pa.opaque(pa.int32(), "t", "v"), pa.array([7, None], pa.int32())), [7, None]),
        (
            pa.DictionaryArray.from_arrays(pa.array([1, None, 0]), uuids([None, UUID(int=1)])),
            [str(UUID(int=1)), None, None],
        ),
        (
            pa.ListArray.from_arrays(pa.array([0, 2], pa.int32()), uuids([UUID(int=1), None])),
            [[str(UUID(int=1)), None]],
        ),
        (
            pa.RunEndEncodedArray.from_arrays(
                pa.array([2, 3], pa.int32()), pa.DictionaryArray.from_arrays(pa.array([0, None]), pa.array(["a"]))
            ),
            ["a", "a", None],
        ),
    ],
    ids=["bool8", "json", "opaque", "dictionary", "list", "runs of a dictionary"],
)
def test_an_extension_type_is_written_as_what_it_stores(
    rows: JsonRows | None, column: pa.Array, expected: list[Any]
) -> None:
    assert field(column, rows) == expected
