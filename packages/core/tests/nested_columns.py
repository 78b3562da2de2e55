"""Arrow arrays of types within types, with nulls and offsets, also such as pyarrow makes of no Python objects."""

from __future__ import annotations

from typing import Any, TypeAlias

import pyarrow as pa
from hypothesis import strategies as st

Cells: TypeAlias = st.SearchStrategy[Any]

TEXT = st.none() | st.text(max_size=14)
LEAVES: list[tuple[pa.DataType, Cells]] = [
    (pa.string_view(), TEXT),
    (pa.string(), TEXT),
    (pa.binary_view(), st.none() | st.binary(max_size=14)),
    (pa.int8(), st.none() | st.integers(-5, 5)),
    (pa.null(), st.none()),
]


SHAPES = ["leaf", "list", "large list", "fixed list", "list view", "large list view", "struct", "map", "dictionary"]


@st.composite
def columns(draw: st.DrawFn, size: int | None = None, depth: int = 2) -> pa.Array:
    """An array of any type within types, with nulls and an offset, of *size* rows."""
    rows = draw(st.integers(0, 6)) if size is None else size
    before = draw(st.integers(0, 2))
    return draw(arrays(before + rows, depth))[before:]


@st.composite
def arrays(draw: st.DrawFn, size: int, depth: int) -> pa.Array:
    shape = draw(st.sampled_from(SHAPES)) if depth else "leaf"
    nulls = pa.array(draw(st.lists(st.booleans(), min_size=size, max_size=size)), pa.bool_())
    match shape:
        case "leaf":
            kind, cells = draw(st.sampled_from(LEAVES))
            return pa.array(draw(st.lists(cells, min_size=size, max_size=size)), kind)
        case "fixed list":
            return pa.FixedSizeListArray.from_arrays(draw(columns(2 * size, depth - 1)), 2, mask=nulls)
        case "struct":
            return pa.StructArray.from_arrays([draw(columns(size, depth - 1))], ["a"], mask=nulls)
        case "dictionary":
            values = draw(columns(draw(st.integers(1, 4)), depth - 1))
            places = st.none() | st.integers(0, len(values) - 1)
            indices = pa.array(draw(st.lists(places, min_size=size, max_size=size)), pa.uint8())
            return pa.DictionaryArray.from_arrays(indices, values)
    sizes = draw(st.lists(st.integers(0, 2), min_size=size, max_size=size))
    offsets = [sum(sizes[:place]) for place in range(size + 1)]
    values = draw(columns(offsets[-1], depth - 1))
    match shape:
        case "map":
            keys = pa.array([f"k{place}" for place in range(len(values))], pa.string_view())
            return pa.MapArray.from_arrays(offsets, keys, values)
        case "list view":
            return pa.ListViewArray.from_arrays(offsets[:-1], sizes, values, mask=nulls)
        case "large list view":
            places = pa.array(offsets[:-1][::-1], pa.int64())  # views may be in any order
            return pa.LargeListViewArray.from_arrays(places, pa.array(sizes[::-1], pa.int64()), values, mask=nulls)
        case "large list":
            return pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), values, mask=nulls)
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values, mask=nulls)
