"""The columns that are the parts of a record, brought to types that `send_table` takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import attrs
import pyarrow as pa

from ottla.tables.columns import OTHERS, is_bytes

HEADERS: Final = pa.map_(pa.string(), pa.binary())
PARTS: Final = ("key", "value", "headers", "partition", "timestamp")
"""The parts of a record, each an option that names its column."""


class InputError(Exception):
    """Input that cannot become records; the message names the column or the record."""


@attrs.frozen(kw_only=True)
class Parts:
    """Names of columns for the parts of a record, None for those not named. *constants* are headers of every record."""

    key: str | None = None
    value: str | None = None
    headers: str | None = None
    partition: str | None = None
    timestamp: str | None = None
    constants: Sequence[tuple[str, bytes]] = ()

    @property
    def named(self) -> dict[str, str]:
        """The columns that are named, by part; without any, lines of JSON need not be parsed."""
        return {part: name for part in PARTS if (name := getattr(self, part))}


@attrs.frozen(kw_only=True)
class SendableTable:
    """A table, and the arguments of `send_table` that choose its columns."""

    table: Any
    arguments: dict[str, Any]


def sendable(table: Any, parts: Parts) -> SendableTable:
    """Choose and convert a table's columns. Raises InputError for a column that is missing or has a wrong type."""
    arguments: dict[str, Any] = {name: getattr(parts, name) for name in ("headers", "partition", "timestamp")}
    key = parts.key or ("key" if "key" in table.column_names else None)
    value = parts.value or ("value" if "value" in table.column_names else OTHERS)
    for name in (key, parts.partition, parts.timestamp, parts.headers, value if value != OTHERS else None):
        if name is not None and name not in table.column_names:
            raise InputError(f"there is no column {name!r}; the columns are {', '.join(table.column_names)}")
        if table.column_names.count(name) > 1:
            raise InputError(f"two columns are named {name!r}")
    if key is not None:
        table = _replaced(table, key, as_text(table[key], key))
    if parts.partition is not None:
        table = _replaced(table, parts.partition, as_numbers(table[parts.partition], parts.partition))
    if parts.timestamp is not None:
        table = _replaced(table, parts.timestamp, as_times(table[parts.timestamp], parts.timestamp))
    if value == OTHERS or not is_bytes(table.schema.field(value).type):
        arguments["value_format"] = "json"
    if parts.constants:
        arguments["headers"] = parts.constants
    return SendableTable(table=table, arguments={**arguments, "key": key, "value": value})


def as_text(column: Any, name: str) -> Any:
    """A key's column: bytes and text as they are, whole numbers as text. Raises InputError for others."""
    if is_bytes(column.type):
        return column
    if pa.types.is_integer(column.type):
        return column.cast(pa.string())
    raise InputError(f"the column {name!r} is {column.type}; a key must be text, bytes or a whole number")


def as_numbers(column: Any, name: str) -> Any:
    """A partition's column; text is read as whole numbers."""
    try:
        return column.cast(pa.int64())
    except pa.ArrowException as error:
        raise InputError(f"the column {name!r} must be whole numbers: {error}") from None


def as_times(column: Any, name: str) -> Any:
    """A timestamp's column; text is a number of milliseconds since 1970, or a date and time, by default in UTC."""
    if not is_bytes(column.type):
        return column
    text = column.cast(pa.string())
    for kind in (pa.int64(), pa.timestamp("ms", "UTC"), pa.timestamp("ms")):
        try:
            return text.cast(kind)
        except pa.ArrowException:
            continue
    raise InputError(
        f"the column {name!r} must be milliseconds since 1970 or times such as 2026-01-31T12:00:00Z, all in one form"
    )


def _replaced(table: Any, name: str, column: Any) -> Any:
    return table.set_column(table.schema.get_field_index(name), name, column)
