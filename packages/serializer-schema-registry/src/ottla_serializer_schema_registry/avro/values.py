"""Avro schemas for an encoder that writes plain data itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import attrs
from fastavro.write import LOGICAL_WRITERS

from ottla.interfaces import AvroKind, AvroType
from ottla_serializer_schema_registry.avro.schema import AvroSchema, default_bytes
from ottla_serializer_schema_registry.avro.shortest_decimals import fixed_decimal, shortest_decimal

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


MOST_TYPES: Final = 2000
"""Types of a schema with each use of a name counted: 30 records that use each other twice are 2^30."""


class _NotPlainError(Exception):
    """The schema has a type that is left to fastavro as a whole."""


def avro_type(schema: AvroSchema) -> AvroType | None:
    """Return the type of a schema, or None if fastavro encodes its data.

    These are schemas that hold themselves or have very many types, and unions in which the data chooses between several
    types.
    """
    try:
        return _Types(schema.named, ignores_unknown=schema.ignores_unknown_fields).type(schema.schema, ())
    except (_NotPlainError, RecursionError):
        return None


class _Types:
    def __init__(self, named: Mapping[str, Any], *, ignores_unknown: bool) -> None:
        self._named = named
        self._ignores_unknown = ignores_unknown
        self._count = 0

    def type(self, schema: Any, above: Sequence[str]) -> AvroType:
        """Return a type within the named types *above*. Raises _NotPlainError."""
        self._count += 1
        if self._count > MOST_TYPES:
            raise _NotPlainError
        if isinstance(schema, list):
            return self._union(schema, above)
        if isinstance(schema, str):
            if schema in above:
                raise _NotPlainError
            return self.type(self._named[schema], above) if schema in self._named else AvroType(kind=_KINDS[schema])
        name = schema["type"]
        prepare = _prepare(schema)
        match name:
            case "record" | "error":
                fields, below = schema["fields"], (*above, schema["name"])
                # The children first: they may be too many for the defaults that are made of them.
                children = [self.type(field["type"], below) for field in fields]
                return AvroType(
                    kind=AvroKind.RECORD,
                    names=[field["name"] for field in fields],
                    defaults=[default_bytes(field, self._named) for field in fields],
                    children=children,
                    prepare=prepare,
                    ignores_unknown_fields=self._ignores_unknown,
                )
            case "array":
                return AvroType(kind=AvroKind.ARRAY, children=[self.type(schema["items"], above)], prepare=prepare)
            case "map":
                return AvroType(kind=AvroKind.MAP, children=[self.type(schema["values"], above)], prepare=prepare)
            case "enum":
                return AvroType(kind=AvroKind.ENUM, names=schema["symbols"], prepare=prepare)
            case "fixed":
                return AvroType(kind=AvroKind.FIXED, size=schema["size"], prepare=prepare)
        if isinstance(name, str) and name in _KINDS:
            return AvroType(kind=_KINDS[name], prepare=prepare)
        return self.type(name, above)

    def _union(self, branches: Sequence[Any], above: Sequence[str]) -> AvroType:
        others = [place for place, branch in enumerate(branches) if branch != "null"]
        if len(others) != 1 or len(branches) > 2:
            raise _NotPlainError
        [place] = others
        null_branch = 1 - place if len(branches) == 2 else -1
        return attrs.evolve(self.type(branches[place], above), value_branch=place, null_branch=null_branch)


_DECIMALS: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "bytes-decimal": shortest_decimal,
    "fixed-decimal": fixed_decimal,
}


def _prepare(schema: Mapping[str, Any]) -> Callable[[Any], Any] | None:
    """What is made of data of a logical type, before it is written."""
    name = f"{schema['type']}-{schema.get('logicalType')}"
    prepare = _DECIMALS.get(name) or LOGICAL_WRITERS.get(name)
    return None if prepare is None else partial(_prepared, prepare, schema)


def _prepared(prepare: Callable[[Any, Any], Any], schema: Mapping[str, Any], data: Any) -> Any:
    return prepare(data, schema)
