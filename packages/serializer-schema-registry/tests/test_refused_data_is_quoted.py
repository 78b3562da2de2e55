"""Errors quote the data that they refuse: on one printable line of at most 300 characters, in every format."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf.type_pb2 import Field
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import RowSerializationError
from ottla_serializer_schema_registry.avro.format import AvroFormat
from ottla_serializer_schema_registry.json_schema.format import JsonSchemaFormat
from ottla_serializer_schema_registry.protobuf.schema import ProtobufSchema

HOSTILE = ["a\x1b[31mred\nline", "\ud800", "\u202eright to left", "x" * 5000, "e" + "\u0301" * 50, "\u200b\ufe0f"]
ANY_TEXT = st.one_of(st.sampled_from(HOSTILE), st.text(st.characters()), st.text(st.characters(), min_size=400))
LONGEST = 300 + len("it does not fit its Avro schema: UnicodeEncodeError: ")


def avro(kind: Any) -> Callable[[Any], bytes]:
    schema = AvroFormat().parse(
        json.dumps({"type": "record", "name": "R", "fields": [{"name": "v", "type": kind}]}), ()
    )
    return lambda data: schema.encode(data, b"")


def json_schema(**keywords: Any) -> Callable[[Any], bytes]:
    schema = JsonSchemaFormat().parse(json.dumps(keywords), ())
    return lambda data: schema.encode(data, b"")


def refusal(encode: Callable[[Any], Any], data: Any) -> str | None:
    """The text of the error, None for data that fits."""
    try:
        encode(data)
    except (ValueError, TypeError) as error:
        return str(error)
    return None


FIELD = ProtobufSchema(Field, b"\0")
ENUM = {"type": "enum", "name": "E", "symbols": ["A"]}


@pytest.mark.parametrize(
    ("encode", "made"),
    [
        (avro("int"), lambda text: {"v": text}),
        (avro(["null", "int", "boolean", {"type": "array", "items": "string"}]), lambda text: {"v": text}),
        (avro(ENUM), lambda text: {"v": text}),
        (avro({"type": "map", "values": "int"}), lambda text: {"v": {text: 1}}),
        (avro({"type": "map", "values": "int"}), lambda text: {"v": {text: text}}),
        (avro("string"), lambda text: {"v": {text: [text]}}),
        (json_schema(properties={"v": {"type": "integer"}}), lambda text: {"v": text}),
        (json_schema(properties={"v": {"enum": ["a"]}}), lambda text: {"v": text}),
        (json_schema(additionalProperties=False), lambda text: {text: 1}),
        (json_schema(properties={"v": {"additionalProperties": False}}), lambda text: {"v": {text: 1, "b": text}}),
        (json_schema(additionalProperties={"type": "integer"}), lambda text: {text: text}),
        (FIELD.encode, lambda text: {text: 1}),
        (FIELD.encode, lambda text: {"number": text}),
        (FIELD.encode, lambda text: {"kind": text}),
        (FIELD.encode, lambda text: {"options": [{text: text}]}),
    ],
)
@given(text=ANY_TEXT)
def test_refused_data_is_one_printable_line(encode: Any, made: Any, text: str) -> None:
    said = refusal(encode, made(text))
    assert said is None or (said.isprintable() and len(said) <= LONGEST)


@pytest.mark.parametrize("text", HOSTILE)
def test_a_refused_cell_of_a_column_is_one_printable_line(text: str) -> None:
    schema = AvroFormat().parse(
        json.dumps({"type": "record", "name": "R", "fields": [{"name": "v", "type": ENUM}]}), ()
    )
    cells = pa.array([text.encode("utf-8", "replace").decode()])
    with pytest.raises(RowSerializationError) as caught:
        schema.encode_column(pa.StructArray.from_arrays([cells], ["v"]), b"")
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) <= 300


@pytest.mark.parametrize(("data", "kind"), [(b"x", "bytes"), ("{}", "str"), ([], "list")])
def test_data_that_is_no_dict_is_refused_with_the_name_of_its_record(data: Any, kind: str) -> None:
    said = f"it is {data!r} of type {kind}, expected a dict with the fields of R"
    assert refusal(avro("int"), data) == f"it does not fit its Avro schema: {said}"


def test_a_long_value_does_not_hide_the_type_that_avro_expects() -> None:
    said = str(refusal(avro(["null", "int"]), {"v": "x" * 5000}))
    assert said.startswith("it does not fit its Avro schema: R.v is 'xxx")
    assert "... of type str, expected null; R.v is 'xxx" in said


@pytest.mark.parametrize(
    ("keywords", "data", "expected"),
    [
        ({}, {"k": 1}, "Additional properties are not allowed ('k' was unexpected)"),
        ({}, {"k": 1, "l\n": 2}, r"Additional properties are not allowed ('k', 'l\n' were unexpected)"),
        ({"properties": {"a": {}}}, {"k": 1}, "Additional properties are not allowed ('k' was unexpected)"),
    ],
)
def test_the_properties_that_a_json_schema_does_not_allow_are_named(keywords: Any, data: Any, expected: str) -> None:
    assert refusal(json_schema(additionalProperties=False, **keywords), data) == (
        f"it does not fit its JSON schema: {expected}"
    )
    within = json_schema(items={"additionalProperties": False, **keywords})
    assert refusal(within, [{}, data]) == f"it does not fit its JSON schema: [1] {expected}"
