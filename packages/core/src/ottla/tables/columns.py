"""Choice of a table's columns for value, key, headers, partition and timestamp, and checks of their types.

Errors of the table as a whole are raised here, before any row is queued.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from types import EllipsisType
from typing import Any, Final

import attrs
import pyarrow as pa

from ottla.errors import InvalidRecordError

# By their ids: an error of a signal handler would be lost in a generator that `any` leaves before its end.
_TEXT_TYPES: Final = frozenset(kind.id for kind in (pa.string(), pa.large_string(), pa.string_view()))
_BYTES_TYPES: Final = _TEXT_TYPES | {
    kind.id for kind in (pa.null(), pa.binary(), pa.large_binary(), pa.binary(1), pa.binary_view())
}


OTHERS: Final = "*"
"""In place of a value's column: all columns that are no other part of the record."""


@attrs.frozen
class ColumnTypes:
    """The types that a part's column may have, and their names for errors."""

    fit: Callable[[Any], bool]
    names: str


@attrs.frozen(kw_only=True)
class ColumnChoice:
    """Indexes of the columns in the table. An index is None if the records have no such part."""

    value: int | None
    key: int | None
    headers: int | None
    partition: int | None
    timestamp: int | None


def choose(
    schema: Any,
    *,
    value: str | None,
    key: str | EllipsisType | None,
    headers: str | None,
    partition: str | None,
    timestamp: str | None,
) -> ColumnChoice:
    """Find the columns of these names; *key* `...` is "key" if there is such a column. Raises InvalidRecordError."""
    if key is ...:
        key = "key" if "key" in schema.names else None
    if (value, key, headers) == (None, None, None):
        raise InvalidRecordError(
            "value=None, key=None: the records would have no value, no key, and no headers of their own; name a column "
            "for one of them"
        )
    return ColumnChoice(
        value=_place(schema, "value", value, BYTES),
        key=_place(schema, "key", key, BYTES),
        headers=_place(schema, "headers", headers, HEADERS),
        partition=_place(schema, "partition", partition, INTEGERS),
        timestamp=_place(schema, "timestamp", timestamp, TIMES),
    )


def check_columns(
    schema: Any, columns: Mapping[str, Any], *, topic: str | None, formatted: Collection[str] = ()
) -> None:
    """Check the columns of these names, and that of the topic, as `choose` does, but for those in *formatted*.

    Raises InvalidRecordError.
    """
    _place(schema, "topic_column", topic, TOPICS)
    if not formatted:
        choose(schema, **columns)
        return
    for part, allowed in _ALLOWED.items():
        if part not in formatted and columns[part] is not ...:
            _place(schema, part, columns[part], allowed)


def with_other_columns(schema: Any, columns: Mapping[str, Any], *, topic: str | None = None) -> Mapping[str, Any]:
    """Replace a value of `OTHERS` by the names of all columns that are no other part, unless a column has this name.

    *topic* is the column of topics, if there is one.
    Raises InvalidRecordError if there are none.
    """
    if columns["value"] != OTHERS or OTHERS in schema.names:
        return columns
    key = "key" if columns["key"] is ... else columns["key"]
    keys = [key] if isinstance(key, str) else key or []
    used = {*keys, columns["headers"], columns["partition"], columns["timestamp"], topic}
    others = [name for name in schema.names if name not in used]
    if not others:
        than = f"other columns than {', '.join(schema.names)}" if schema.names else "columns"
        raise InvalidRecordError(f"value={OTHERS!r}: the table has no {than}")
    return {**columns, "value": others}


@attrs.frozen(kw_only=True)
class UsedColumns:
    """The names of the columns that records are made of, as the caller gave them, with that of a column of topics.

    Without *columns*, all are used.
    """

    columns: Mapping[str, Any] | None
    topic: str | None = None

    def among(self, names: Sequence[str]) -> Sequence[str] | None:
        """The columns of a table with these *names* that have to be read, in this order. None: all of them.

        All are as well if a name is missing or ambiguous, or is none: the error has to know the whole table.
        """
        if self.columns is None:
            return None
        if (self.columns["value"] == OTHERS and OTHERS not in names) or len(set(names)) < len(names):
            return None
        used: set[str] = set()
        for part, given in {**self.columns, "topic": self.topic}.items():
            wanted = [part] if given is ... else given if isinstance(given, list | tuple) else [given]
            for name in wanted:
                if isinstance(name, str) and name in names:
                    used.add(name)
                elif given is not None and given is not ...:
                    return None
        return [name for name in names if name in used] or None


_ADDED: Final = b"ottla.added"
ALL_COLUMNS: Final = UsedColumns(columns=None)


def added_field(name: str, kind: Any) -> Any:
    """The field of a column that the caller's table does not have, so errors do not list it."""
    return pa.field(name, kind, metadata={_ADDED: b""})


def given_names(schema: Any) -> str:
    """The names of the caller's columns, for an error."""
    names = [repr(field.name) for field in schema if _ADDED not in (field.metadata or ())]
    return ", ".join(names) or "none"


def _place(schema: Any, part: str, name: str | None, allowed: ColumnTypes) -> int | None:
    if name is None:
        return None
    if part == "value" and (name == OTHERS or isinstance(name, list | tuple)) and OTHERS not in schema.names:
        raise InvalidRecordError(f"value={name!r}: several columns need a format, such as value_format='json'")
    if part == "key" and isinstance(name, list | tuple):
        raise InvalidRecordError(f"key={name!r}: several columns need a format, such as key_format='json'")
    if not isinstance(name, str):
        raise InvalidRecordError(f"{part}={name!r}: a column's name is a str, or None for no {part}")
    places = schema.get_all_field_indices(name)
    if not places:
        help_ = f"; name one, or set value={OTHERS!r} and a value_format for all of them" if part == "value" else ""
        raise InvalidRecordError(f"{part}={name!r}: the table has no such column; it has {given_names(schema)}{help_}")
    if len(places) > 1:
        raise InvalidRecordError(f"{part}={name!r}: the table has {len(places)} columns of this name; rename them")
    kind = schema.field(places[0]).type
    if not allowed.fit(kind):
        remedy = _REMEDIES.get(part, "cast it first")
        raise InvalidRecordError(
            f"column {name!r} is {kind} and cannot be the {part}, which must be {allowed.names}; {remedy}"
        )
    return int(places[0])


_REMEDIES: Final = {
    "value": "encode it to bytes or text first, or set value_format",
    "key": "cast it to text or encode it to bytes first, as consumers expect it, or set key_format",
}


def is_bytes(kind: Any) -> bool:
    """Return whether a column of this type can be sent as values or keys without conversion."""
    if pa.types.is_dictionary(kind):
        return is_bytes(kind.value_type)
    return kind.id in _BYTES_TYPES


def _is_headers(kind: Any) -> bool:
    if pa.types.is_null(kind):
        return True
    if pa.types.is_map(kind):
        return _is_text(kind.key_type) and is_bytes(kind.item_type)
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind)) or not pa.types.is_struct(kind.value_type):
        return False
    pair = kind.value_type
    names = [pair.field(place).name for place in range(pair.num_fields)]
    return names == ["key", "value"] and _is_text(pair.field(0).type) and is_bytes(pair.field(1).type)


def _is_text(kind: Any) -> bool:
    return kind.id in _TEXT_TYPES


def _is_topic(kind: Any) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return _is_text(kind) or bool(pa.types.is_null(kind))


def _is_integer(kind: Any) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_null(kind))


def _is_time(kind: Any) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_timestamp(kind) or pa.types.is_null(kind))


BYTES: Final = ColumnTypes(
    is_bytes, "binary, string, their large and view forms, fixed_size_binary, a dictionary of these, or null"
)
HEADERS: Final = ColumnTypes(_is_headers, "list<struct<key: string, value: binary>> or map<string, binary>")
INTEGERS: Final = ColumnTypes(_is_integer, "any integer, or null")
TIMES: Final = ColumnTypes(_is_time, "timestamp of any unit, an integer of ms, or null")
TOPICS: Final = ColumnTypes(
    _is_topic,
    "string, its large and view forms, a dictionary of these, or null",
)

_ALLOWED: Final = {"value": BYTES, "key": BYTES, "headers": HEADERS, "partition": INTEGERS, "timestamp": TIMES}
