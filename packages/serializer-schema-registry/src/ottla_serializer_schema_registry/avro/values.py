"""Avro schemas for an encoder that writes plain data itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import attrs
from fastavro.write import LOGICAL_WRITERS

from ottla.interfaces import AvroKind, AvroType
from ottla_serializer_schema_registry.avro.schema import AvroSchema, default_bytes

_KINDS: Final[Mapping[str, AvroKind]] = {
    "null": AvroKind.CONSTANT,
    "boolean": AvroKind.BOOLEAN,
    "int": AvroKind.INT,
    "long": AvroKind.LONG,
    "float": AvroKind.FLOAT,
    "double": AvroKind.DOUBLE,
    "string": AvroKind.STRING,
    "bytes": AvroKind.BYTES,
}


class _NotPlainError(Exception):
    """The schema has a type that is left to fastavro as a whole."""


def avro_type(schema: AvroSchema) -> AvroType | None:
    """Return the type of a schema; None: fastavro encodes its data.

    These are schemas that hold themselves, and unions in which the data chooses between several types.
    """
    try:
        return _type(schema.schema, schema.named, ())
    except _NotPlainError:
        return None


def _type(schema: Any, named: Mapping[str, Any], above: Sequence[str]) -> AvroType:
    if isinstance(schema, list):
        return _union(schema, named, above)
    if isinstance(schema, str):
        if schema in above:
            raise _NotPlainError
        if schema in named:
            return _type(named[schema], named, above)
        return AvroType(kind=_KINDS[schema])
    name = schema["type"]
    prepare = _prepare(schema)
    match name:
        case "record" | "error":
            fields, below = schema["fields"], (*above, schema["name"])
            return AvroType(
                kind=AvroKind.RECORD,
                names=[field["name"] for field in fields],
                defaults=[default_bytes(field, named) for field in fields],
                children=[_type(field["type"], named, below) for field in fields],
                prepare=prepare,
            )
        case "array":
            return AvroType(kind=AvroKind.ARRAY, children=[_type(schema["items"], named, above)], prepare=prepare)
        case "map":
            return AvroType(kind=AvroKind.MAP, children=[_type(schema["values"], named, above)], prepare=prepare)
        case "enum":
            return AvroType(kind=AvroKind.ENUM, names=schema["symbols"], prepare=prepare)
        case "fixed":
            return AvroType(kind=AvroKind.FIXED, size=schema["size"], prepare=prepare)
    if isinstance(name, str) and name in _KINDS:
        return AvroType(kind=_KINDS[name], prepare=prepare)
    return _type(name, named, above)


def _union(branches: Sequence[Any], named: Mapping[str, Any], above: Sequence[str]) -> AvroType:
    others = [place for place, branch in enumerate(branches) if branch != "null"]
    if len(others) != 1 or len(branches) > 2:
        raise _NotPlainError
    [place] = others
    null_branch = 1 - place if len(branches) == 2 else -1
    return attrs.evolve(_type(branches[place], named, above), value_branch=place, null_branch=null_branch)


def _prepare(schema: Mapping[str, Any]) -> Callable[[Any], Any] | None:
    """What fastavro makes of data of a logical type, before it writes it."""
    prepare = LOGICAL_WRITERS.get(f"{schema['type']}-{schema.get('logicalType')}")
    return None if prepare is None else partial(_prepared, prepare, schema)


def _prepared(prepare: Callable[[Any, Any], Any], schema: Mapping[str, Any], data: Any) -> Any:
    return prepare(data, schema)
