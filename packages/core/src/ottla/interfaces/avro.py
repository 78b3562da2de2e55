"""Columns and data that an encoder writes in Avro's binary encoding."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Any, Protocol

import attrs


class AvroKind(IntEnum):
    """How the cells of a column are written, and the Arrow type of the `array` that has them."""

    CONSTANT = 0
    """The bytes `data`, for all rows; there is no array. Without bytes it is Avro's null."""
    BOOLEAN = 1
    """bool_"""
    INT = 2
    """int32, as Avro's int, date, time or place of a symbol"""
    LONG = 3
    """int64, as Avro's long, time or timestamp"""
    FLOAT = 4
    """float32"""
    DOUBLE = 5
    """float64"""
    BYTES = 6
    """string, large_string, binary or large_binary, as Avro's string or bytes"""
    FIXED = 7
    """fixed_size_binary"""
    DECIMAL = 8
    """decimal128, as bytes: the unscaled number in two's complement, as short as can be"""
    FIXED_DECIMAL = 9
    """decimal128, as `size` bytes"""
    ARRAY = 10
    """list or large_list; its items are the only child, from the first offset on"""
    MAP = 11
    """list or large_list; keys and items are the two children"""
    RECORD = 12
    """struct; its fields are the children, with as many rows as the struct"""
    ENUM = 13
    """for data only: text that is one of `names`"""
    STRING = 14
    """for data only: text"""


@attrs.frozen(kw_only=True, eq=False)
class AvroColumn:
    """A column and how its cells are written. The array may be a slice with an offset.

    In a union, `value_branch` is the place of the type, and `null_branch` that of null, or -1 if it has none. Outside
    of one both are -1. Without a null branch there are no nulls, except for whole rows and below a null.
    """

    kind: AvroKind
    array: Any = None
    children: Sequence[AvroColumn] = ()
    data: bytes = b""
    size: int = 0
    value_branch: int = -1
    null_branch: int = -1


@attrs.frozen(kw_only=True, eq=False)
class AvroType:
    """A type of Avro for Python's data. `BYTES` is bytes here, and `CONSTANT` is null; there are no decimals.

    `names` are those of a record's fields, or the symbols of an enum; `defaults` contains the bytes of each field that
    data may lack, or None. `prepare` makes plain data of what a logical type takes. The branches are those of
    `AvroColumn`. Data of a record with a key that is not in `names` does not fit, unless it `ignores_unknown_fields`,
    which are left out.
    """

    kind: AvroKind
    children: Sequence[AvroType] = ()
    names: Sequence[str] = ()
    defaults: Sequence[bytes | None] = ()
    size: int = 0
    value_branch: int = -1
    null_branch: int = -1
    prepare: Callable[[Any], Any] | None = None
    ignores_unknown_fields: bool = False


class SupportsAvroValues(Protocol):
    """An optional ability of encoders: Avro's binary encoding of Python's data, for the serializer `avro`."""

    def avro_values(self, avro_type: AvroType) -> Callable[[bytes, Any], bytes | None]:
        """Return a thread-safe function of a prefix and a value: it returns the prefix and the encoded value.

        The function returns None for a value that does not fit the type, or whose Python type it does not know. The
        caller then encodes that value, or refuses it. Exceptions of `prepare` reach the caller.
        """


class SupportsAvroRows(Protocol):
    """An optional ability of encoders: Avro's binary encoding of Arrow columns, for the serializer `avro`."""

    def avro_rows(self, column: AvroColumn, *, count: int, prefix: bytes) -> tuple[Any, Any]:
        """Return *count* rows, each after *prefix*, as two buffers: *count* + 1 offsets of int32, and the bytes.

        A row that is null itself is empty, without the prefix. Raises OverflowError for more than 2 GiB.
        """
