"""Encoding of a column of header lists, as they stand at the end of each record, without a loop over the rows."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from ottla.interfaces import Header
from ottla.protocol.binary_arrays import binary_array, list_offsets, nullable_binary_array, number, numbers, strings
from ottla.protocol.primitives import varint
from ottla.recordbatch.arrow_varints import varints

PAIR: Final = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
"""A header in a list of `header_lists`."""

_NOTHING: Final = binary_array([b""])[0]


def header_sections(column: Any, added: Sequence[Header] = ()) -> Any:
    """Encode the headers of each row of a list or map column, and those *added* to each; null means no headers.

    The result is null where a header has no name: the row cannot be a record.
    """
    counts, pairs = _parts(column)
    names = pc.struct_field(pairs, 0).cast(pa.binary())
    contents = pc.struct_field(pairs, 1).cast(pa.binary())
    each = pc.binary_join_element_wise(
        varints(pc.fill_null(pc.binary_length(names), number(-1, pa.int32()))),
        names,
        varints(pc.fill_null(pc.binary_length(contents), number(-1, pa.int32()))),
        pc.fill_null(contents, _NOTHING),
        _NOTHING,
    )
    joined = pc.binary_join(pa.ListArray.from_arrays(list_offsets(counts), each), _NOTHING)
    if not added:
        return pc.binary_join_element_wise(varints(counts), joined, _NOTHING)
    counts = pc.add(counts, number(len(added), pa.int32()))
    return pc.binary_join_element_wise(varints(counts), joined, binary_array([encoded(added)])[0], _NOTHING)


def joined_sections(column: Any | None, added: Sequence[Header], *, count: int, replaced: Collection[str] = ()) -> Any:
    """Encode the headers of *count* rows: those of a `header_lists` column, or none if it is None, then those *added*.

    Headers of the column whose names are *replaced* are left out.
    """
    if column is None:
        return repeated_section(added, count)
    return header_sections(without_headers(column, replaced) if replaced else column, added)


def without_headers(column: Any, names: Collection[str]) -> Any:
    """The headers of a list or map column, as `header_lists` makes them, without those that have one of these names."""
    lists = header_lists(column)
    pairs = lists.flatten()
    others = pc.invert(pc.is_in(pc.struct_field(pairs, 0), value_set=strings(list(names))))
    if pc.all(others, min_count=0).as_py():
        return lists
    ends = list_offsets(others.cast(pa.int32())).take(lists.offsets)
    return pa.ListArray.from_arrays(ends, pairs.filter(others))


def repeated_section(headers: Sequence[Header], count: int) -> Any:
    """The encoded headers of *count* rows that all have the same ones."""
    return pa.repeat(binary_array([varint(len(headers)) + encoded(headers)])[0], count)


def header_lists(column: Any) -> Any:
    """Convert a list or map column of headers to lists of pairs of string and binary; null becomes an empty list."""
    counts, pairs = _parts(column)
    names = pc.struct_field(pairs, 0).cast(PAIR.field(0).type)
    contents = pc.struct_field(pairs, 1).cast(PAIR.field(1).type)
    converted = pa.StructArray.from_arrays([names, contents], fields=list(PAIR))
    return pa.ListArray.from_arrays(list_offsets(counts), converted)


def header_rows(rows: Sequence[Sequence[Header]]) -> Any:
    """The headers of these rows, as `header_lists` makes them."""
    headers = [header for row in rows for header in row]
    names = strings([name for name, _value in headers])
    contents = nullable_binary_array([value for _name, value in headers])
    pairs = pa.StructArray.from_arrays([names, contents], fields=list(PAIR))
    return pa.ListArray.from_arrays(list_offsets(numbers([*map(len, rows)], pa.int32())), pairs)


def nameless(column: Any) -> Any | None:
    """Mark the rows of `header_lists` that have a header without a name. Return None if there are none."""
    names = pc.struct_field(column.flatten(), 0)
    if not names.null_count:
        return None
    rows = pc.unique(pc.list_parent_indices(column).filter(names.is_null()))
    return pc.is_in(numbers(range(len(column)), rows.type), value_set=rows)


def encoded(headers: Sequence[Header]) -> bytes:
    """Encode headers, without their number. Raises UnicodeEncodeError."""
    parts: list[bytes] = []
    for name, content in headers:
        label = name.encode()
        parts += (varint(len(label)), label, varint(-1 if content is None else len(content)), content or b"")
    return b"".join(parts)


def _parts(column: Any) -> tuple[Any, Any]:
    """The number of headers of each row, and the headers of all rows."""
    kind = column.type
    if pa.types.is_map(kind):
        pair = pa.struct([pa.field("key", kind.key_type), pa.field("value", kind.item_type)])
        column = column.cast(pa.list_(pair))
    lengths = pc.list_value_length(column)
    counts = pc.fill_null(lengths, number(0, lengths.type)).cast(pa.int32())
    return counts, column.flatten()  # without those of null rows
