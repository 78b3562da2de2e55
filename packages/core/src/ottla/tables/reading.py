"""Reading of a table in chunks: small batches joined, large ones cut, columns converted to the types of encoders.

At most one chunk of a stream is held at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from ottla.protocol.binary_arrays import binary_array, flags, numbers
from ottla.tables.columns import ColumnChoice
from ottla.tables.conversion import checked, to_bytes, to_int64, to_milliseconds
from ottla.tables.headers import header_sections
from ottla.tables.private_copy import private_copy
from ottla.tables.slicing import cut


@attrs.frozen(kw_only=True)
class Chunk:
    """Some rows, each column one array or None. `bad_headers` and `bad_times` are true for rows with invalid ones."""

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
        indexes = numbers(rows, pa.int32())
        columns = {
            name: None if (column := getattr(self, name)) is None else column.take(indexes) for name in _columns()
        }
        return Chunk(count=len(rows), **columns)


_NO_HEADERS: Final = binary_array([b"\0"])[0]
"""The encoded headers of a row without any."""

_GOOD: Final = flags([False])[0]

_FILLERS: Final[Mapping[str, Any]] = {"headers": _NO_HEADERS, "bad_headers": _GOOD, "bad_times": _GOOD}
"""The cells of a column for rows that have none; null in others."""


def _columns() -> Sequence[str]:
    return [name for name in attrs.fields_dict(Chunk) if name != "count"]


def chunks(reader: Any, choice: ColumnChoice, *, is_enough: Callable[[int], bool], max_bytes: int) -> Iterator[Chunk]:
    """Yield the rows in chunks that are joined of parts of at most about *max_bytes* bytes.

    A chunk ends once *is_enough* returns True for the bytes of its parts, or the stream ends. A column of headers may
    be binary: sections that `header_sections` has encoded.
    """
    gathered: list[Chunk] = []
    size = 0
    try:
        for batch in reader:
            for part, part_size in cut(batch.select(_selected(choice)), max_bytes):
                gathered.append(_chunk(part, choice))
                size += part_size
                if is_enough(size):
                    chunk = [_joined(gathered)]
                    gathered, size = [], 0
                    yield chunk.pop()  # so that nothing here holds it, or its parts, while the caller has it
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

    values, keys = to_bytes(column(choice.value)), to_bytes(column(choice.key))
    headers = checked(column(choice.headers), "headers")
    partitions = checked(column(choice.partition), "partitions")
    times = checked(column(choice.timestamp), "timestamps")
    sections = headers if headers is None or pa.types.is_binary(headers.type) else header_sections(headers)
    nameless = sections is not None and sections.null_count
    timestamps, bad_times = (None, None) if times is None else to_milliseconds(times)
    return Chunk(
        count=batch.num_rows,
        keys=keys,
        values=values,
        headers=pc.fill_null(sections, _NO_HEADERS) if nameless else sections,
        partitions=None if partitions is None else to_int64(partitions),
        timestamps=timestamps,
        bad_headers=pc.is_null(sections) if nameless else None,
        bad_times=bad_times,
    )


def _joined(parts: list[Chunk]) -> Chunk:
    if len(parts) == 1:
        return parts[0]
    columns = {
        name: _concatenated([(getattr(part, name), part.count) for part in parts], filler=_FILLERS.get(name))
        for name in _columns()
    }
    return Chunk(count=sum(part.count for part in parts), **columns)


def _concatenated(columns: list[tuple[Any | None, int]], *, filler: Any) -> Any | None:
    """Concatenate a column of several chunks. A chunk for which it is None gets *filler*s."""
    kinds = {column.type for column, _count in columns if column is not None}
    if not kinds:
        return None
    [kind] = kinds
    return pa.concat_arrays([_filled(count, kind, filler) if column is None else column for column, count in columns])


def _filled(count: int, kind: Any, filler: Any) -> Any:
    return pa.nulls(count, kind) if filler is None else pa.repeat(filler.cast(kind), count)
