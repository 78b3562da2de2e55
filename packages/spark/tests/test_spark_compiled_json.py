"""Rows as JSON by the encoder that can: readers find what pyarrow's way would have told them."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla_accel.json_rows import objects as compiled
from ottla_spark.columns import ValueFormat
from ottla_spark.compiled_json import Json, json_rows
from ottla_spark.records import RowPlace, records_of

TEXT = st.text(st.characters(blacklist_categories=["Cs"]), max_size=6)
INNER = pa.struct({"whole": pa.int64(), "text": pa.string(), "decimal": pa.decimal128(9, 2)})
KIND = pa.struct(
    {
        "number": pa.float64(),
        "single": pa.float32(),
        "truth": pa.bool_(),
        "bytes": pa.binary(),
        "many": pa.list_(INNER),
        "pairs": pa.map_(pa.string(), pa.int32()),
        "inner": INNER,
    }
)
WHOLE = st.integers(-(2**63), 2**63 - 1)
SMALL = st.integers(-(2**31), 2**31 - 1)
SINGLE = st.floats(width=32)
MONEY = st.decimals(-9999, 9999, places=2)

inner = st.none() | st.fixed_dictionaries(
    {"whole": st.none() | WHOLE, "text": st.none() | TEXT, "decimal": st.none() | MONEY}
)
rows_of_all_kinds = st.lists(
    st.none()
    | st.fixed_dictionaries(
        {
            "number": st.none() | st.floats(),
            "single": st.none() | SINGLE,
            "truth": st.none() | st.booleans(),
            "bytes": st.none() | st.binary(max_size=4),
            "many": st.none() | st.lists(inner, max_size=2),
            "pairs": st.none() | st.dictionaries(TEXT, SMALL, max_size=2).map(lambda pairs: list(pairs.items())),
            "inner": inner,
        }
    ),
    max_size=6,
)


def read(column: Any) -> list[Any]:
    return [None if text is None else json.loads(text) for text in column.to_pylist()]


@given(rows=rows_of_all_kinds, start=st.integers(0, 6))
@settings(max_examples=150, deadline=None)
def test_structs_are_written_as_pyarrow_would(rows: list[Any], start: int) -> None:
    column = pa.array(rows, KIND)[start:]
    names = [KIND.field(place).name for place in range(KIND.num_fields)]
    fields = [column.field(place) for place in range(KIND.num_fields)]

    assert Json(compiled).texts(column).to_pylist() == Json(None).texts(column).to_pylist()
    assert read(Json(compiled).objects(names, fields, count=len(column))) == read(
        Json(None).objects(names, fields, count=len(column))
    )


def test_what_is_no_struct_is_written_as_ever() -> None:
    column = pa.array([[1, None], None])

    assert Json(compiled).texts(column).to_pylist() == ["[1,null]", None]


def test_rows_without_fields_are_empty_objects() -> None:
    assert Json(compiled).objects([], [], count=2).to_pylist() == ["{}", "{}"]


def test_the_encoder_that_is_asked_for_writes_rows_if_it_can() -> None:
    assert json_rows(None) is compiled
    assert json_rows("Native") is compiled
    assert json_rows("python") is None
    assert json_rows("of nobody") is None


@pytest.mark.parametrize("encoder", [None, "native", "python"])
def test_values_are_the_same_with_every_encoder(encoder: str | None) -> None:
    batch = pa.record_batch({"id": [1, 2], "key": ["a", "b"], "price": [0.25, None]})
    records = records_of(
        batch,
        {"key": 1},
        place=RowPlace(task="a task", rows_before=0),
        value_format=ValueFormat.JSON,
        encoder=encoder,
    )

    assert records.column("value").to_pylist() == ['{"id":1,"price":0.25}', '{"id":2}']
    assert records.column("key").to_pylist() == ["a", "b"]
