"""Avro rows in C read hostile and changing columns without harm: offsets are checked, and types are those expected."""

from __future__ import annotations

import itertools
import struct
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.interfaces import AvroColumn, AvroKind
from ottla_accel.avro_rows import avro_rows

pytestmark = pytest.mark.unmeasured


def changed(kind: Any, offsets: list[int], below: Any) -> Any:
    """An array whose offsets were zeros while pyarrow checked them, and are others now."""
    memory = bytearray((8 if str(kind).startswith("large_") else 4) * len(offsets))
    buffers = [None, pa.py_buffer(memory), *([below] if isinstance(below, pa.Buffer) else [])]
    children = None if isinstance(below, pa.Buffer) else [below]
    array = pa.Array.from_buffers(kind, len(offsets) - 1, buffers, children=children)
    memory[:] = struct.pack(f"={len(offsets)}{'q' if len(memory) == 8 * len(offsets) else 'i'}", *offsets)
    return array


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
@given(offsets=st.lists(st.integers(-(2**31), 2**31 - 1) | st.integers(-1, 6), min_size=2, max_size=5))
def test_offsets_outside_of_the_data_are_refused(kind: Any, offsets: list[int]) -> None:
    data = b"abcde"
    column = AvroColumn(kind=AvroKind.BYTES, array=changed(kind, offsets, pa.py_buffer(data)))
    valid = all(0 <= first <= last <= len(data) for first, last in itertools.pairwise(offsets))
    if valid:
        avro_rows(column, count=len(offsets) - 1, prefix=b"")
    else:
        with pytest.raises(ValueError, match="lie outside of its data"):
            avro_rows(column, count=len(offsets) - 1, prefix=b"")


def test_lists_that_reach_beyond_their_items_are_refused() -> None:
    items = pa.array([1, 2], pa.int64())
    lists = changed(pa.list_(pa.int64()), [0, 3], items)
    column = AvroColumn(kind=AvroKind.ARRAY, array=lists, children=[AvroColumn(kind=AvroKind.LONG, array=items)])
    with pytest.raises(ValueError, match="lie outside of its data"):
        avro_rows(column, count=1, prefix=b"")


@pytest.mark.parametrize(
    "column",
    [
        AvroColumn(kind=AvroKind.LONG, array=pa.array([1, 2], pa.int32())),
        AvroColumn(kind=AvroKind.INT, array=pa.array([1, 2], pa.int64())),
        AvroColumn(kind=AvroKind.BYTES, array=pa.array([1, 2])),
        AvroColumn(kind=AvroKind.BOOLEAN, array=pa.array([1, 2])),
        AvroColumn(kind=AvroKind.FIXED, array=pa.array([b"1", b"2"])),
        AvroColumn(kind=AvroKind.DECIMAL, array=pa.array([b"1", b"2"])),
        AvroColumn(kind=AvroKind.ARRAY, array=pa.array([[1], [2]])),
        AvroColumn(kind=AvroKind.RECORD, array=pa.array([1, 2])),
        AvroColumn(kind=AvroKind.LONG, array=pa.array([1])),
        AvroColumn(kind=AvroKind.LONG, array=pa.array([1, 2]), children=[AvroColumn(kind=AvroKind.CONSTANT)]),
        AvroColumn(kind=AvroKind.ENUM, array=pa.array(["a", "b"])),
        AvroColumn(
            kind=AvroKind.RECORD,
            array=pa.array([{"a": 1}, {"a": 2}]),
            children=[AvroColumn(kind=AvroKind.LONG, array=pa.array([1]))],
        ),
    ],
)
def test_a_column_of_another_type_or_length_is_refused(column: AvroColumn) -> None:
    with pytest.raises(ValueError, match=r"."):
        avro_rows(column, count=2, prefix=b"")


def test_columns_of_any_depth_end_in_an_error() -> None:
    column = AvroColumn(kind=AvroKind.CONSTANT)
    kind = pa.struct([("a", pa.int64())])
    for _ in range(150):
        column = AvroColumn(kind=AvroKind.RECORD, array=pa.array([{"a": 1}], kind), children=[column])
    with pytest.raises(ValueError, match="nested more than 100 levels"):
        avro_rows(column, count=1, prefix=b"")


@given(count=st.integers(0, 20), size=st.integers(0, 3000), start=st.integers(0, 3))
def test_rows_of_any_length_fit(count: int, size: int, start: int) -> None:
    long = pa.array(["x" * size] * (count + start), pa.string()).slice(start)
    offsets, content = avro_rows(AvroColumn(kind=AvroKind.BYTES, array=long), count=count, prefix=b"p")
    ends = memoryview(offsets).cast("B").cast("i").tolist()
    assert len(bytes(content)) == ends[-1] == count * (1 + size + (1 if size < 64 else 2))


@given(st.lists(st.integers(-(10**38) + 1, 10**38 - 1)))
def test_decimals_are_as_short_as_can_be(numbers: list[int]) -> None:
    array = pa.array(numbers, pa.decimal128(38, 0)) if numbers else pa.array([], pa.decimal128(38, 0))
    offsets, content = avro_rows(AvroColumn(kind=AvroKind.DECIMAL, array=array), count=len(numbers), prefix=b"")
    ends, made = memoryview(offsets).cast("B").cast("i").tolist(), bytes(content)
    for number, (first, last) in zip(numbers, itertools.pairwise(ends), strict=True):
        size = (number if number >= 0 else ~number).bit_length() // 8 + 1
        assert made[first:last] == bytes([2 * size]) + number.to_bytes(size, "big", signed=True)


@given(st.lists(st.integers(-(10**38) + 1, 10**38 - 1)))
def test_fixed_decimals_have_their_sign_in_front(numbers: list[int]) -> None:
    array = pa.array(numbers, pa.decimal128(38, 0)) if numbers else pa.array([], pa.decimal128(38, 0))
    column = AvroColumn(kind=AvroKind.FIXED_DECIMAL, array=array, size=20)
    _offsets, content = avro_rows(column, count=len(numbers), prefix=b"")
    assert bytes(content) == b"".join(number.to_bytes(20, "big", signed=True) for number in numbers)
