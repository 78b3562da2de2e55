"""Arrow's views of texts and bytes, which polars exports: pyarrow picks no rows of them, and decodes no dictionary."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

_PLAIN: Final = {pa.string_view().id: pa.large_string(), pa.binary_view().id: pa.large_binary()}


def without_views(kind: Any) -> Any:
    """Return the type with texts and bytes in place of their views, also in structs, lists, maps and dictionaries."""
    if kind.id in _PLAIN:
        return _PLAIN[kind.id]
    if pa.types.is_struct(kind):
        return pa.struct([_field(kind.field(place)) for place in range(kind.num_fields)])
    if pa.types.is_list(kind):
        return pa.list_(_field(kind.value_field))
    if pa.types.is_large_list(kind):
        return pa.large_list(_field(kind.value_field))
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(_field(kind.value_field), kind.list_size)
    if pa.types.is_map(kind):
        return pa.map_(_field(kind.key_field), _field(kind.item_field), keys_sorted=kind.keys_sorted)
    if pa.types.is_dictionary(kind):
        return pa.dictionary(kind.index_type, without_views(kind.value_type), ordered=kind.ordered)
    return kind


def plain(column: Any) -> Any:
    """Return the same rows without views, so that rows can be picked.

    Arrays are put together of their children, because pyarrow's cast of a map gives children of type null
    wrong lengths.
    """
    kind = without_views(column.type)
    if kind == column.type:
        return column
    if pa.types.is_struct(kind):
        fields = [plain(column.field(place)) for place in range(kind.num_fields)]
        return pa.StructArray.from_arrays(fields, fields=list(kind), mask=column.is_null())
    if pa.types.is_dictionary(kind):
        return pa.DictionaryArray.from_arrays(column.indices, plain(column.dictionary), ordered=kind.ordered)
    if pa.types.is_map(kind):
        entries = [plain(column.keys), plain(column.items)]
        return _with_child(column, kind, pa.StructArray.from_arrays(entries, fields=[kind.key_field, kind.item_field]))
    if pa.types.is_nested(kind):
        return _with_child(column, kind, plain(column.values))
    return column.cast(kind)


def decoded(column: Any) -> Any:
    """Return the rows of a column with a dictionary, without views in them."""
    return plain(column.dictionary).take(column.indices)


def _field(field: Any) -> Any:
    return field.with_type(without_views(field.type))


def _with_child(column: Any, kind: Any, child: Any) -> Any:
    buffers = column.buffers()[: column.type.num_buffers]
    return pa.Array.from_buffers(kind, len(column), buffers, offset=column.offset, children=[child])
