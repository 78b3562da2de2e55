"""Conversion of a table's rows to batches without a loop over them in Python: each step is a call for a whole column.

Rows are sorted by partition. The fields around keys and values come from tables of varints, and one join makes the
bytes of all batches. Only the batches are processed in a loop.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Literal, TypeAlias

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from ottla.interfaces import Cut, Facts, TableRows
from ottla.protocol.binary_arrays import binary_array, number, numbers
from ottla.protocol.primitives import varint
from ottla.recordbatch.arrow_varints import sums, varints, varints_up_to
from ottla.recordbatch.finished_columns import FinishedColumns
from ottla.recordbatch.number_columns import Constant
from ottla.recordbatch.record_limits import MAX_FRAME

UNASSIGNED: Final = -1

ENCODED_AT_ONCE: Final = 2 * 1024 * 1024
"""About how many bytes of records go through the steps together: these need some five times as much memory."""

_Range: TypeAlias = tuple[int, int, int]
"""A partition, and the first and the last place, exclusive, of rows for it in their order."""

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
    rows = _each_column(rows, _binary)
    bounds = _bounds(rows, order)
    for some in _groups(list(_batches(runs, bounds, max_bytes)), bounds):
        yield from _encoded(rows, order, some)


def _encoded(rows: TableRows, order: Any | None, batches: Sequence[_Range]) -> Iterator[Cut]:
    """The cuts of batches that follow each other."""
    first, count = batches[0][1], batches[-1][2] - batches[0][1]
    indexes = None if order is None else order.slice(first, count)
    rows = _each_column(rows, lambda column: column.slice(first, count) if indexes is None else column.take(indexes))
    rows = attrs.evolve(rows, count=count)
    starts = [start - first for _partition, start, _stop in batches]
    stops = [stop - first for _partition, _start, stop in batches]
    joined, key_sizes, value_sizes = _joined(rows, starts, stops)
    offsets, content = _view(joined, 1, "i"), memoryview(joined.buffers()[2])
    places = None if indexes is None else _view(indexes, 1, "i")
    for (partition, _start, _stop), start, stop in zip(batches, starts, stops, strict=True):
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
        taken = range(first + start, first + stop) if places is None else array("i", places[start:stop].tobytes())
        yield Cut(partition, taken, columns)


def _groups(batches: Sequence[_Range], bounds: Sequence[int]) -> Iterator[Sequence[_Range]]:
    """Batches that are encoded together: of some `ENCODED_AT_ONCE` bytes, or one."""
    group: list[_Range] = []
    end = ENCODED_AT_ONCE
    for batch in batches:
        if group and bounds[batch[2] - 1] > end:
            yield group
            group = []
        if not group:
            end = (bounds[batch[1] - 1] if batch[1] else 0) + ENCODED_AT_ONCE
        group.append(batch)
    yield group


def _order(partitions: Any | None, count: int) -> tuple[Any | None, Sequence[_Range]]:
    """The indexes of the rows by partition, None for the given order; and the runs: partition, start, stop."""
    if partitions is None:
        return None, [(UNASSIGNED, 0, count)]
    order = pc.array_sort_indices(partitions).cast(pa.int32())  # a stable sort
    runs = pc.run_end_encode(partitions.take(order))
    ends = runs.run_ends.to_pylist()
    return order, list(zip(runs.values.to_pylist(), [0, *ends[:-1]], ends, strict=True))


def _each_column(rows: TableRows, change: Callable[[Any], Any]) -> TableRows:
    """The rows with each column that they have replaced by what *change* makes of it."""

    def changed(column: Any | None) -> Any | None:
        return None if column is None else change(column)

    return TableRows(
        count=rows.count,
        now_ms=rows.now_ms,
        keys=changed(rows.keys),
        values=changed(rows.values),
        headers=changed(rows.headers),
        timestamps=changed(rows.timestamps),
    )


def _binary(column: Any) -> Any:
    return column.cast(pa.binary()) if pa.types.is_large_binary(column.type) else column


def _bounds(rows: TableRows, order: Any | None) -> Sequence[int]:
    """Cumulative maximum sizes of the rows, in the order of the batches."""
    sizes = sums(rows.count, [rows.keys, rows.values, rows.headers])
    return _view(
        pc.cumulative_sum(pc.add(sizes if order is None else sizes.take(order), number(MAX_FRAME, pa.int64()))), 1, "q"
    )


def _batches(runs: Sequence[_Range], bounds: Sequence[int], max_bytes: int) -> Iterator[_Range]:
    for partition, start, end in runs:
        while start < end:
            before = bounds[start - 1] if start else 0
            stop = max(bisect_right(bounds, before + max_bytes, start, end), start + 1)
            yield partition, start, stop
            start = stop


def _joined(rows: TableRows, starts: list[int], stops: list[int]) -> tuple[Any, Any | None, Any]:
    """All records as one binary array, and the sizes of keys and values."""
    count, keys, values, headers = rows.count, rows.keys, rows.values, rows.headers
    minus_one = number(-1, pa.int32())
    key_sizes = None if keys is None else pc.fill_null(pc.binary_length(keys), minus_one)
    value_sizes = pa.repeat(minus_one, count)
    if values is not None:
        value_sizes = pc.fill_null(pc.binary_length(values), minus_one)
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
    first_timestamps = timestamps.take(numbers(starts, pa.int64()))
    return varints(pc.subtract(timestamps, _decoded(first_timestamps, stops)))


def _part(column: Any | None, sizes: Any) -> list[Any]:
    return [_NULL] if column is None else [varints(sizes), column]


def _decoded(column: Any, stops: list[int]) -> Any:
    """Expand *column*, which has one entry for each run of rows, to one for each row; *stops* are the runs' ends."""
    return pc.run_end_decode(pa.RunEndEncodedArray.from_arrays(numbers(stops, pa.int32()), column))


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
