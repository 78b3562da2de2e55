"""Columns whose structure cannot change while their rows are read.

The buffers of a table may lie over a bytearray, a mapped file or shared memory, which other threads and processes write
to. pyarrow and encoders read offsets several times: to check them, to add up sizes, to copy. If a second reading
differs from the first, memory outside of the buffer is read or written. So all buffers that say where to read are
copied once, before they are checked: offsets, validity, views, indices and numbers. The bytes of text and binary values
are shared, because a change of them moves nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from ottla.protocol.binary_arrays import number, numbers

_BITS: Final = 8
"""Rows whose validity shares a byte: a copy begins with the first of them."""

FLAT: Final = frozenset(
    kind.id
    for kind in (
        *(pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64()),
        *(pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(), pa.float32(), pa.float64()),
        *(pa.binary(), pa.string(), pa.large_binary(), pa.large_string(), pa.timestamp("us"), pa.date32()),
    )
)
"""Types without child columns; pyarrow computes their size from two offsets, which it does not follow."""

_OFFSETS: Final = {
    pa.binary().id: pa.int32(),
    pa.string().id: pa.int32(),
    pa.list_(pa.null()).id: pa.int32(),
    pa.map_(pa.string(), pa.null()).id: pa.int32(),
    pa.large_binary().id: pa.int64(),
    pa.large_string().id: pa.int64(),
    pa.large_list(pa.null()).id: pa.int64(),
}
"""The types whose rows lie between two offsets, and the type of the offsets."""


def private_copy(column: Any) -> Any:
    """Copy a column; only the bytes of text and binary values are shared with *column*.

    The copy is not validated: it holds what *column* held for a moment. Raises ValueError for buffers that are too
    short for the rows.
    """
    if column.type.id not in FLAT:
        column.validate()  # its parts must have its length
    return _copy(column)


def checked_copy(column: Any, *, name: str) -> Any:
    """Copy a column, which may come from any source, and check the copy in full. Raises ValueError with its *name*."""
    try:
        copied = private_copy(column)
        copied.validate(full=True)
    except pa.ArrowInvalid as cause:
        raise invalid(f"column {name!r}", cause) from cause
    return copied


def invalid(what: str, cause: pa.ArrowInvalid) -> pa.ArrowInvalid:
    """The error of pyarrow, which names no column, for *what* is wrong."""
    return pa.ArrowInvalid(f"{what} is not valid: {cause}")


def elements(column: Any) -> Any:
    """The elements of all rows of a list or map column, by the offsets at this moment."""
    offset_type = _offset_type(column.type)
    width = offset_type.bit_width // 8
    ends = [_copied(column.buffers()[1], (column.offset + row) * width, width) for row in (0, len(column))]
    return _between(column, *(pa.Array.from_buffers(offset_type, 1, [None, end])[0].as_py() for end in ends))


def _copy(column: Any) -> Any:
    return _COPIES.get(column.type.id, _copy_of_numbers)(column)


def _start(column: Any) -> int:
    return int(column.offset - column.offset % _BITS)


def _rows(column: Any) -> int:
    """The rows of a copy, with those before the first one that share its byte of validity."""
    return int(column.offset % _BITS + len(column))


def _copied(buffer: Any | None, start: int, size: int) -> Any:
    available = 0 if buffer is None else buffer.size
    if start + size > available:
        raise pa.ArrowInvalid(f"an Arrow buffer has {available} bytes where its rows need {start + size}")
    return None if buffer is None else pa.py_buffer(buffer.slice(start, size).to_pybytes())


def _validity(column: Any) -> Any | None:
    buffer = column.buffers()[0]
    return None if buffer is None else _copied(buffer, _start(column) // _BITS, -(-_rows(column) // _BITS))


def _items(column: Any, place: int, bits: int, *, more: int = 0) -> Any:
    """Copy the rows' numbers, of *bits* bits each, from one of the buffers, and *more* numbers that follow them."""
    start, count = _start(column), _rows(column) + more
    return _copied(column.buffers()[place], start * bits // 8, -(-count * bits // 8))


def _made(column: Any, *buffers: Any | None, children: list[Any] | None = None) -> Any:
    return pa.Array.from_buffers(
        column.type, len(column), list(buffers), offset=column.offset % _BITS, children=children
    )


def _offset_type(kind: Any) -> Any:
    return _OFFSETS[kind.id]


def _offsets(column: Any) -> Any:
    offset_type = _offset_type(column.type)
    copied = _items(column, 1, offset_type.bit_width, more=1)
    return pa.Array.from_buffers(offset_type, _rows(column) + 1, [None, copied])


def _between(column: Any, first: int, last: int) -> Any:
    content = column.values
    if not 0 <= first <= last <= len(content):
        raise pa.ArrowInvalid(
            f"the offsets of a list go from {first} to {last}, but the list has {len(content)} elements"
        )
    return content.slice(first, last - first)


def _copy_of_extension(column: Any) -> Any:
    return pa.ExtensionArray.from_storage(column.type, _copy(column.storage))


def _copy_of_null(column: Any) -> Any:
    return column


def _copy_of_numbers(column: Any) -> Any:
    """Copy the rows in few steps, without the functions above: many columns of small tables are numbers."""
    validity, content = column.buffers()
    kind, count, before = column.type, len(column), column.offset % _BITS
    start, rows, bits = column.offset - before, before + count, kind.bit_width
    buffers = [
        None if validity is None else _copied(validity, start // _BITS, -(-rows // _BITS)),
        _copied(content, start * bits // 8, -(-rows * bits // 8)),
    ]
    return pa.Array.from_buffers(kind, count, buffers, offset=before)


def _copy_of_fixed_size_binary(column: Any) -> Any:
    width, content = column.type.byte_width, column.buffers()[1]
    start, size = _start(column) * width, _rows(column) * width
    if start + size > content.size:
        raise pa.ArrowInvalid(f"an Arrow buffer has {content.size} bytes where its rows need {start + size}")
    return _made(column, _validity(column), content.slice(start, size))


def _copy_of_binary(column: Any) -> Any:
    # By far the most frequent type: in few steps, because small tables have as many columns as large ones.
    validity, offsets, data = column.buffers()
    before, count = column.offset % _BITS, len(column)
    start, rows = column.offset - before, before + count
    buffers = [
        None if validity is None else _copied(validity, start // _BITS, -(-rows // _BITS)),
        _copied(offsets, 4 * start, 4 * (rows + 1)),
        data,
    ]
    return pa.Array.from_buffers(column.type, count, buffers, offset=before)


def _copy_of_large_binary(column: Any) -> Any:
    """Copy with the rows' own data only: pyarrow casts it to binary only if its offsets are below 2 GiB."""
    offsets, data, before = _offsets(column), column.buffers()[2], column.offset % _BITS
    first, last = offsets[before].as_py(), offsets[-1].as_py()
    available = 0 if data is None else data.size
    if not 0 <= first <= last <= available:
        raise pa.ArrowInvalid(f"the offsets of a column go from {first} to {last}, but its data has {available} bytes")
    if first:
        own = pc.subtract(offsets.slice(before), number(first, pa.int64()))
        offsets = pa.concat_arrays([numbers([0] * before, pa.int64()), own])
        data = data.slice(first, last - first)
    return _made(column, _validity(column), offsets.buffers()[1], data)


def _copy_of_views(column: Any) -> Any:
    return _made(column, _validity(column), _items(column, 1, 128), *column.buffers()[2:])


def _copy_of_list(column: Any) -> Any:
    return _listed(column, _copy)


def _copy_of_map(column: Any) -> Any:
    return _listed(column, _copy_of_pairs)


def _copy_of_pairs(column: Any) -> Any:
    """Copy the pairs of a map. pyarrow ends the process if it gets a map with null pairs or keys.

    pyarrow 19 does so, too, if their nulls are not counted yet.
    """
    keys, values = _copy(column.field(0)), _copy(column.field(1))
    if keys.null_count:
        raise pa.ArrowInvalid("a map has a key that is null")
    return pa.Array.from_buffers(column.type, len(column), [None], children=[keys, values])


def _listed(column: Any, copy: Callable[[Any], Any]) -> Any:
    """Copy a list column with the elements of its own rows only, not with those of the whole batch."""
    offsets = _offsets(column)
    first, last = offsets[0].as_py(), offsets[-1].as_py()
    inner = _between(column, first, last)
    if first:
        offsets = pc.subtract(offsets, number(first, offsets.type))  # a wrong one wraps, and fails the check later
    return _made(column, _validity(column), offsets.buffers()[1], children=[copy(inner)])


def _copy_of_fixed_size_list(column: Any) -> Any:
    width = column.type.list_size
    inner = column.values.slice(_start(column) * width, _rows(column) * width)
    return _made(column, _validity(column), children=[_copy(inner)])


def _copy_of_list_view(column: Any) -> Any:
    """Copy with the elements from the first to the last one of the column's own rows, in whatever order they are."""
    kind = pa.int64() if pa.types.is_large_list_view(column.type) else pa.int32()
    places = [_items(column, place, kind.bit_width) for place in (1, 2)]
    offsets, sizes = (pa.Array.from_buffers(kind, _rows(column), [None, copied]) for copied in places)
    first, last = _span(offsets.slice(column.offset % _BITS), sizes.slice(column.offset % _BITS))
    inner = column.values
    if 0 <= first <= last <= len(inner):  # otherwise the check fails later
        inner = inner.slice(first, last - first)
        begin = number(first, kind)  # that of a list without elements may be anywhere
        own = pc.if_else(pc.equal(sizes, number(0, kind)), begin, offsets)
        places[0] = pc.subtract(own, begin).buffers()[1]
    return _made(column, _validity(column), *places, children=[_copy(inner)])


def _span(offsets: Any, sizes: Any) -> tuple[int, int]:
    """The first element of all lists that have any, and the end of the last one."""
    with_elements = pc.not_equal(sizes, number(0, sizes.type))
    starts, counts = (each.filter(with_elements).cast(pa.int64()) for each in (offsets, sizes))
    if not len(starts):
        return 0, 0
    return pc.min(starts).as_py(), pc.max(pc.add(starts, counts)).as_py()


def _copy_of_struct(column: Any) -> Any:
    kind, validity, before = column.type, _validity(column), column.offset % _BITS
    inner = [_copy(column.field(place)) for place in range(kind.num_fields)]
    if not inner:
        return _made(column, validity)
    if validity is None or not before:
        return pa.Array.from_buffers(kind, len(column), [validity], children=inner)
    null = pc.invert(pa.Array.from_buffers(pa.bool_(), len(column), [None, validity], offset=before))
    return pa.StructArray.from_arrays(inner, fields=list(kind), mask=null)  # whose fields begin with the first row


def _copy_of_dictionary(column: Any) -> Any:
    return pa.DictionaryArray.from_arrays(
        _copy(column.indices), _copy(column.dictionary), ordered=column.type.ordered, safe=False
    )


def _copy_of_union(column: Any) -> Any:
    kind, count = column.type, len(column)
    buffers = [None, _copied(column.buffers()[1], column.offset, count)]
    if kind.mode == "dense":
        buffers.append(_copied(column.buffers()[2], column.offset * 4, count * 4))
    inner = [_copy(column.field(place)) for place in range(kind.num_fields)]
    return pa.Array.from_buffers(kind, count, buffers, children=inner)


def _copy_of_runs(column: Any) -> Any:
    inner = [_copy(column.run_ends), _copy(column.values)]
    return pa.Array.from_buffers(column.type, len(column), [None], offset=column.offset, children=inner)


_COPIES: Final[dict[int, Callable[[Any], Any]]] = {
    kind.id: copied
    for copied, kinds in (
        (_copy_of_null, [pa.null()]),
        (_copy_of_binary, [pa.binary(), pa.string()]),
        (_copy_of_large_binary, [pa.large_binary(), pa.large_string()]),
        (_copy_of_fixed_size_binary, [pa.binary(1)]),
        (_copy_of_views, [pa.binary_view(), pa.string_view()]),
        (_copy_of_dictionary, [pa.dictionary(pa.int8(), pa.int8())]),
        (_copy_of_list, [pa.list_(pa.int8()), pa.large_list(pa.int8())]),
        (_copy_of_map, [pa.map_(pa.int8(), pa.int8())]),
        (_copy_of_fixed_size_list, [pa.list_(pa.int8(), 1)]),
        (_copy_of_list_view, [pa.list_view(pa.int8()), pa.large_list_view(pa.int8())]),
        (_copy_of_struct, [pa.struct([])]),
        (_copy_of_union, [pa.sparse_union([]), pa.dense_union([])]),
        (_copy_of_runs, [pa.run_end_encoded(pa.int16(), pa.int8())]),
        (_copy_of_extension, [pa.uuid()]),
    )
    for kind in kinds
}
"""The copying functions by type id; all other types are numbers of fixed width."""
