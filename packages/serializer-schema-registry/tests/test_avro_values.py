"""Data has the same bytes, or the same error, whether the encoder writes it or fastavro."""

from __future__ import annotations

import json
from collections import OrderedDict
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from avro_columns import CASES, Case, for_fastavro
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from long_forms import LONG

from ottla.interfaces import AvroKind, AvroType
from ottla_accel.avro_values import avro_values
from ottla_accel.plugin import NativeEncoder
from ottla_serializer_schema_registry.avro.format import AvroFormat
from ottla_serializer_schema_registry.avro.schema import parsed_schema
from ottla_serializer_schema_registry.avro.values import avro_type

PREFIX = b"\0\0\0\1\2"


def outcome(schema: Any, data: Any, *, native: bool) -> bytes | str:
    """The bytes, or the error."""
    made = AvroFormat()
    if native:
        made.use_encoder(NativeEncoder())
    try:
        return made.parse(json.dumps(schema), ()).encode(data, PREFIX)
    except ValueError as error:
        return str(error)


def written(schema: Any, data: Any) -> bytes | None:
    """What the encoder alone writes; None: it leaves the data to fastavro."""
    plain = avro_type(parsed_schema(json.dumps(schema)))
    assert plain is not None
    return avro_values(plain)(PREFIX, data)


@settings(max_examples=10_000 if LONG else 100, deadline=None, suppress_health_check=list(HealthCheck))
@given(case=CASES, data=st.data())
def test_data_has_the_bytes_of_fastavro(case: Case, data: st.DataObject) -> None:
    cell = for_fastavro(data.draw(case.cells), case.kind)
    assert outcome(case.schema, cell, native=True) == outcome(case.schema, cell, native=False)


ANYTHING = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**70), 2**70),
        st.floats(),
        st.text(st.characters(), max_size=3),
        st.binary(max_size=5),
        st.decimals(allow_nan=False),
        st.datetimes(),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.tuples(inner),
        st.dictionaries(st.sampled_from(["f0", "f1", "f2", "-type"]), inner, max_size=3),
    ),
    max_leaves=6,
)


@settings(max_examples=10_000 if LONG else 120, deadline=None, suppress_health_check=list(HealthCheck))
@given(case=CASES, data=ANYTHING)
def test_data_that_does_not_fit_has_the_error_of_fastavro(case: Case, data: Any) -> None:
    assert outcome(case.schema, data, native=True) == outcome(case.schema, data, native=False)


def record(*fields: Any) -> Any:
    return {"type": "record", "name": "R", "fields": list(fields)}


@pytest.mark.parametrize(
    ("schema", "data"),
    [
        ("int", 2**31),
        ("int", True),
        ("long", 2**63),
        ("long", 1.0),
        ("double", 10**400),
        ("float", 1e39),
        ("string", b"x"),
        ("string", "\ud800"),
        ("null", 0),
        ({"type": "fixed", "name": "F", "size": 2}, b"x"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "B"),
        ({"type": "array", "items": "int"}, (1,)),
        ({"type": "map", "values": "int"}, {1: 1}),
        (record({"name": "a", "type": "int"}), {}),
        (record({"name": "a", "type": "int"}), OrderedDict(a=1)),
        (record({"name": "a", "type": "int"}), {"a": 1, "b": 1}),
        (["null", record({"name": "a", "type": "int"})], {"-type": "Other", "a": 1}),
        (record({"name": "a", "type": "int"}), {"-type": "Other", "a": 1}),
        (["null", {"type": "map", "values": "int"}], {"-type": 1}),
        (record({"name": "a", "type": ["null", "int"]}), {"a": "x"}),
    ],
)
def test_data_that_is_not_plain_is_left_to_fastavro(schema: Any, data: Any) -> None:
    assert written(schema, data) is None


CENTS = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}


@pytest.mark.parametrize(
    ("schema", "data", "expected"),
    [
        ("double", 7, b"\0\0\0\0\0\0\x1c@"),
        ("float", float("inf"), b"\0\0\x80\x7f"),
        (record({"name": "a", "type": ["null", "int"], "default": None}), {}, b"\0"),
        ({"type": "long", "logicalType": "timestamp-millis"}, datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), b"\xd0\x0f"),
        (["null", CENTS], Decimal("1.28"), b"\2\4\0\x80"),
        (["null", CENTS], Decimal("-1.28"), b"\2\2\x80"),
        (["null", CENTS], b"\xff\x80", b"\2\4\xff\x80"),
        ({"type": "string", "logicalType": "unknown"}, "x", b"\2x"),
        (["int", "null"], None, b"\2"),
        ({"type": "map", "values": "long"}, {}, b"\0"),
    ],
)
def test_plain_data_is_written(schema: Any, data: Any, expected: bytes) -> None:
    assert written(schema, data) == PREFIX + expected
    assert outcome(schema, data, native=False) == PREFIX + expected


@pytest.mark.parametrize("native", [False, True], ids=["python", "c"])
@pytest.mark.parametrize(
    ("kind", "cell"),
    [
        (CENTS, Decimal("1.234")),
        (CENTS, Decimal("NaN")),
        ("double", 2**1030),
        ("string", "\ud800"),
    ],
)
def test_an_error_of_a_type_names_its_field(kind: Any, cell: Any, native: bool) -> None:
    inner = {**record({"name": "good", "type": kind}, {"name": "wrong", "type": ["null", kind]}), "name": "S"}
    data = {"good": None, "inner": {"good": {"double": 1.0, "string": ""}.get(str(kind), Decimal(1)), "wrong": cell}}
    schema = record({"name": "good", "type": "null"}, {"name": "inner", "type": ["null", inner]})

    assert "it does not fit its Avro schema: inner.wrong: " in str(outcome(schema, data, native=native))


@pytest.mark.timeout(60)
@pytest.mark.parametrize("native", [False, True], ids=["python", "c"])
@pytest.mark.parametrize("its", [{"type": "bytes"}, {"type": "fixed", "name": "F", "size": 8}], ids=["bytes", "fixed"])
def test_a_decimal_has_no_more_digits_than_its_schema(its: Any, native: bool) -> None:
    """fastavro counts the digits of 1E+999999999 as one, and then computes that power of ten."""
    schema = record({"name": "a", "type": {**its, "logicalType": "decimal", "precision": 4, "scale": 2}})

    for large in ("1E+2", "-1E+999999999", "100", "123.4"):
        said = outcome(schema, {"a": Decimal(large)}, native=native)
        assert f"{large} has more than the 2 digits before the decimal point that its schema has" in str(said)
    for strange in ("NaN", "-Infinity"):
        assert "is no number that a decimal can have" in str(outcome(schema, {"a": Decimal(strange)}, native=native))
    for same in ("1E+1", "10", "10.00"):
        assert outcome(schema, {"a": Decimal(same)}, native=native) == outcome(
            schema, {"a": Decimal("10.0")}, native=True
        )
    zero = outcome(schema, {"a": Decimal("0E+999999999")}, native=native)
    assert zero == outcome(schema, {"a": Decimal(0)}, native=True)


@pytest.mark.parametrize(
    "schema",
    [
        ["null", "int", "string"],
        {"type": "record", "name": "L", "fields": [{"name": "next", "type": ["null", "L"]}]},
    ],
)
def test_schemas_that_the_data_chooses_in_are_left_to_fastavro(schema: Any) -> None:
    assert avro_type(parsed_schema(json.dumps(schema))) is None


def records_within(depth: int) -> Any:
    """A record with two fields of the same record, which has two fields of the next, and so on."""
    schema: Any = {"type": "record", "name": "R0", "fields": [{"name": "x", "type": "int", "default": 0}]}
    for level in range(1, depth):
        fields = [{"name": "a", "type": schema}, {"name": "b", "type": schema["name"], "default": {}}]
        schema = {"type": "record", "name": f"R{level}", "fields": fields}
    return schema


def test_a_schema_with_very_many_types_is_left_to_fastavro() -> None:
    assert avro_type(parsed_schema(json.dumps(records_within(4)))) is not None
    assert avro_type(parsed_schema(json.dumps(records_within(40)))) is None


@pytest.mark.parametrize("depth", [90, 150, 210, 400])
def test_a_schema_that_is_nested_deeply_is_left_to_fastavro(depth: int) -> None:
    schema: Any = "int"
    data: Any = 7
    for _ in range(depth):
        schema, data = {"type": "array", "items": schema}, [data]
    assert outcome(schema, data, native=True) == outcome(schema, data, native=False)


def test_a_list_that_changes_while_it_is_written_is_left_to_fastavro() -> None:
    data = [1, 2, 3]

    def prepare(item: Any) -> Any:
        data.clear()
        return item

    items = AvroType(kind=AvroKind.LONG, prepare=prepare)
    assert avro_values(AvroType(kind=AvroKind.ARRAY, children=[items]))(b"", data) is None


def test_data_that_holds_itself_is_left_to_fastavro() -> None:
    data: list[Any] = []
    data.append(data)
    nested: AvroType = AvroType(kind=AvroKind.ARRAY, children=[AvroType(kind=AvroKind.LONG)])
    for _ in range(50):
        nested = AvroType(kind=AvroKind.ARRAY, children=[nested])
    assert avro_values(nested)(b"", data) is None


@pytest.mark.parametrize(
    "wrong",
    [
        AvroType(kind=AvroKind.DECIMAL),
        AvroType(kind=AvroKind.ARRAY),
        AvroType(kind=AvroKind.RECORD, names=["a"], children=[AvroType(kind=AvroKind.LONG)]),
        AvroType(
            kind=AvroKind.RECORD,
            names=["a"],
            defaults=["x"],  # type: ignore[list-item]
            children=[AvroType(kind=AvroKind.LONG)],
        ),
    ],
)
def test_a_type_that_is_not_whole_is_refused(wrong: AvroType) -> None:
    with pytest.raises(ValueError, match=r"Avro type|types below it|a default is"):
        avro_values(wrong)
