"""Avro schemas of Arrow types, and Arrow types of Avro schemas."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from itertools import chain, count
from typing import Any, Final

import pyarrow as pa

from ottla_serializer_schema_registry.arrow_columns import LISTS, is_one_of, shown, within
from ottla_serializer_schema_registry.avro.schema import MOST_DIGITS, is_decimal, parsed_schema

_NAME: Final = re.compile("[A-Za-z_][A-Za-z0-9_]*")
_NOT_IN_A_NAME: Final = re.compile("[^A-Za-z0-9_]")
MOST_DEPTH: Final = 64


def avro_schema(kind: Any, *, name: str) -> str:
    """Return the Avro schema of an Arrow type as JSON. *name* is made a name of Avro's for the record of a struct.

    Columns that may be null become unions of null and their type, with the default null. Raises TypeError for a type
    without an Avro form.
    """
    return json.dumps(_Schemas().of(kind, _record_name(name), ""))


def arrow_type(schema: str) -> Any:
    """Return the Arrow type of an Avro schema. Raises InvalidSchemaError, and TypeError where Arrow has no such type.

    A field is nullable if its schema is a union with null.
    """
    parsed = parsed_schema(schema)
    return _arrow(parsed.schema, parsed.named, 0)[0]


class _Schemas:
    """Makes the schema of a type. A name is given once: column `a_b` and field `b` of column `a` may be structs."""

    def __init__(self) -> None:
        self._given: set[str] = set()

    def of(self, kind: Any, name: str, path: str) -> Any:
        """Return the schema of a type. Its name, if it needs one, is *name* or with a number."""
        if isinstance(kind, pa.BaseExtensionType):
            return self.of(kind.storage_type, name, path)
        if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
            return self.of(kind.value_type, name, path)
        if pa.types.is_struct(kind):
            name = self._free(name)
            fields = [kind.field(place) for place in range(kind.num_fields)]
            return {
                "type": "record",
                "name": name,
                "fields": [self._field(each, f"{name}_{_NOT_IN_A_NAME.sub('_', each.name)}", path) for each in fields],
            }
        if is_one_of(kind, *LISTS):
            return {"type": "array", "items": self._maybe_null(kind.value_field, f"{name}_item", f"{path}[]")}
        if pa.types.is_map(kind):
            if not is_one_of(kind.key_type, "string", "large_string", "string_view"):
                raise TypeError(f"{shown(path)} is a map with keys of type {kind.key_type}, where Avro has text only")
            return {"type": "map", "values": self._maybe_null(kind.item_field, f"{name}_value", f"{path}.value")}
        if pa.types.is_fixed_size_binary(kind):
            return {"type": "fixed", "name": self._free(name), "size": kind.byte_width}
        return _plain(kind, path)

    def _field(self, field: Any, name: str, path: str) -> Mapping[str, Any]:
        if not _NAME.fullmatch(field.name):
            raise TypeError(
                f"column {field.name!r} cannot be a field of Avro, whose names have the letters a-z and A-Z, digits "
                "and _, and begin with no digit: rename it, or set a schema"
            )
        where = within(path, field.name)
        made = {"name": field.name, "type": self._maybe_null(field, name, where)}
        return {**made, "default": None} if isinstance(made["type"], list) else made

    def _maybe_null(self, field: Any, name: str, path: str) -> Any:
        schema = self.of(field.type, name, path)
        return ["null", schema] if field.nullable and schema != "null" else schema

    def _free(self, name: str) -> str:
        found = next(each for each in chain((name,), (f"{name}_{n}" for n in count(2))) if each not in self._given)
        self._given.add(found)
        return found


def _plain(kind: Any, path: str) -> Any:
    """The schema of a type that holds no others and has no name."""
    if pa.types.is_decimal(kind) and kind.precision <= MOST_DIGITS and 0 <= kind.scale <= kind.precision:
        return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
    if pa.types.is_timestamp(kind):
        unit = "millis" if kind.unit in ("s", "ms") else "micros"
        return {"type": "long", "logicalType": f"timestamp-{unit}" if kind.tz else f"local-timestamp-{unit}"}
    for names, schema in _PLAIN.items():
        if is_one_of(kind, *names):
            return schema
    raise TypeError(f"{shown(path)} has the type {kind}, which has no Avro form")


def _record_name(name: str) -> str:
    made = _NOT_IN_A_NAME.sub("_", name)
    return made if _NAME.fullmatch(made) else f"_{made}"


_PLAIN: Final[Mapping[tuple[str, ...], Any]] = {
    ("null",): "null",
    ("boolean",): "boolean",
    ("int8", "int16", "int32", "uint8", "uint16"): "int",
    ("int64", "uint32", "uint64"): "long",
    ("float16", "float32"): "float",
    ("float64",): "double",
    ("string", "large_string", "string_view"): "string",
    ("binary", "large_binary", "binary_view"): "bytes",
    ("date",): {"type": "int", "logicalType": "date"},
    ("time32",): {"type": "int", "logicalType": "time-millis"},
    ("time64",): {"type": "long", "logicalType": "time-micros"},
}


def _arrow(schema: Any, named: Mapping[str, Any], depth: int) -> tuple[Any, bool]:
    """The Arrow type, and whether it may be null."""
    if depth > MOST_DEPTH:
        raise TypeError(f"the schema is nested more than {MOST_DEPTH} levels deep, or holds itself")
    schema = named.get(schema, schema) if isinstance(schema, str) else schema
    if isinstance(schema, list):
        others = [branch for branch in schema if branch != "null"]
        if len(others) != 1:
            raise TypeError(f"a union of {len(others)} types that are not null has no Arrow type")
        return _arrow(others[0], named, depth + 1)[0], "null" in schema
    if isinstance(schema, str):
        schema = {"type": schema}
    name = schema["type"]
    if isinstance(name, dict | list) or name in named:
        return _arrow(name, named, depth + 1)
    match name:
        case "record" | "error":
            fields = [(field["name"], *_arrow(field["type"], named, depth + 1)) for field in schema["fields"]]
            return pa.struct([pa.field(name, kind, nullable) for name, kind, nullable in fields]), False
        case "array":
            return pa.list_(pa.field("item", *_arrow(schema["items"], named, depth + 1))), False
        case "map":
            return pa.map_(pa.string(), pa.field("value", *_arrow(schema["values"], named, depth + 1))), False
        case "bytes" | "fixed" if is_decimal(schema):
            return _decimal(schema["precision"], schema.get("scale", 0)), False
        case "fixed":
            return pa.binary(schema["size"]), False
    return _LOGICAL.get(f"{name} {schema.get('logicalType')}", _TYPES[name]), name == "null"


def _decimal(precision: int, scale: int) -> Any:
    if precision > MOST_DIGITS:
        raise TypeError(f"a decimal of {precision} digits has no Arrow type that can be written: {MOST_DIGITS} at most")
    return pa.decimal128(precision, scale)


_TYPES: Final[Mapping[str, Any]] = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "enum": pa.string(),
    "bytes": pa.binary(),
}

_LOGICAL: Final[Mapping[Any, Any]] = {
    "int date": pa.date32(),
    "int time-millis": pa.time32("ms"),
    "long time-micros": pa.time64("us"),
    **{
        f"long timestamp-{long}": pa.timestamp(unit, "UTC")
        for long, unit in (("millis", "ms"), ("micros", "us"), ("nanos", "ns"))
    },
    **{
        f"long local-timestamp-{long}": pa.timestamp(unit)
        for long, unit in (("millis", "ms"), ("micros", "us"), ("nanos", "ns"))
    },
}
