"""Defaults of a schema, which may come from anybody: a short one must not stand for more than memory holds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from ottla_serializer_schema_registry import InvalidSchemaError
from ottla_serializer_schema_registry.avro.defaults import MOST_VALUES
from ottla_serializer_schema_registry.avro.schema import parsed_schema


def record(name: str, *fields: Any) -> dict[str, Any]:
    return {
        "type": "record",
        "name": name,
        "fields": [dict(zip(("name", "type", "default"), f, strict=False)) for f in fields],
    }


def doubling(levels: int, default: Any = None) -> str:
    """A schema in which each record has two of the next level, by default."""
    made: Any = record("R0", ("x", "int", 7))
    for level in range(1, levels + 1):
        given = {} if default is None else default
        made = record(f"R{level}", ("a", made, given), ("b", f"R{level - 1}", given))
    return json.dumps(made)


def test_defaults_of_defaults_have_an_end() -> None:
    assert parsed_schema(doubling(10)).encode({}) == b"\x0e" * 2**10
    with pytest.raises(InvalidSchemaError, match=r"default of field 'a' of R1[67] stands for more than 100000 values"):
        parsed_schema(doubling(40))


@pytest.mark.parametrize(
    "wrap", [lambda kind: ["null", kind], lambda kind: [kind, "string"], lambda kind: {"type": kind}]
)
def test_defaults_in_unions_have_an_end(wrap: Any) -> None:
    made: Any = record("R0", ("x", "int", 7))
    for level in range(1, 40):
        made = record(f"R{level}", ("a", wrap(made), {}), ("b", wrap(f"R{level - 1}"), {}))
    with pytest.raises(InvalidSchemaError):
        parsed_schema(json.dumps(made))


@pytest.mark.parametrize(
    ("kind", "default"),
    [({"type": "array", "items": "R"}, [{}]), ({"type": "map", "values": "R"}, {"k": {}}), ("R", {}), (["R"], {})],
)
def test_a_default_that_holds_itself_is_refused(kind: Any, default: Any) -> None:
    with pytest.raises(InvalidSchemaError, match="default of field 'next' of R stands for no end of values"):
        parsed_schema(json.dumps(record("R", ("next", kind, default))))


@pytest.mark.parametrize(
    "fields",
    [
        [("next", ["null", "R"], None)],
        [("all", {"type": "array", "items": "R"}, [])],
        [("x", "int", 7), ("all", {"type": "array", "items": "int"}, [1] * (MOST_VALUES - 1))],
        [("next", ["null", "R"], None), ("known", ["R", "null"], {"next": None, "known": None})],
        [("x", "int"), ("y", {"type": "enum", "name": "E", "symbols": ["A"]}, "A")],
    ],
)
def test_other_defaults_are_taken(fields: Sequence[Any]) -> None:
    parsed_schema(json.dumps(record("R", *fields)))
