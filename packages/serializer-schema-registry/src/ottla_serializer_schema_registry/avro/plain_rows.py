"""Avro's binary encoding of columns in Python: what an encoder's `avro_rows` does, where there is none."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable
from decimal import Context, Decimal
from typing import Any, Final, TypeAlias

from ottla.interfaces import AvroColumn, AvroKind
from ottla.protocol.primitives import varint

MOST_BYTES: Final = 2**31 - 1

_Write: TypeAlias = Callable[[bytearray, int], None]
"""Appends the cell of a row."""

_FLOAT: Final = struct.Struct("<f")
_DOUBLE: Final = struct.Struct("<d")
_EXACT: Final = Context(prec=100)


def avro_rows(column: AvroColumn, *, count: int, prefix: bytes) -> tuple[Any, Any]:
    """Return the offsets and the bytes of *count* rows, as `SupportsAvroRows` says."""
    offsets, out = array("i", [0]), bytearray()
    write = _cells(column)
    nulls = None
    if column.array is not None and column.array.null_count:
        nulls = column.array.is_null().to_pylist()
    for row in range(count):
        if nulls is None or not nulls[row]:
            out += prefix
            write(out, row)
        if len(out) > MOST_BYTES:
            raise OverflowError(f"{count} rows are more than 2 GiB of Avro; let a record batch have fewer")
        offsets.append(len(out))
    return offsets, bytes(out)


def _cells(column: AvroColumn) -> _Write:
    write = _written(column)
    if column.value_branch < 0:
        return write
    value, null = varint(column.value_branch), varint(max(column.null_branch, 0))
    valid = None
    if column.array is not None and column.array.null_count:
        valid = column.array.is_valid().to_pylist()

    def in_union(out: bytearray, row: int) -> None:
        if valid is not None and not valid[row]:
            out.extend(null)
        else:
            out.extend(value)
            write(out, row)

    return in_union


def _written(column: AvroColumn) -> _Write:
    match column.kind:
        case AvroKind.CONSTANT:
            return lambda out, row: out.extend(column.data)
        case AvroKind.RECORD:
            fields = [_cells(child) for child in column.children]

            def record(out: bytearray, row: int) -> None:
                for write in fields:
                    write(out, row)

            return record
        case AvroKind.ARRAY | AvroKind.MAP:
            return _blocks(column)
    cells, encode = column.array.to_pylist(), _encoder(column)
    return lambda out, row: out.extend(encode(cells[row]))


def _blocks(column: AvroColumn) -> _Write:
    items = [_cells(child) for child in column.children]
    ends = column.array.offsets.to_pylist()

    def block(out: bytearray, row: int) -> None:
        first, last = ends[row], ends[row + 1]
        if last > first:
            out.extend(varint(last - first))
        for item in range(first, last):
            for write in items:
                write(out, item)
        out.append(0)

    return block


def _encoder(column: AvroColumn) -> Callable[[Any], bytes]:
    match column.kind:
        case AvroKind.BOOLEAN:
            return lambda cell: b"\1" if cell else b"\0"
        case AvroKind.INT | AvroKind.LONG:
            return varint
        case AvroKind.FLOAT:
            return _FLOAT.pack
        case AvroKind.DOUBLE:
            return _DOUBLE.pack
        case AvroKind.FIXED:
            return bytes
        case AvroKind.DECIMAL:
            return lambda cell: _with_length(_unscaled(cell, column.array.type.scale))
        case AvroKind.FIXED_DECIMAL:
            return lambda cell: _whole(cell, column.array.type.scale).to_bytes(column.size, "big", signed=True)
        case _:
            return lambda cell: _with_length(cell.encode() if isinstance(cell, str) else cell)


def _with_length(data: bytes) -> bytes:
    return varint(len(data)) + data


def _unscaled(cell: Any, scale: int) -> bytes:
    number = _whole(cell, scale)
    # Two's complement: 127 needs one byte, 128 two, -128 one.
    return number.to_bytes((number if number >= 0 else ~number).bit_length() // 8 + 1, "big", signed=True)


def _whole(cell: Decimal, scale: int) -> int:
    return int(cell.scaleb(scale, _EXACT))
