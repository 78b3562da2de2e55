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
    """Return the same rows without views, so that rows can be picked."""
    kind = without_views(column.type)
    return column if kind == column.type else column.cast(kind)


def decoded(column: Any) -> Any:
    """Return the rows of a column with a dictionary, without views in them."""
    return plain(column.dictionary).take(column.indices)


def _field(field: Any) -> Any:
    return field.with_type(without_views(field.type))
