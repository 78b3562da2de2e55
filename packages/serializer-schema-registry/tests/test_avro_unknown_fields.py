"""Data with a field that its Avro schema lacks is refused, with and without the encoder, or written without it."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest
from hostile_registry import Hostile, hostile_server

from ottla.errors import SerializationError
from ottla_accel.plugin import NativeEncoder
from ottla_serializer_schema_registry.avro.format import AvroFormat
from ottla_testkit.mock_producer import MockProducer

hostile = hostile_server

ADDRESS = {
    "type": "record",
    "name": "shop.Address",
    "fields": [{"name": "city", "type": "string", "default": ""}, {"name": "next", "type": ["null", "Address"]}],
}
PERSON = {"type": "record", "name": "Person", "fields": [{"name": "born", "type": "int", "default": 0}]}


def record(*fields: Any) -> Any:
    return {"type": "record", "name": "R", "fields": list(fields)}


def amount() -> Any:
    return record({"name": "amount", "type": "int", "default": 0}, {"name": "id", "type": "int"})


def encoded(schema: Any, data: Any, *, native: bool = False, ignores: bool = False) -> bytes:
    made = AvroFormat(ignores_unknown_fields=ignores)
    if native:
        made.use_encoder(NativeEncoder())
    return made.parse(json.dumps(schema), ()).encode(data, b"p")


@pytest.mark.parametrize("native", [False, True], ids=["python", "c"])
@pytest.mark.parametrize(
    ("schema", "data", "field"),
    [
        (amount(), {"amuont": 5, "id": 1}, "'amuont'; did you mean 'amount'?"),
        (amount(), {"id": 1, "other": 5}, "'other' (avro.ignore.unknown.fields=true"),
        (amount(), {"id": 1, 7: 5}, "'[7]'"),
        (
            record({"name": "at", "type": ADDRESS}),
            {"at": {"ctiy": "x", "next": None}},
            "'at.ctiy'; did you mean 'city'",
        ),
        (record({"name": "at", "type": ADDRESS}), {"at": {"next": {"town": "x"}}}, "'at.next.town'"),
        (record({"name": "at", "type": ["null", PERSON]}), {"at": {"name": "x"}}, "'at.name'"),
        (
            record({"name": "at", "type": {"type": "array", "items": PERSON}}),
            {"at": [{}, {"bron": 1}]},
            "'at[].bron'; did you mean 'born'",
        ),
        (record({"name": "at", "type": {"type": "map", "values": PERSON}}), {"at": {"x": {"y": 1}}}, "'at[].y'"),
        (
            record({"name": "at", "type": [PERSON, ADDRESS]}),
            {"at": {"city": "x", "born": 1, "next": None}},
            "'at.born'",
        ),
        (record({"name": "at", "type": ["null", PERSON, ADDRESS]}), {"at": ("Person", {"city": "x"})}, "'at.city'"),
        ({"type": "array", "items": PERSON}, [{"city": "x"}], "'[].city'"),
        ([PERSON, "string"], {"city": "x"}, "'city'"),
    ],
)
def test_a_field_that_the_schema_lacks_is_named(schema: Any, data: Any, field: str, native: bool) -> None:
    with pytest.raises(ValueError, match="does not fit its Avro schema: the schema has no field ") as caught:
        encoded(schema, data, native=native)

    assert f"has no field {field}" in str(caught.value)
    assert encoded(schema, data, native=native, ignores=True) == encoded(schema, data, ignores=True)


@pytest.mark.parametrize("native", [False, True], ids=["python", "c"])
@pytest.mark.parametrize(
    ("schema", "data", "expected"),
    [
        (record({"name": "at", "type": ADDRESS}), {"at": {"-type": "shop.Address", "city": "x"}}, b"\2x\0"),
        (record({"name": "at", "type": [PERSON, ADDRESS]}), {"at": {"-type": "shop.Address", "next": None}}, b"\2\0\0"),
        (record({"name": "at", "type": [PERSON, ADDRESS]}), {"at": {"city": "x", "next": None}}, b"\2\2x\0"),
        (record({"name": "at", "type": [PERSON, ADDRESS]}), {"at": ("Person", {"born": 1})}, b"\0\2"),
        (record({"name": "at", "type": [PERSON, {"type": "map", "values": "int"}]}), {"at": {"x": 1}}, b"\2\2\2x\2\0"),
        (record({"name": "optional", "type": ["null", "int"]}), {}, b"\0"),
        ({"type": "map", "values": "int"}, {"amuont": 1}, b"\2\x0camuont\2\0"),
    ],
)
def test_data_that_fits_is_written_as_before(schema: Any, data: Any, expected: bytes, native: bool) -> None:
    assert encoded(schema, data, native=native) == b"p" + expected


@pytest.mark.parametrize("native", [False, True], ids=["python", "c"])
def test_the_error_of_a_field_that_is_missing_names_its_misspelling(native: bool) -> None:
    schema = record({"name": "amount", "type": "int"})
    with pytest.raises(
        ValueError, match=r"amount is None, expected int; the schema has no field 'amuont'; did you mean"
    ):
        encoded(schema, {"amuont": 5}, native=native)


def test_a_decimal_in_a_union_of_records_is_not_computed() -> None:
    """fastavro would compute the power of ten to find the branch."""
    from decimal import Decimal

    cents = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}
    of_cents = {"type": "record", "name": "C", "fields": [{"name": "price", "type": cents}]}
    with pytest.raises(ValueError, match="more than the 2 digits"):
        encoded(record({"name": "at", "type": [PERSON, of_cents]}), {"at": {"price": Decimal("1E+999999999")}})


def test_a_pickled_format_ignores_what_its_original_does() -> None:
    made = pickle.loads(pickle.dumps(AvroFormat(ignores_unknown_fields=True)))

    assert made.parse(json.dumps(amount()), ()).encode({"id": 1, "x": 1}, b"p") == b"p\0\2"


@pytest.mark.parametrize("encoder", ["python", "native"])
def test_the_setting_of_a_producer_leaves_unknown_fields_out(hostile: Hostile, encoder: str) -> None:
    settings = {
        "value.serializer": "avro",
        "value.schema": json.dumps(amount()),
        "schema.registry.url": hostile.address,
        "record.encoder": encoder,
    }
    with MockProducer(settings) as producer, pytest.raises(SerializationError, match="did you mean 'amount'"):
        producer.send("orders", {"amuont": 5, "id": 1})
    with MockProducer({**settings, "avro.ignore.unknown.fields": True}) as producer:
        producer.send("orders", {"amuont": 5, "id": 1})

    assert [each.value for each in producer.history] == [b"\0\0\0\0\7\0\2"]
