"""Columns become the same bytes as the same rows one by one, in Python and in C."""

from __future__ import annotations

import io
import json
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from avro_columns import CASES, SYMBOLS, Case, for_fastavro
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from long_forms import LONG

from ottla_accel.avro_rows import avro_rows
from ottla_accel.plugin import NativeEncoder
from ottla_serializer_schema_registry.avro.format import AvroFormat
from ottla_serializer_schema_registry.avro.rows import ColumnWriter
from ottla_serializer_schema_registry.avro.schema import parsed_schema
from ottla_serializer_schema_registry.registry.references import NamedText

PREFIX = b"\0\0\0\1\2"


def one_by_one(schema: Any, cell: Any) -> bytes | None:
    """The bytes of a value that is sent alone."""
    return None if cell is None else AvroFormat().parse(json.dumps(schema), ()).encode(cell, PREFIX)


@pytest.fixture(params=[None, avro_rows], ids=["python", "c"])
def write(request: pytest.FixtureRequest) -> Any:
    """The encoder's `avro_rows`, or none."""
    return request.param


def rows(schema: Any, column: Any, write: Any) -> list[bytes | None]:
    made = ColumnWriter(parsed_schema(json.dumps(schema))).rows(column, PREFIX, write)
    made.validate(full=True)
    return list(made.to_pylist())


@settings(max_examples=10_000 if LONG else 80, deadline=None, suppress_health_check=list(HealthCheck))
@given(case=CASES, data=st.data())
def test_columns_have_the_bytes_of_single_rows(write: Any, case: Case, data: st.DataObject) -> None:
    cells = data.draw(st.lists(st.none() | case.cells, max_size=6))
    start = data.draw(st.integers(0, len(cells)))
    column = pa.array(cells, case.kind)[start:]
    expected = [one_by_one(case.schema, for_fastavro(cell, case.kind)) for cell in cells[start:]]
    assert rows(case.schema, column, write) == expected


VIEWS = pa.array(["RED", None, "BLUE"], pa.string_view())
MAYBE_TEXT = ["null", "string"]


@pytest.mark.parametrize(
    ("schema", "values"),
    [
        (MAYBE_TEXT, VIEWS),
        (["null", {"type": "enum", "name": "E", "symbols": SYMBOLS}], VIEWS),
        (["null", "bytes"], VIEWS.cast(pa.binary_view())),
        ({"type": "array", "items": MAYBE_TEXT}, pa.ListArray.from_arrays([0, 2, 2, 3], VIEWS)),
        (
            {"type": "record", "name": "R", "fields": [{"name": "a", "type": MAYBE_TEXT}]},
            pa.StructArray.from_arrays([pa.DictionaryArray.from_arrays(pa.array([2, 1, 0]), VIEWS)], ["a"]),
        ),
    ],
    ids=["text", "enum", "bytes", "list", "record"],
)
def test_a_dictionary_of_views_has_the_bytes_of_its_rows(write: Any, schema: Any, values: Any) -> None:
    column = pa.DictionaryArray.from_arrays(pa.array([2, 0, 1, 2], pa.uint8()), values)

    assert rows(schema, column, write) == [one_by_one(schema, cell) for cell in column.to_pylist()]


RUNS = pa.array([1, 3, 6], pa.int32())
TEXTS = pa.array(["RED", None, "BLUE"])


@pytest.mark.parametrize(
    "values",
    [
        TEXTS.dictionary_encode(),
        VIEWS,
        pa.ExtensionArray.from_storage(pa.opaque(pa.string(), "color", "a test"), TEXTS),
        pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array([None, "BLUE"])),
    ],
    ids=["dictionary", "views", "extension", "runs"],
)
def test_runs_of_packed_values_have_the_bytes_of_their_rows(write: Any, values: Any) -> None:
    column = pa.RunEndEncodedArray.from_arrays(RUNS, values)[2:]

    assert rows(MAYBE_TEXT, column, write) == [one_by_one(MAYBE_TEXT, cell) for cell in (None, "BLUE", "BLUE", "BLUE")]


DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}
PRICE = {"type": "record", "name": "Price", "fields": [{"name": "amount", "type": DECIMAL}]}
AMOUNT = pa.decimal128(12, 2)
SHORTEST = {
    -128: "80",
    -32768: "8000",
    -(1 << 39): "8000000000",
    -129: "ff7f",
    -1: "ff",
    127: "7f",
    128: "0080",
    0: "00",
}
"""What Java's `BigInteger.toByteArray` returns."""


@pytest.mark.parametrize(
    ("schema", "of", "kind"),
    [
        (DECIMAL, lambda amount: amount, AMOUNT),
        (["string", DECIMAL], lambda amount: amount, AMOUNT),
        ({"type": "array", "items": ["null", DECIMAL]}, lambda amount: [amount], pa.list_(AMOUNT)),
        ({"type": "map", "values": DECIMAL}, lambda amount: {"a": amount}, pa.map_(pa.string(), AMOUNT)),
        (PRICE, lambda amount: {"amount": amount}, pa.struct({"amount": AMOUNT})),
        (["int", PRICE], lambda amount: {"amount": amount}, pa.struct({"amount": AMOUNT})),
        (
            {
                "type": "record",
                "name": "Sale",
                "fields": [{"name": "a", "type": PRICE}, {"name": "b", "type": "Price"}],
            },
            lambda amount: {"a": {"amount": amount}, "b": {"amount": amount}},
            pa.struct({"a": pa.struct({"amount": AMOUNT}), "b": pa.struct({"amount": AMOUNT})}),
        ),
    ],
)
def test_decimals_are_as_short_as_java_writes_them(write: Any, schema: Any, of: Any, kind: Any) -> None:
    values = [of(Decimal(cents).scaleb(-2)) for cents in SHORTEST]

    column = rows(schema, pa.array(values, kind), write)

    assert column == [one_by_one(schema, value) for value in values]
    for row, value, shortest in zip(column, values, map(bytes.fromhex, SHORTEST.values()), strict=True):
        assert row is not None
        if schema is DECIMAL:  # bytes alone have no length
            assert row == PREFIX + shortest
        else:
            assert bytes([2 * len(shortest)]) + shortest in row
            assert fastavro.schemaless_reader(io.BytesIO(row[len(PREFIX) :]), schema) == value


@pytest.mark.parametrize(
    ("schema", "data", "kind", "expected"),
    [
        ("bytes", bytearray(b"abc"), pa.binary(), b"abc"),
        ("bytes", bytes(200), pa.large_binary(), bytes(200)),
        ({"type": "bytes", "doc": "a photo"}, b"", pa.binary(), b""),
        ({"type": "bytes", "doc": "a photo"}, bytearray(200), pa.binary(200), bytes(200)),
        (DECIMAL, Decimal("1.28"), AMOUNT, b"\0\x80"),
        ({**DECIMAL, "precision": 38}, Decimal(10**35), pa.decimal128(38, 2), (10**37).to_bytes(16, "big")),
    ],
)
@pytest.mark.parametrize("native", [False, True], ids=["python", "c"])
def test_bytes_alone_have_no_length(native: bool, schema: Any, data: Any, kind: Any, expected: bytes) -> None:
    """Confluent's readers ask for the type only, and take all that follows the id."""
    made = AvroFormat()
    if native:
        made.use_encoder(NativeEncoder())
    parsed = made.parse(json.dumps(schema), ())

    assert parsed.encode(data, PREFIX) == PREFIX + expected
    column = pa.array([data, None], kind)
    assert rows(schema, column, avro_rows if native else None) == [PREFIX + expected, None]


def test_decimals_of_a_schema_that_is_referred_to_are_as_short() -> None:
    referring = AvroFormat().parse(json.dumps("Price"), [NamedText(name="price", text=json.dumps(PRICE))])

    assert referring.encode({"amount": Decimal("-1.28")}, PREFIX) == PREFIX + b"\2\x80"


def test_fastavro_writes_for_other_programs_as_before() -> None:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, DECIMAL, Decimal("-1.28"))

    assert one_by_one(["null", DECIMAL], Decimal("-1.28")) == PREFIX + b"\2\2\x80"
    assert out.getvalue() == b"\4\xff\x80"
