"""Columns of a DataFrame that go to Kafka: their positions, and a check of their types."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

import attrs
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    StructType,
    TimestampType,
)

from ottla_spark.options.column_formats import JSON, Formats
from ottla_spark.sink import json_columns
from ottla_spark.sink.text_types import TEXT

ColumnPositions: TypeAlias = Mapping[str, int]
"""Positions of our columns in the DataFrame, without those that it lacks.

Without a position of the column "value", all columns with other names are the fields of the value.
"""

VALUE: Final = "value"


@attrs.frozen(kw_only=True)
class Column:
    """A column with a meaning in this sink."""

    allowed: str
    fits: Callable[[DataType], bool]


def find_columns(
    schema: StructType, *, topic: str | None, problems: list[str], formats: Formats | None = None
) -> ColumnPositions:
    """Find the columns to send, and add all problems to *problems*.

    Names are case-sensitive and other columns are ignored, as in Spark's sink. With a *topic* for all rows, the column
    'topic' is ignored too. With a format of values, the column 'value' may be missing: then all columns with other
    names are the fields of the value.
    """
    names, formats = schema.fieldNames(), formats or Formats()
    chosen = {part: found for part, found in (("value", formats.value), ("key", formats.key)) if found is not None}
    known = {**COLUMNS, **{part: _IN_JSON if found == JSON else _IN_A_FORMAT for part, found in chosen.items()}}
    wanted = {name: column for name, column in known.items() if name in names and (topic is None or name != "topic")}
    if "value" not in wanted and formats.value is not None:
        _check_the_rest(schema, problems, is_json=formats.value == JSON)
    elif "value" not in wanted:
        problems.append(
            f"required column 'value' not found; it must be {COLUMNS['value'].allowed}, and names are "
            f"case-sensitive (found: {', '.join(names) or 'none'}); set option value.format='json' to send all other "
            "columns as a JSON object"
        )
    if formats.key is not None and "key" not in wanted:
        problems.append(
            f"option key.format={formats.key.name!r} needs a column 'key', and names are case-sensitive (found: "
            f"{', '.join(names) or 'none'}); add one, such as struct(...) AS key, or leave the option out"
        )
    if topic is None and "topic" not in wanted:
        problems.append("there is no topic: set option 'topic', or add a column 'topic' of type string")
    for name, column in wanted.items():
        if names.count(name) > 1:
            problems.append(f"column {name!r} occurs {names.count(name)} times; keep one")
        elif not column.fits(schema[name].dataType):
            found = schema[name].dataType.simpleString()
            remedy = _AS_JSON.format(name) if name in ("key", VALUE) and name not in chosen else ""
            problems.append(f"column {name!r} has the unsupported type {found}; it must be {column.allowed}{remedy}")
    return {name: names.index(name) for name in wanted}


def other_columns(names: Sequence[str]) -> list[int]:
    """Return the positions of columns with none of our names."""
    return [position for position, name in enumerate(names) if name not in COLUMNS]


def _check_the_rest(schema: StructType, problems: list[str], *, is_json: bool) -> None:
    fields = [schema.fields[position] for position in other_columns(schema.fieldNames())]
    if not fields:
        problems.append(
            "the value would have no fields: with value.format, the value is the column 'value', or all columns except "
            f"{', '.join(name for name in COLUMNS if name != 'value')}"
        )
    for name in {field.name for field in fields if [each.name for each in fields].count(field.name) > 1}:
        problems.append(f"column {name!r} occurs more than once, but a value has each field once; rename one of them")
    for field in fields:
        if is_json and not json_columns.fits(field.dataType):
            found, allowed = field.dataType.simpleString(), _IN_JSON.allowed
            problems.append(f"column {field.name!r} has the unsupported type {found}; in a value it must be {allowed}")


_AS_JSON: Final = ", or set option {}.format='json' to send it as JSON"


def _is_text_or_bytes(found: DataType) -> bool:
    return isinstance(found, (*TEXT, BinaryType))


def _is_headers(found: DataType) -> bool:
    match found:
        case ArrayType(elementType=StructType(fields=[key, value])):
            return (
                (key.name, value.name) == ("key", "value")
                and isinstance(key.dataType, TEXT)
                and isinstance(value.dataType, BinaryType)
            )
        case _:
            return False


COLUMNS: Final[Mapping[str, Column]] = {
    VALUE: Column(allowed="string or binary", fits=_is_text_or_bytes),
    "key": Column(allowed="string or binary", fits=_is_text_or_bytes),
    "topic": Column(allowed="string", fits=lambda found: isinstance(found, TEXT)),
    "partition": Column(allowed="int", fits=lambda found: isinstance(found, IntegerType)),
    "headers": Column(allowed="array<struct<key:string,value:binary>>", fits=_is_headers),
    "timestamp": Column(allowed="timestamp", fits=lambda found: isinstance(found, TimestampType)),
}

_IN_JSON: Final = Column(
    allowed="text, bytes, a number, boolean, date or timestamp, or a struct, array or map of such",
    fits=json_columns.fits,
)
"""Types that JSON accepts."""

_IN_A_FORMAT: Final = Column(allowed="of a type that the serializer accepts", fits=lambda found: True)
"""The serializer itself refuses the types that it does not accept, when the driver prepares it."""
