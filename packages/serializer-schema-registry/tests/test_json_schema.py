"""JSON with a schema: one form for what fits, by `send` and in columns; a schema reaches nothing but the registry."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import RowSerializationError
from ottla.plugins.serializers import json_columns
from ottla.plugins.serializers.json import JsonSerializer
from ottla_accel.json_rows import objects
from ottla_serializer_schema_registry import InvalidSchemaError
from ottla_serializer_schema_registry.json_schema import columns
from ottla_serializer_schema_registry.json_schema.schema import parsed_schema
from ottla_serializer_schema_registry.registry.references import NamedText

STRICT = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "name": {"type": ["string", "null"]},
        "tags": {"items": {"type": "string"}},
    },
    "required": ["id"],
    "additionalProperties": False,
}


def encoded(schema: Any, data: Any) -> str:
    return parsed_schema(json.dumps(schema)).encode(data).decode()


def texts(schema: Any, column: Any) -> list[str | None]:
    found = [
        columns.texts(parsed_schema(json.dumps(schema)), column, rows=rows).to_pylist() for rows in (None, objects)
    ]
    assert found[0] == found[1]
    return list(found[0])


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ({"id": 1, "name": None}, '{"id":1}'),
        ({"id": 1, "name": "null"}, '{"id":1,"name":"null"}'),
        ({"id": 1, "tags": ("a", "ü\x0f\\u000f")}, '{"id":1,"tags":["a","ü\\u000F\\\\u000f"]}'),
        ({"id": Decimal("7.00")}, '{"id":7.00}'),
    ],
)
def test_data_that_fits_is_sent_without_its_nulls(data: Any, text: str) -> None:
    assert encoded(STRICT, data) == text


def test_a_null_that_the_schema_demands_is_sent() -> None:
    demanding = {**STRICT, "required": ["id", "name"]}
    assert encoded(demanding, {"id": 1, "name": None}) == '{"id":1,"name":null}'
    assert texts(demanding, pa.array([{"id": 1, "name": None}, {"id": 2, "name": "x"}])) == [
        '{"id":1,"name":null}',
        '{"id":2,"name":"x"}',
    ]


OPTIONAL = {"properties": {"a": {"type": ["string", "null"]}, "b": {"type": "string"}}, "required": ["a"]}
ROWS = {"type": "array", "items": {"type": "array", "items": OPTIONAL}}
NULLS = pa.struct([("a", pa.string()), ("b", pa.string())])


@pytest.mark.parametrize(
    ("schema", "data", "kind", "text"),
    [
        (OPTIONAL, {"a": None, "b": None}, NULLS, '{"a":null}'),
        (OPTIONAL, {"b": None, "a": "null"}, NULLS, '{"a":"null"}'),
        (ROWS, [[{"a": None, "b": "x"}, {"a": "", "b": None}]], pa.list_(pa.list_(NULLS)), None),
        ({"minProperties": 1, **OPTIONAL, "required": []}, {"a": None, "b": None}, NULLS, '{"a":null}'),
        (
            {"properties": {"amount": {"type": "number"}}, "required": ["a"]},
            {"amount": Decimal("0.10000000000000000000000"), "a": None},
            pa.struct([("amount", pa.decimal128(38, 23)), ("a", pa.string())]),
            '{"amount":0.10000000000000000000000,"a":null}',
        ),
        (
            {"required": ["a"]},
            {"m": {"k": {"x": 0.1, "y": None}}, "a": None},
            pa.struct(
                [("m", pa.map_(pa.string(), pa.struct([("x", pa.float32()), ("y", pa.int8())]))), ("a", pa.int8())]
            ),
            '{"m":{"k":{"x":0.1}},"a":null}',
        ),
    ],
)
def test_a_null_is_sent_only_where_the_schema_demands_it(schema: Any, data: Any, kind: Any, text: str | None) -> None:
    text = text or '[[{"a":null,"b":"x"},{"a":""}]]'
    assert encoded(schema, data) == text
    assert texts(schema, pa.array([data, None, data], kind)) == [text, None, text]


@pytest.mark.parametrize(
    "data",
    [
        *map(Decimal, ("1.10", "123456789012345678901.5", "0.1000000000000000000001", "1E+400", "1E-400", "-0.0")),
        {"a": [Decimal("NaN"), float("-inf"), time(1), bytearray(b"a"), UUID(int=1)], date(2026, 1, 2): (None, 1.5)},
    ],
    ids=str,
)
def test_data_has_the_form_of_the_serializer_json(data: Any) -> None:
    for each in (data, {"a": data, "b": None}):
        assert encoded({}, each).encode() == JsonSerializer().serialize("t", each, ())


@pytest.mark.timeout(60)
@pytest.mark.parametrize("digits", ["1E+1000000", "-1E+1000001", "1E-999999999", "0E+999999999"])
def test_a_short_decimal_with_very_many_digits_is_refused_at_once(digits: str) -> None:
    """Python's int of it takes minutes, in which no other thread runs."""
    with pytest.raises(ValueError, match="digits"):
        encoded({}, {"a": Decimal(digits)})


def test_dates_and_bytes_are_checked_as_the_text_that_is_sent() -> None:
    schema = {"items": {"type": "string", "maxLength": 24}}
    data = [date(2026, 1, 2), datetime(2026, 1, 2, tzinfo=UTC), b"\xff"]
    assert encoded(schema, data) == '["2026-01-02","2026-01-02T00:00:00.000Z","/w=="]'


@pytest.mark.parametrize("data", [{}, {"id": "1"}, {"id": 1, "x": 2}, {"id": 1, "tags": [None]}, {"id": float("nan")}])
def test_data_that_does_not_fit_is_refused_with_its_place(data: Any) -> None:
    with pytest.raises(ValueError, match="does not fit its JSON schema"):
        encoded(STRICT, data)


NULLABLE = {"type": ["string", "null"]}
ENTRY = {"type": "object", "properties": {"a": NULLABLE, "b": {"type": "string"}}, "required": ["a"]}


@pytest.mark.parametrize("name", ["0", "4711", "007", "+5", "", "-1", "18446744073709551616"])
def test_a_name_that_is_a_number_or_empty_has_its_nulls_and_its_place(name: str) -> None:
    nullable = parsed_schema(json.dumps({"additionalProperties": ENTRY}))
    strict = parsed_schema(json.dumps({"additionalProperties": {"additionalProperties": False}}))

    assert json.loads(nullable.encode({name: {"a": None, "b": None}})) == {name: {"a": None}}
    with pytest.raises(ValueError, match="Additional properties are not allowed") as refused:
        strict.encode({name: {"x": 1}})
    assert repr(name) in str(refused.value) or not name


@pytest.mark.parametrize("data", [object(), {"id": object()}, {1j: 2}])
def test_data_that_is_no_json_is_refused(data: Any) -> None:
    with pytest.raises(TypeError):
        encoded({}, data)


def test_data_that_holds_itself_is_refused() -> None:
    data: list[Any] = []
    data.append(data)
    with pytest.raises(ValueError, match=r"holds itself|Circular"):
        encoded({}, data)


def test_a_schema_reads_no_file_and_asks_no_server(tmp_path: Path) -> None:
    file = tmp_path / "secret.json"
    file.write_text('{"type": "string"}')
    for reference in (file.as_uri(), "http://127.0.0.1:9/x.json", "https://example.com/x.json", "x.json"):
        for drawn in ({}, {"$schema": "https://json-schema.org/draft/2020-12/schema"}):
            with pytest.raises(InvalidSchemaError):
                parsed_schema(json.dumps({**drawn, "$ref": reference}))


@pytest.mark.parametrize("data", [7, None, {"a": None}, ["x"]])
def test_a_schema_that_is_only_true_takes_any_data(data: Any) -> None:
    assert encoded(True, data) == json.dumps(data, separators=(",", ":")).replace('{"a":null}', "{}")


@pytest.mark.parametrize("data", [7, None, {}])
def test_a_schema_that_is_only_false_takes_no_data(data: Any) -> None:
    with pytest.raises(ValueError, match="does not fit its JSON schema"):
        encoded(False, data)


@pytest.mark.parametrize("text", ["", "7", "[]", '{"type": "nothing"}', '{"pattern": "("}', "[" * 100_000])
def test_a_text_that_is_no_schema_has_one_error(text: str) -> None:
    with pytest.raises(InvalidSchemaError):
        parsed_schema(text)


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        (pa.int64(), "it of type int64 is integer in JSON, where its schema says object"),
        (
            pa.struct([("id", pa.string())]),
            "column 'id' of type string is string in JSON, where",
        ),
        (pa.struct([("id", pa.int64()), ("x", pa.int64())]), "column 'x' is not in its JSON schema"),
        (pa.struct([("name", pa.string())]), "there is no column for 'id'"),
        (pa.struct([("id", pa.int8()), ("tags", pa.list_(pa.int8()))]), r"column 'tags\[\]' of type int8"),
        (pa.duration("s"), "has no JSON form"),
    ],
)
def test_a_column_that_never_fits_is_refused_by_its_type(kind: Any, problem: str) -> None:
    with pytest.raises(TypeError, match=problem):
        texts(STRICT, pa.array([], kind))


def test_a_row_that_does_not_fit_is_refused_alone() -> None:
    column = pa.array([{"id": 1}, {"id": None}, None, {"id": 4}])
    with pytest.raises(RowSerializationError) as caught:
        texts(STRICT, column)
    assert list(caught.value.rows) == [1]
    with pytest.raises(RowSerializationError) as caught:
        texts({"minimum": 3}, pa.array([1, 3, None, 2]))
    assert list(caught.value.rows) == [0, 3]
    with pytest.raises(RowSerializationError, match=r"row 1: .*\"NaN\" is not of type"):
        texts({"type": "number"}, pa.array([1.0, float("nan")], pa.float64()))


def test_a_date_that_python_lacks_is_checked_as_its_text() -> None:
    column = pa.array([2**31 - 1, 0], pa.int32()).cast(pa.date32())

    assert texts({"maxLength": 14}, column) == ['"+5881580-07-11"', '"1970-01-01"']
    with pytest.raises(RowSerializationError, match=r"row 0: .*5881580-07-11") as caught:
        texts({"maxLength": 10}, column)
    assert list(caught.value.rows) == [0]


KINDS = st.recursive(
    st.sampled_from([pa.int32(), pa.float64(), pa.string(), pa.bool_(), pa.dictionary(pa.int8(), pa.string())]),
    lambda inner: st.one_of(
        inner.map(pa.list_),
        inner.map(lambda kind: pa.list_(kind, 2)),
        inner.map(pa.list_view),
        inner.map(lambda kind: pa.map_(pa.string(), kind)),
        st.lists(st.tuples(inner, st.booleans()), min_size=1, max_size=3).map(
            lambda kinds: pa.struct(
                [pa.field(f"f{number}", kind, nullable) for number, (kind, nullable) in enumerate(kinds)]
            )
        ),
    ),
    max_leaves=5,
)


def cells(kind: Any) -> st.SearchStrategy[Any]:
    """Cells of a type, with nulls wherever they may be."""
    if pa.types.is_struct(kind):
        fields = {
            field.name: cells(field.type) if field.nullable else cells(field.type).filter(lambda cell: cell is not None)
            for field in map(kind.field, range(kind.num_fields))
        }
        return st.none() | st.fixed_dictionaries(fields)
    if pa.types.is_map(kind):
        return st.none() | st.dictionaries(st.text(max_size=3), cells(kind.item_type), max_size=2).map(
            lambda made: list(made.items())
        )
    if pa.types.is_fixed_size_list(kind):
        return st.none() | st.lists(cells(kind.value_type), min_size=2, max_size=2)
    if pa.types.is_list(kind) or pa.types.is_list_view(kind):
        return st.none() | st.lists(cells(kind.value_type), max_size=2)
    plain = {pa.int32(): st.integers(-9, 9), pa.float64(): st.floats(), pa.bool_(): st.booleans()}
    return st.none() | plain.get(kind, st.text(max_size=3))


@pytest.mark.parametrize("kind", [pa.list_(pa.int8(), 2), pa.list_view(pa.int8()), pa.large_list_view(pa.int8())])
def test_lists_of_every_arrow_type_are_arrays(kind: Any) -> None:
    array = {"type": "array", "items": {"type": "integer"}}
    column = pa.array([[1, 2], None], kind)

    assert texts(array, column) == ["[1,2]", None]
    assert json.loads(columns.json_schema(kind, title="t"))["items"] == {"type": ["integer", "null"]}
    with pytest.raises(TypeError, match="'\\[\\]' of type int8 is integer in JSON, where its schema says string"):
        texts({"type": "array", "items": {"type": "string"}}, column)


def test_a_category_of_polars_fits_a_schema_of_text() -> None:
    column = pa.DictionaryArray.from_arrays(pa.array([1, None, 0], pa.uint8()), pa.array(["a", "b"], pa.string_view()))

    assert texts({"type": "string"}, column) == ['"b"', None, '"a"']


def test_packed_columns_fit_a_schema_as_what_they_stand_for() -> None:
    ids = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([bytes(16), None], pa.binary(16)))
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([1, 2], pa.int32()), pa.array([1, 2]))
    column = pa.StructArray.from_arrays([ids, runs], ["id", "run"])
    schema = {"properties": {"id": {"type": "string"}, "run": {"type": "integer"}}, "required": ["run"]}

    zeros = "00000000-0000-0000-0000-000000000000"
    assert texts(schema, column) == [f'{{"id":"{zeros}","run":1}}', '{"run":2}']
    assert encoded(schema, {"id": UUID(int=0), "run": 1}) == f'{{"id":"{zeros}","run":1}}'
    properties = json.loads(columns.json_schema(column.type, title="t"))["properties"]
    assert properties == {"id": {"type": "string"}, "run": {"type": "integer"}}
    with pytest.raises(TypeError, match="column 'run' of type int64 is integer in JSON, where its schema says string"):
        texts({"properties": {"run": {"type": "string"}}}, column)


@pytest.mark.parametrize(
    "field",
    [
        pa.RunEndEncodedArray.from_arrays(pa.array([1, 2], pa.int32()), pa.array(["a", None])),
        pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array(["a", None])),
    ],
    ids=["runs", "dictionary"],
)
def test_a_null_among_packed_values_is_one_that_a_schema_may_refuse(field: Any) -> None:
    column = pa.StructArray.from_arrays([field], ["a"])
    with pytest.raises(RowSerializationError) as caught:
        texts({"properties": {"a": {"type": "string"}}, "required": ["a"]}, column)
    assert list(caught.value.rows) == [1]


@given(kind=KINDS, data=st.data())
def test_a_column_certainly_fits_only_if_each_row_does(kind: Any, data: st.DataObject) -> None:
    column = pa.array(data.draw(st.lists(cells(kind), max_size=4)), kind)
    schema = parsed_schema(columns.json_schema(kind, title="t"))
    made = json_columns.texts(column)
    fit = all(schema.problem(text) is None for text in made.to_pylist() if text is not None)
    assert fit or not columns.certainly_fits(schema.schema, column)
    assert fit or any(number in str(made) for number in ('"NaN"', 'Infinity"')), (
        "the schema of columns takes their nulls"
    )


@pytest.mark.parametrize(
    ("kind", "cell", "items"),
    [
        (pa.list_(pa.int64()), [1, None], {"items": {"type": ["integer", "null"]}}),
        (pa.list_(pa.field("item", pa.int64(), nullable=False)), [1], {"items": {"type": "integer"}}),
        (pa.map_(pa.string(), pa.int8()), [("a", None)], {"additionalProperties": {"type": ["integer", "null"]}}),
        (pa.list_(pa.null()), [None], {"items": {"type": "null"}}),
        (
            pa.list_(pa.struct([("a", pa.dictionary(pa.int8(), pa.string()))])),
            [None, {"a": None}, {"a": "x"}],
            {"items": {"type": ["object", "null"], "properties": {"a": {"type": "string"}}, "required": []}},
        ),
    ],
    ids=str,
)
def test_the_schema_of_columns_takes_their_nulls(kind: Any, cell: Any, items: Any) -> None:
    schema = json.loads(columns.json_schema(kind, title="t"))
    column = pa.array([cell, None], kind)

    assert items.items() <= schema.items()
    assert texts(schema, column) == json_columns.texts(column).to_pylist()
    assert columns.certainly_fits(schema, column) or pa.types.is_map(kind)


ADDRESS = {"type": "object", "properties": {"zip": {"type": "string"}}, "required": ["zip"]}


@pytest.mark.parametrize("drawn", [{}, {"$schema": "https://json-schema.org/draft/2020-12/schema"}])
@pytest.mark.parametrize(
    ("root", "named"),
    [
        ({}, {"address.json": ADDRESS}),
        ({"$id": "http://acme.example/order.json"}, {"address.json": ADDRESS}),
        ({"$id": "order.json"}, {"address.json": ADDRESS}),
        (
            {"$id": "http://acme.example/order.json"},
            {"address.json": ADDRESS | {"$id": "http://acme.example/address.json"}},
        ),
        (
            {"$id": "http://acme.example/order.json"},
            {"address.json": {"$id": "http://other.example/a/", "$ref": "zip.json"}, "zip.json": ADDRESS},
        ),
    ],
    ids=["no id", "id of a root", "relative id", "id of both", "id of the reference"],
)
def test_a_reference_is_found_by_its_name_below_an_id(
    drawn: dict[str, Any], root: dict[str, Any], named: dict[str, Any]
) -> None:
    """A registry has it under the name alone, as for Confluent's serializers in Java."""
    text = json.dumps({**drawn, **root, "properties": {"at": {"$ref": "address.json"}}})
    schema = parsed_schema(text, [NamedText(name=name, text=json.dumps(each)) for name, each in named.items()])

    assert schema.encode({"at": {"zip": "1"}}) == b'{"at":{"zip":"1"}}'
    with pytest.raises(ValueError, match='"zip" is a required property'):
        schema.encode({"at": {}})


TEXT_OR_NULL = {"type": ["string", "null"]}
CLOSED = {"required": ["a"], "properties": {"a": TEXT_OR_NULL}, "additionalProperties": False}


@pytest.mark.parametrize("word", ["anyOf", "oneOf"])
@pytest.mark.parametrize(
    ("other", "data", "sent"),
    [
        ({"required": ["c", "d"]}, {"a": None, "b": None}, {"a": None}),
        ({"properties": {"b": {"type": "null"}}, "required": ["b"]}, {"b": None, "c": "x"}, {"b": None, "c": "x"}),
        ({"required": ["in"], "properties": {"in": CLOSED}}, {"in": {"a": None, "b": None}}, {"in": {"a": None}}),
        (
            {"properties": {"kind": {"const": 2}, "note": {"type": "string"}, "end": {}}, "required": ["kind", "end"]},
            {"kind": 2, "note": None, "end": None},
            {"kind": 2, "end": None},
        ),
    ],
)
def test_nulls_that_a_variant_needs_are_sent_and_no_others(
    word: str, other: dict[str, Any], data: dict[str, Any], sent: dict[str, Any]
) -> None:
    schema = {word: [CLOSED, other]}

    assert json.loads(encoded(schema, data)) == sent


def test_a_tree_of_variants_is_checked_in_time() -> None:
    """Each level of the data is a choice: two steps for each choice would be 2^40."""
    node = {"anyOf": [{"type": "string"}, {"required": ["v"], "properties": {"next": {"$ref": "#"}}}]}
    data: dict[str, Any] = {"v": None, "w": 1}
    for _level in range(40):
        data = {"next": data, "v": None}

    assert encoded(node, data).count('"v":null') == 41
