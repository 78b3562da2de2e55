"""Text of Spark that is not valid UTF-8: `cast(binary AS string)` takes any bytes, and Arrow passes them on.

It is replaced as `to_json` does: one U+FFFD for each longest part of a character, and for each surrogate.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from ottla.errors import printable
from ottla.protocol.binary_arrays import binary_array, flags

MOST_SHOWN: Final = 100
"""Characters of wrong text that a reason shows."""

_SURROGATE: Final = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
"""Java's decoder replaces one as a whole, Python's byte by byte."""

_Problems: TypeAlias = Mapping[int, str]
"""Why rows are wrong, by their places in the column."""


def with_valid_text(batch: pa.RecordBatch, positions: Iterable[int]) -> tuple[pa.RecordBatch, _Problems]:
    """Return the batch with valid text in the columns at *positions*, and the first problem of each row that had one.

    Below a null there is no problem.
    """
    problems: dict[int, str] = {}
    for at in positions if batch.num_rows else ():
        column = batch.column(at)
        valid, found = _valid(column, batch.schema.names[at])
        if valid is not column:
            columns = [*batch.columns[:at], valid, *batch.columns[at + 1 :]]
            batch = pa.RecordBatch.from_arrays(columns, names=batch.schema.names)
        problems = {**found, **problems}
    return batch, problems


def replaced(text: bytes) -> str:
    """Return text with U+FFFD for what is not valid UTF-8, as Java's decoder makes it."""
    return _SURROGATE.sub(b"\xff", text).decode(errors="replace")


def _valid(column: Any, path: str) -> tuple[Any, _Problems]:
    """The column itself if all its text is valid, else one with replacements, and the problems."""
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _valid_cells(column, path)
    if pa.types.is_struct(kind):
        return _valid_fields(column, path)
    if pa.types.is_map(kind):
        return _valid_entries(column, path)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        items = column.values
        valid, wrong = _valid(items, f"{path}[]")
        return (column, {}) if valid is items else (_with_items(column, valid), _of_rows(column, wrong))
    return column, {}


def _valid_cells(column: Any, path: str) -> tuple[Any, _Problems]:
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        raw = column.view(pa.binary() if pa.types.is_string(column.type) else pa.large_binary())
        raw.validate(full=True)  # the offsets, before a cell is read
    else:
        return column, {}
    places = pc.indices_nonzero(pc.invert(pc.string_is_ascii(column)))
    wrong = {
        place: cell
        for place, cell in zip(places.to_pylist(), raw.take(places).to_pylist(), strict=True)
        if not _is_valid(cell)
    }
    texts = binary_array([replaced(cell).encode() for cell in wrong.values()], large=pa.types.is_large_binary(raw.type))
    made = pc.replace_with_mask(raw, flags([place in wrong for place in range(len(raw))]), texts)
    return made.view(column.type), {place: _problem(path, cell) for place, cell in wrong.items()}


def _is_valid(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _problem(path: str, text: bytes) -> str:
    return f"column {path!r} is not valid UTF-8: {printable(repr(text), limit=MOST_SHOWN)}"


def _valid_fields(column: Any, path: str) -> tuple[Any, _Problems]:
    before = [column.field(place) for place in range(column.type.num_fields)]
    made: list[Any] = []
    problems: _Problems = {}
    for field, found in zip(column.type, before, strict=True):
        valid, wrong = _valid(found, f"{path}.{field.name}")
        made.append(valid)
        problems = {**wrong, **problems}
    if all(valid is found for valid, found in zip(made, before, strict=True)):
        return column, {}
    mask = column.is_null() if column.null_count else None
    there = {row: problem for row, problem in problems.items() if column[row].is_valid}
    return pa.StructArray.from_arrays(made, fields=list(column.type), mask=mask), there


def _valid_entries(column: Any, path: str) -> tuple[Any, _Problems]:
    entries = column.values
    before = entries.field(0), entries.field(1)
    keys, wrong_keys = _valid(before[0], f"{path}.key")
    items, wrong_items = _valid(before[1], f"{path}.value")
    if keys is before[0] and items is before[1]:
        return column, {}
    made = pa.StructArray.from_arrays([keys, items], fields=list(entries.type))
    return _with_items(column, made), _of_rows(column, {**wrong_items, **wrong_keys})


def _with_items(column: Any, items: Any) -> Any:
    """The lists with other items."""
    return pa.Array.from_buffers(column.type, len(column), column.buffers()[:2], offset=column.offset, children=[items])


def _of_rows(column: Any, problems: _Problems) -> _Problems:
    """The problems of lists, from those of their items."""
    ends, rows = column.offsets.to_pylist(), dict[int, str]()
    for place in sorted(problems):
        row = bisect_right(ends, place) - 1
        if 0 <= row < len(column) and column[row].is_valid:
            rows.setdefault(row, problems[place])
    return rows
