"""Columns without Arrow's views: the same rows, of which some can be picked."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from nested_columns import columns

from ottla.protocol.arrow_views import decoded, plain, without_views


@given(columns())
def test_rows_without_views_are_the_same_rows(column: pa.Array) -> None:
    made = plain(column)
    made.validate(full=True)

    assert made.type == without_views(column.type)
    assert made.to_pylist() == column.to_pylist()


@given(columns(), st.data())
def test_rows_without_views_can_be_picked(column: pa.Array, data: st.DataObject) -> None:
    places = data.draw(st.permutations(range(len(column))))

    assert plain(column).take(pa.array(places, pa.int32())).to_pylist() == [column.to_pylist()[at] for at in places]


@given(columns(), st.data())
def test_a_dictionary_is_decoded_to_its_rows(values: pa.Array, data: st.DataObject) -> None:
    places = st.none() | st.integers(0, len(values) - 1) if len(values) else st.none()
    column = pa.DictionaryArray.from_arrays(pa.array(data.draw(st.lists(places)), pa.int8()), values)

    assert decoded(column).to_pylist() == column.to_pylist()
