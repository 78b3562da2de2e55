"""Conversion of a table's rows to batches without a loop over them in Python: each step is a call for a whole column.

Rows are sorted by partition. The fields around keys and values come from tables of varints, and one join makes the
bytes of all batches. Only the batches are processed in a loop.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal

import pyarrow as pa
import pyarrow.compute as pc

from ottla.interfaces import Cut, Facts, TableRows
from ottla.protocol.primitives import varint
from ottla.recordbatch.arrow_varints import sums, varints, varints_up_to
from ottla.recordbatch.binary_arrays import binary_array
from ottla.recordbatch.finished_columns import FinishedColumns
from ottla.recordbatch.number_columns import Constant

FRAME: Final = 31
"""The maximum bytes of a record besides its key, value and headers: six varints and a byte."""

UNASSIGNED: Final = -1

_NOTHING: Final = binary_array([b""])[0]
_ZERO: Final = binary_array([b"\0"])[0]
"""The byte for no attributes, and the byte for no headers."""

_ZEROS: Final = binary_array([b"\0\0"])[0]
"""No attributes, and a timestamp delta of 0."""

_NULL: Final = binary_array([varint(-1)])[0]


def cut_rows(rows: TableRows, partitions: Any | None, *, max_bytes: int) -> Iterator[Cut]:
    """The rows in batches of at most *max_bytes* bytes of records, or of one row; rows of a partition stay in order.

    *partitions* is an int32 array, or None if all rows are UNASSIGNED; these stay in order.
    """
    if not rows.count:
        return
    order, runs = _order(partitions, rows.count)
    if order is not None:
        rows = _taken(rows, order)
    keys, values, headers = map(_binary, (rows.keys, rows.values, rows.headers))
    bounds = _bounds(rows.count, keys, values, headers)
    batches = list(_batches(runs, bounds, max_bytes))
    starts = [start for _partition, start, _stop in batches]
    stops = [stop for _partition, _start, stop in batches]
    joined, key_sizes, value_sizes = _joined(rows, keys, values, headers, starts, stops)
    offsets, content = _view(joined, 1, "i"), memoryview(joined.buffers()[2])
    indexes = _view(order, 1, "i") if order is not None else None
    for partition, start, stop in batches:
        columns = FinishedColumns(
            # A copy, because a slice would keep the bytes of all batches in memory.
            bytes(content[offsets[start] : offsets[stop]]),
            count=stop - start,
            first_timestamp=rows.now_ms if rows.timestamps is None else rows.timestamps[start].as_py(),
            highest_timestamp=_highest_timestamp(rows, start, stop),
            facts=Facts(
                _timestamps(rows, start, stop),
                None if key_sizes is None else _sizes(key_sizes, start, stop),
                _sizes(value_sizes, start, stop),
            ),
        )
        yield Cut(
            partition, range(start, stop) if indexes is None else array("i", indexes[start:stop].tobytes()), columns
        )


def _order(partitions: Any | None, count: int) -> tuple[Any | None, Sequence[tuple[int, int, int]]]:
    """The indexes of the rows by partition, None for the given order; and the runs: partition, start, stop."""
    if partitions is None:
        return None, [(UNASSIGNED, 0, count)]
    order = pc.array_sort_indices(partitions).cast(pa.int32())  # a stable sort
    runs = pc.run_end_encode(partitions.take(order))
    ends = runs.run_ends.to_pylist()
    return order, list(zip(runs.values.to_pylist(), [0, *ends[:-1]], ends, strict=True))


def _taken(rows: TableRows, order: Any) -> TableRows:
    def take(column: Any | None) -> Any | None:
        return None if column is None else column.take(order)

    return TableRows(
        count=rows.count,
        now_ms=rows.now_ms,
        keys=take(rows.keys),
        values=take(rows.values),
        headers=take(rows.headers),
        timestamps=take(rows.timestamps),
    )


def _binary(column: Any | None) -> Any | None:
    return None if column is None else column.cast(pa.binary())


def _bounds(count: int, *columns: Any | None) -> Sequence[int]:
    """Cumulative maximum sizes of the rows."""
    return _view(pc.cumulative_sum(pc.add(sums(count, columns), FRAME)), 1, "q")


def _batches(
    runs: Sequence[tuple[int, int, int]], bounds: Sequence[int], max_bytes: int
) -> Iterator[tuple[int, int, int]]:
    for partition, start, end in runs:
        while start < end:
            before = bounds[start - 1] if start else 0
            stop = max(bisect_right(bounds, before + max_bytes, start, end), start + 1)
            yield partition, start, stop
            start = stop


def _joined(
    rows: TableRows, keys: Any | None, values: Any | None, headers: Any | None, starts: list[int], stops: list[int]
) -> tuple[Any, Any | None, Any]:
    """All records as one binary array, and the sizes of keys and values."""
    count = rows.count
    key_sizes = None if keys is None else pc.fill_null(pc.binary_length(keys), -1)
    value_sizes = pa.repeat(pa.scalar(-1, pa.int32()), count)
    if values is not None:
        value_sizes = pc.fill_null(pc.binary_length(values), -1)
    parts = [_ZEROS] if rows.timestamps is None else [_ZERO, _deltas(rows.timestamps, starts, stops)]
    parts.append(pa.concat_arrays([varints_up_to(stop - start) for start, stop in zip(starts, stops, strict=True)]))
    parts += (*_part(keys, key_sizes), *_part(values, value_sizes), _ZERO if headers is None else headers)
    sizes = sums(count, parts)
    joined = pc.binary_join_element_wise(
        varints(sizes), *parts, _NOTHING, null_handling="replace", null_replacement=b""
    )
    return joined, key_sizes, value_sizes


def _deltas(timestamps: Any, starts: list[int], stops: list[int]) -> Any:
    """The varints of the timestamp deltas in each batch."""
    first_timestamps = timestamps.take(pa.array(starts, pa.int64()))
    return varints(pc.subtract(timestamps, _decoded(first_timestamps, stops)))


def _part(column: Any | None, sizes: Any) -> list[Any]:
    return [_NULL] if column is None else [varints(sizes), column]


def _decoded(column: Any, stops: list[int]) -> Any:
    """Expand *column*, which has one entry for each run of rows, to one for each row; *stops* are the runs' ends."""
    return pc.run_end_decode(pa.RunEndEncodedArray.from_arrays(pa.array(stops, pa.int32()), column))


def _view(column: Any, buffer: int, code: Literal["i", "q"]) -> memoryview:
    """The numbers in one buffer of a column, from its offset on."""
    width = array(code).itemsize
    more = 1 if pa.types.is_binary(column.type) else 0
    raw = memoryview(column.buffers()[buffer]).cast("B")
    return raw[column.offset * width : (column.offset + len(column) + more) * width].cast(code)


def _timestamps(rows: TableRows, start: int, stop: int) -> Sequence[int]:
    if rows.timestamps is None:
        return Constant(rows.now_ms, stop - start)
    return array("q", _view(rows.timestamps, 1, "q")[start:stop].tobytes())


def _highest_timestamp(rows: TableRows, start: int, stop: int) -> int:
    if rows.timestamps is None:
        return rows.now_ms
    highest: int = pc.max(rows.timestamps.slice(start, stop - start)).as_py()
    return highest


def _sizes(column: Any, start: int, stop: int) -> Sequence[int]:
    return array("i", _view(column, 1, "i")[start:stop].tobytes())
