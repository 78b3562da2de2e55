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

_LOGICAL_TYPE: Final = "ottla-shortest-decimal"
"""A logical type of its own: how other programs in the process write decimals does not change."""


def shortest_decimal(data: Any, schema: dict[str, Any]) -> Any:
    """Return a decimal's unscaled number in two's complement, and data of another type as it is."""
    made = LOGICAL_WRITERS["bytes-decimal"](data, schema)
    # fastavro adds no more than one byte: one of ones before a byte whose first bit says already that it is negative.
    is_longer = isinstance(data, Decimal) and made[:1] == b"\xff" and made[1:2] >= b"\x80"
    return made[1:] if is_longer else made


LOGICAL_WRITERS[f"bytes-{_LOGICAL_TYPE}"] = shortest_decimal


def with_shortest_decimals(schema: Any) -> Any:
    """Return a parsed schema, or a copy of it if it has decimals of bytes, by which fastavro writes them shortest."""
    if next(_decimals(schema), None) is None:
        return schema
    written = copy.deepcopy(schema)
    for decimal in list(_decimals(written)):
        decimal["logicalType"] = _LOGICAL_TYPE
    return written


def _decimals(schema: Any) -> Iterator[dict[str, Any]]:
    """The types within a parsed schema that are decimals of bytes, without recursion."""
    waiting, seen = [schema], set()
    while waiting:
        each = waiting.pop()
        if isinstance(each, list):
            waiting += each
        elif isinstance(each, dict) and id(each) not in seen:
            seen.add(id(each))
            waiting += each.get("__named_schemas", {}).values()
            match each["type"]:
                case "bytes" if each.get("logicalType") == "decimal":
                    yield each
                case "record" | "error":
                    waiting += [field["type"] for field in each["fields"]]
                case "array":
                    waiting.append(each["items"])
                case "map":
                    waiting.append(each["values"])
                case list() | dict():
                    waiting.append(each["type"])
