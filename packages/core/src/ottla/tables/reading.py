"""Reading of a table in chunks: small batches joined, large ones cut, columns converted to the types of encoders.

At most one chunk of a stream is held at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from ottla.errors import InvalidRecordError
from ottla.recordbatch.objects import TIMESTAMP_MAX
from ottla.tables.columns import ColumnChoice
from ottla.tables.headers import header_sections
from ottla.tables.private_copy import private_copy
from ottla.tables.slicing import cut

_MS: Final = {"s": 1_000, "ms": 1, "us": 1_000, "ns": 1_000_000}
"""Milliseconds in a second; for smaller units, how many of them are in a millisecond."""


@attrs.frozen(kw_only=True)
class Chunk:
    """Some rows, each column one array or None; `bad_headers` and `bad_times` are true where these are invalid."""

    count: int
    keys: Any | None
    values: Any | None
    headers: Any | None
    partitions: Any | None
    timestamps: Any | None
    bad_headers: Any | None
    bad_times: Any | None

    def take(self, rows: Sequence[int]) -> Chunk:
        """Return a chunk with these rows."""
        indexes = pa.array(rows, pa.int32())
        columns = {
            name: None if (column := getattr(self, name)) is None else column.take(indexes) for name in _columns()
        }
        return Chunk(count=len(rows), **columns)


def _columns() -> Sequence[str]:
    return [name for name in attrs.fields_dict(Chunk) if name != "count"]


def open_stream(table: Any) -> Any:
    """Open a pyarrow reader of anything with the Arrow C stream or array interface. Raises InvalidRecordError."""
    if hasattr(table, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(table)
    if hasattr(table, "__arrow_c_array__"):
        batch = pa.record_batch(table)
        return pa.RecordBatchReader.from_batches(batch.schema, [batch])
    raise InvalidRecordError(
        f"a table is anything with __arrow_c_stream__, as pyarrow, polars, pandas 2.2 and duckdb have it, not "
        f"{type(table).__name__}"
    )


def chunks(reader: Any, choice: ColumnChoice, *, min_bytes: int, max_bytes: int) -> Iterator[Chunk]:
    """Yield the rows in chunks of at least *min_bytes* bytes, unless the stream ends, and about *max_bytes* at most."""
    gathered: list[Chunk] = []
    size = 0
    try:
        for batch in reader:
            for part, part_size in cut(batch.select(_selected(choice)), max_bytes):
                gathered.append(_chunk(part, choice))
                size += part_size
                if size >= min_bytes:
                    yield _joined(gathered)
                    gathered, size = [], 0
    except Exception:  # of the stream: rows read before it are sent
        if gathered:
            yield _joined(gathered)
        raise
    if gathered:
        yield _joined(gathered)


def _selected(choice: ColumnChoice) -> list[int]:
    return [place for place in attrs.astuple(choice, recurse=False) if place is not None]


def _chunk(batch: Any, choice: ColumnChoice) -> Chunk:
    places = iter(range(batch.num_columns))

    def column(place: int | None) -> Any | None:
        if place is None:
            return None
        found = batch.column(next(places))
        return None if pa.types.is_null(found.type) else private_copy(found)

    values, keys = _bytes(column(choice.value)), _bytes(column(choice.key))
    headers = _checked(column(choice.headers))
    partitions = _checked(column(choice.partition))
    times = _checked(column(choice.timestamp))
    sections = None if headers is None else header_sections(headers)
    nameless = sections is not None and sections.null_count
    timestamps, bad_times = (None, None) if times is None else _milliseconds(times)
    return Chunk(
        count=batch.num_rows,
        keys=keys,
        values=values,
        headers=pc.fill_null(sections, b"\0") if nameless else sections,
        partitions=None if partitions is None else _int64(partitions),
        timestamps=timestamps,
        bad_headers=pc.is_null(sections) if nameless else None,
        bad_times=bad_times,
    )


def _checked(column: Any | None) -> Any | None:
    """Check a column, which may come from any source, in full: later copies of rows check only its offsets."""
    if column is not None:
        column.validate(full=True)
    return column


def _bytes(column: Any | None) -> Any | None:
    """Convert a column to binary or large_binary, without a needless copy; its offsets are checked."""
    if column is None:
        return None
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _looked_up(column)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        column.validate()
        column = column.view(pa.binary() if pa.types.is_string(kind) else pa.large_binary())  # may be invalid UTF-8
    _checked(column)
    return (
        column if pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type) else column.cast(pa.binary())
    )


def _looked_up(column: Any) -> Any:
    """Decode a dictionary column, with its indices checked."""
    column.validate()
    values: Any = _bytes(column.dictionary)
    return values.take(_checked(column.indices))


def _int64(column: Any) -> Any:
    """Convert any integers to int64; uint64 values that are too large become -1, which is refused as well."""
    if not pa.types.is_uint64(column.type):
        return column.cast(pa.int64())
    return pc.if_else(
        pc.greater(column, pa.scalar(TIMESTAMP_MAX, pa.uint64())), -1, column.cast(pa.int64(), safe=False)
    )


def _milliseconds(column: Any) -> tuple[Any, Any | None]:
    """Convert times to whole milliseconds, null to null; and where they are negative or too large, None: nowhere."""
    kind = column.type
    raw = _int64(column.cast(pa.int64()) if pa.types.is_timestamp(kind) else column)
    seconds = pa.types.is_timestamp(kind) and kind.unit == "s"
    maximum = TIMESTAMP_MAX // 1_000 if seconds else TIMESTAMP_MAX
    lowest, highest = pc.min_max(raw).as_py().values()
    bad = None
    if lowest is not None and not 0 <= lowest <= highest <= maximum:
        bad = pc.fill_null(pc.or_(pc.less(raw, 0), pc.greater(raw, maximum)), False)
        raw = pc.if_else(bad, 0, raw)
    if pa.types.is_timestamp(kind) and kind.unit != "ms":
        raw = (pc.multiply if seconds else pc.divide)(raw, _MS[kind.unit])
    return raw, bad


def _joined(parts: list[Chunk]) -> Chunk:
    if len(parts) == 1:
        return parts[0]
    columns = {name: _concatenated([(getattr(part, name), part.count) for part in parts]) for name in _columns()}
    return Chunk(count=sum(part.count for part in parts), **columns)


def _concatenated(columns: list[tuple[Any | None, int]]) -> Any | None:
    """Concatenate a column of several chunks; None stands for a chunk that has no such column, or nothing bad."""
    kinds = {column.type for column, _count in columns if column is not None}
    if not kinds:
        return None
    [kind] = kinds
    filler = pa.scalar(False if pa.types.is_boolean(kind) else None, kind)
    return pa.concat_arrays([pa.repeat(filler, count) if column is None else column for column, count in columns])
