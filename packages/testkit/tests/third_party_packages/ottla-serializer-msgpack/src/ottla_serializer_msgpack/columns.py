"""Whole columns of a table as MessagePack.

A column's type decides once how its values are packed; the fields of structs and the items of lists are columns again.
This module needs pyarrow, so it is only imported when there is a column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from ottla_serializer_msgpack.packing import (
    NIL,
    list_head,
    map_head,
    pack_bool,
    pack_bytes,
    pack_float,
    pack_int,
    pack_str,
    pack_timestamp,
)

_UNITS: Final = {"s": 1, "ms": 1000, "us": 1_000_000, "ns": 1_000_000_000}

_Scalar = Callable[[Any], bytes]


def pack_column(column: Any) -> Any:
    """Return a large_binary array with a row for each row; a null row stays null. TypeError refuses a type."""
    packed = pack_rows(column)
    rows = [row if valid else None for row, valid in zip(packed, _valid(column), strict=True)]
    return pa.array(rows, pa.large_binary())


def pack_rows(column: Any) -> list[bytes]:
    """Return the bytes of each row; of null they are nil."""
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        return pack_rows(column.storage)
    if pa.types.is_dictionary(kind):
        return pack_rows(column.dictionary_decode())
    if pa.types.is_run_end_encoded(kind):
        return pack_rows(pc.run_end_decode(column))
    if pa.types.is_struct(kind):
        return _structs(column)
    if pa.types.is_map(kind):
        return _maps(column)
    if _is_list(kind):
        return _lists(column)
    if pa.types.is_timestamp(kind):
        return _timestamps(column)
    if pa.types.is_null(kind):
        return [NIL] * len(column)
    scalar = _scalar(kind)
    return [NIL if data is None else scalar(data) for data in column.to_pylist()]


def _scalar(kind: Any) -> _Scalar:
    if pa.types.is_boolean(kind):
        return pack_bool
    if pa.types.is_integer(kind):
        return pack_int
    if pa.types.is_floating(kind):
        return pack_float
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pack_str
    if (
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_binary_view(kind)
        or pa.types.is_fixed_size_binary(kind)
    ):
        return pack_bytes
    raise TypeError(f"a column of type {kind} has no form in MessagePack")


def _is_list(kind: Any) -> bool:
    return bool(
        pa.types.is_list(kind)
        or pa.types.is_large_list(kind)
        or pa.types.is_fixed_size_list(kind)
        or pa.types.is_list_view(kind)
        or pa.types.is_large_list_view(kind)
    )


def _structs(column: Any) -> list[bytes]:
    names = [field.name for field in column.type]
    if len(set(names)) < len(names):
        raise TypeError(f"a struct with two fields of the same name, {column.type}, has no form in MessagePack")
    head = map_head(len(names))
    packed_names = [pack_str(name) for name in names]
    fields = [pack_rows(column.field(index)) for index in range(len(names))]
    rows = []
    for index, valid in enumerate(_valid(column)):
        if not valid:
            rows.append(NIL)
            continue
        parts = [head]
        for name, values in zip(packed_names, fields, strict=True):
            parts += (name, values[index])
        rows.append(b"".join(parts))
    return rows


def _maps(column: Any) -> list[bytes]:
    kind = column.type
    if not _is_key(kind.key_type):
        raise TypeError(f"the keys of a map must be text, bytes or integers, not {kind.key_type}")
    pair = pa.struct([pa.field("key", kind.key_type, nullable=False), pa.field("value", kind.item_type)])
    pairs = column.cast(pa.list_(pair))
    flat = pairs.flatten()
    keys, values = pack_rows(flat.field(0)), pack_rows(flat.field(1))
    items = (key + value for key, value in zip(keys, values, strict=True))
    return _joined(pairs, items, map_head)


def _is_key(kind: Any) -> bool:
    if pa.types.is_dictionary(kind):
        return _is_key(kind.value_type)
    if pa.types.is_boolean(kind) or pa.types.is_floating(kind) or pa.types.is_nested(kind):
        return False
    _scalar(kind)
    return True


def _lists(column: Any) -> list[bytes]:
    return _joined(column, iter(pack_rows(column.flatten())), list_head)


def _joined(lists: Any, items: Iterator[bytes], head: Callable[[int], bytes]) -> list[bytes]:
    return [
        NIL if size is None else head(size) + b"".join(islice(items, size))
        for size in pc.list_value_length(lists).to_pylist()
    ]


def _timestamps(column: Any) -> list[bytes]:
    kind = column.type
    if kind.tz is None:
        raise TypeError(f"a column of type {kind} has no zone, so its values are no moments; give it one")
    per_second = _UNITS[kind.unit]
    rows = []
    for number in column.view(pa.int64()).to_pylist():
        if number is None:
            rows.append(NIL)
            continue
        seconds, rest = divmod(number, per_second)
        rows.append(pack_timestamp(seconds, rest * (1_000_000_000 // per_second)))
    return rows


def _valid(column: Any) -> list[bool]:
    if pa.types.is_run_end_encoded(column.type):
        return _valid(pc.run_end_decode(column))
    if pa.types.is_dictionary(column.type):
        return _valid(column.dictionary_decode())
    if isinstance(column.type, pa.BaseExtensionType):
        return _valid(column.storage)
    valid: list[bool] = column.is_valid().to_pylist()
    return valid
