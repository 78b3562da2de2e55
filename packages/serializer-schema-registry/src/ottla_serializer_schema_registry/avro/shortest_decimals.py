"""Decimals of Avro's bytes, as short as Java and columns write them.

Avro's specification asks for two's complement and no length. fastavro adds a byte to -128, -32768 and the like. Such a
key would have other bytes than the same key of a table, of Java or of Spark, and so another partition.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, Final

from fastavro.write import LOGICAL_WRITERS

from ottla.errors import printable

_ZERO: Final = Decimal(0)

MOST_SHOWN: Final = 100
"""Characters of a decimal that an error shows."""

LOGICAL_TYPE: Final = "ottla-decimal"
"""A logical type of its own: how other programs in the process write decimals does not change."""


def shortest_decimal(data: Any, schema: dict[str, Any]) -> Any:
    """Return a decimal's unscaled number in two's complement, and data of another type as it is.

    Raises ValueError for one that does not fit.
    """
    made = LOGICAL_WRITERS["bytes-decimal"](_checked(data, schema), schema)
    # fastavro adds no more than one byte: one of ones before a byte whose first bit says already that it is negative.
    is_longer = isinstance(data, Decimal) and made[:1] == b"\xff" and made[1:2] >= b"\x80"
    return made[1:] if is_longer else made


def fixed_decimal(data: Any, schema: dict[str, Any]) -> Any:
    """Return a decimal's unscaled number in the bytes of a fixed. Raises ValueError for one that does not fit."""
    return LOGICAL_WRITERS["fixed-decimal"](_checked(data, schema), schema)


def _checked(data: Any, schema: dict[str, Any]) -> Any:
    """The data, if it is no decimal that is too large. fastavro would compute 10 ** 999999999 for a short one."""
    if not isinstance(data, Decimal):
        return data
    if not data.is_finite():
        raise ValueError(f"{data} is no number that a decimal can have")
    if not data:
        return _ZERO  # without its exponent
    digits = schema["precision"] - schema.get("scale", 0)
    if data.adjusted() >= digits:
        shown = printable(str(data), limit=MOST_SHOWN)
        raise ValueError(f"{shown} has more than the {digits} digits before the decimal point that its schema has")
    return data


LOGICAL_WRITERS[f"bytes-{LOGICAL_TYPE}"] = shortest_decimal
LOGICAL_WRITERS[f"fixed-{LOGICAL_TYPE}"] = fixed_decimal


def with_shortest_decimals(schema: Any) -> Any:
    """Return a parsed schema, or a copy of it if it has decimals, by which fastavro checks and shortens them."""
    if next(_decimals(schema), None) is None:
        return schema
    written = copy.deepcopy(schema)
    for decimal in list(_decimals(written)):
        decimal["logicalType"] = LOGICAL_TYPE
    return written


def _decimals(schema: Any) -> Iterator[dict[str, Any]]:
    """The types within a parsed schema that are decimals, without recursion."""
    waiting, seen = [schema], set()
    while waiting:
        each = waiting.pop()
        if isinstance(each, list):
            waiting += each
        elif isinstance(each, dict) and id(each) not in seen:
            seen.add(id(each))
            waiting += each.get("__named_schemas", {}).values()
            match each["type"]:
                case "bytes" | "fixed" if each.get("logicalType") == "decimal":
                    yield each
                case "record" | "error":
                    waiting += [field["type"] for field in each["fields"]]
                case "array":
                    waiting.append(each["items"])
                case "map":
                    waiting.append(each["values"])
                case list() | dict():
                    waiting.append(each["type"])
