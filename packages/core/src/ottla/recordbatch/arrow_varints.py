"""Varints, and sizes, of whole columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from ottla.protocol.binary_arrays import binary_array, number
from ottla.protocol.primitives import VARINT, varint

_VARINTS: Final = binary_array([varint(-1), *VARINT])
"""The varints of -1 and up, so that it includes the size of null."""

_offsets = _VARINTS.slice(1, 4096)


def varints_up_to(count: int) -> Any:
    """The varints of 0, 1, 2 .. *count* - 1."""
    global _offsets
    known = _offsets  # two threads that extend it together do the same work twice
    if count > len(known):
        _offsets = known = binary_array([*map(varint, range(max(count, 2 * len(known))))])
    return known.slice(0, count)


def varints(column: Any) -> Any:
    """The varint of each number, from a table if all are small; a scalar if all numbers are equal."""
    if not len(column):
        return binary_array([])
    span = pc.min_max(column).as_py()
    if span["min"] == span["max"]:
        return binary_array([varint(span["min"])])[0]
    if span["min"] >= -1 and span["max"] < len(VARINT):
        return _VARINTS.take(pc.add(column, number(1, column.type)))
    found = column.dictionary_encode()
    return binary_array([varint(number) for number in found.dictionary.to_pylist()]).take(found.indices)


def sums(count: int, parts: Sequence[Any | None]) -> Any:
    """The total bytes of all parts by row; null and None have no bytes, a scalar is part of each row."""
    sizes, same = pa.Array.from_buffers(pa.int64(), count, [None, pa.py_buffer(bytes(8 * count))]), 0
    for part in parts:
        if part is None:
            continue
        lengths = pc.binary_length(part)
        if isinstance(part, pa.Scalar):
            same += lengths.as_py()
        else:
            sizes = pc.add(sizes, pc.fill_null(lengths, number(0, lengths.type)))
    return pc.add(sizes, number(same, pa.int64()))
