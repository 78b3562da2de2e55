"""What has no Avro form is refused: columns by their types, rows by number; and types of Arrow and Avro correspond."""

from __future__ import annotations

import json
import pickle
import re
from datetime import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from avro_columns import CASES, Case
from hypothesis import given, settings

from ottla.errors import RowSerializationError
from ottla_serializer_schema_registry.avro.arrow_types import arrow_type, avro_schema
from ottla_serializer_schema_registry.avro.rows import ColumnWriter
from ottla_serializer_schema_registry.avro.schema import parsed_schema


def record(**fields: Any) -> Any:
    """The schema of a record."""
    return {"type": "record", "name": "R", "fields": [{"name": name, "type": each} for name, each in fields.items()]}


def written(schema: Any, column: Any) -> list[bytes | None]:
    return list(ColumnWriter(parsed_schema(json.dumps(schema))).rows(column, b"", None).to_pylist())


DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 1}
MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
ENUM = {"type": "enum", "name": "E", "symbols": ["A", "B"]}


@pytest.mark.parametrize(
    ("schema", "good", "wrong", "kind"),
    [
        ("int", 2**31 - 1, 2**31, pa.int64()),
        ("int", 0, 2**32 - 1, pa.uint32()),
        ("long", 2**63 - 1, 2**63, pa.uint64()),
        ("double", 2**53, 2**53 + 1, pa.int64()),
        ("float", float("inf"), 1e39, pa.float64()),
        (ENUM, "A", "C", pa.string()),
        (DECIMAL, Decimal("999.9"), Decimal("1000.0"), pa.decimal128(10, 1)),
        (DECIMAL, Decimal("-999.90"), Decimal("0.01"), pa.decimal128(10, 2)),
        (DECIMAL, 999, -1000, pa.int64()),
        (MILLIS, datetime(2026, 1, 1), datetime(2026, 1, 1, microsecond=1), pa.timestamp("us", "UTC")),
        ({"type": "fixed", "name": "F", "size": 2}, b"ab", b"abc", pa.binary()),
        ("string", "", None, pa.string()),
    ],
    ids=str,
)
def test_a_cell_that_does_not_fit_refuses_its_row_alone(schema: Any, good: Any, wrong: Any, kind: Any) -> None:
    inner = pa.struct([("x", kind)])
    outer = pa.struct([("rows", pa.list_(inner))])
    cells = [
        {"rows": []},
        {"rows": [{"x": good}, {"x": wrong}]},
        None,
        {"rows": [{"x": good}]},
        {"rows": [{"x": wrong}]},
    ]
    its_schema = record(rows={"type": "array", "items": {**record(x=schema), "name": "S"}})
    with pytest.raises(RowSerializationError) as caught:
        written(its_schema, pa.array([cells[0], *cells], pa.struct(outer))[1:])
    assert sorted(caught.value.rows) == [1, 4]
    assert all("rows[].x" in why for why in caught.value.rows.values())
    kept = [cell for place, cell in enumerate(cells) if place not in (1, 4)]
    assert None not in written(its_schema, pa.array(kept, outer))[:1]


def test_cells_below_a_null_refuse_nothing() -> None:
    below = pa.StructArray.from_arrays([pa.array([2**31, 7])], names=["x"], mask=pa.array([True, False]))
    column = pa.StructArray.from_arrays([below], names=["s"])
    schema = record(s=["null", {**record(x="int"), "name": "S"}])
    assert written(schema, column) == [b"\0", b"\2\x0e"]


@pytest.mark.parametrize(
    ("schema", "kind", "problem"),
    [
        ("int", pa.string(), "of type string cannot be encoded as Avro's 'int'"),
        (record(a="int"), pa.struct([("a", pa.int32()), ("b", pa.int32())]), "has no field 'b'"),
        (record(a="int", b="int"), pa.struct([("a", pa.int32())]), "no column for the field 'b'"),
        (record(a="int"), pa.struct([("a", pa.binary())]), "column 'a' of type binary"),
        (record(a={"type": "array", "items": "int"}), pa.struct([("a", pa.list_(pa.string()))]), r"column 'a\[\]'"),
        (record(a=["null", "int"]), pa.struct([("a", pa.float64())]), "column 'a' of type double"),
        (record(a=["null", "int", "string"]), pa.struct([("a", pa.float64())]), "column 'a' of type double"),
        ("long", pa.timestamp("us"), "cannot be encoded as Avro's 'long'"),
        (MILLIS, pa.timestamp("ms"), "cannot be encoded as Avro's 'timestamp-millis'"),
        ("string", pa.list_(pa.string()), "cannot be encoded as Avro's 'string'"),
    ],
)
def test_a_type_that_does_not_fit_is_refused_before_there_are_rows(schema: Any, kind: Any, problem: str) -> None:
    with pytest.raises(TypeError, match=problem):
        written(schema, pa.array([], kind))


def test_fields_that_the_columns_lack_get_their_defaults() -> None:
    fields = [
        {"name": "a", "type": "int"},
        {"name": "b", "type": ["null", "string"], "default": None},
        {"name": "c", "type": "bytes", "default": "\u00ff"},
        {"name": "d", "type": {"type": "array", "items": "int"}, "default": []},
    ]
    schema = {"type": "record", "name": "R", "fields": fields}
    with pytest.raises(TypeError, match="'c'"):  # fastavro cannot write it in `send`, either
        written(schema, pa.array([{"a": 7}], pa.struct([("a", pa.int32())])))
    del fields[2]
    assert written(schema, pa.array([{"a": 7}], pa.struct([("a", pa.int32())]))) == [b"\x0e\0\0"]


def test_the_branch_of_a_union_is_that_of_the_type() -> None:
    schema = record(a=["null", "string", "long"])
    assert written(schema, pa.array([{"a": 7}, {"a": None}])) == [b"\4\x0e", b"\0"]
    assert written(schema, pa.array([{"a": "x"}])) == [b"\2\2x"]


@pytest.mark.parametrize(
    ("branches", "kind", "cell", "chosen"),
    [
        (["float", "double"], pa.float64(), 0.1, 1),
        (["float", "double"], pa.float32(), 0.5, 0),
        (["int", "long"], pa.int64(), 2**40, 1),
        (["int", "long"], pa.uint16(), 7, 0),
        (["float", "int"], pa.int32(), 2**24 + 1, 1),
        (["double", "long"], pa.int64(), 2**53 + 1, 1),
        ([ENUM, "string"], pa.string(), "C", 1),
        ([{"type": "fixed", "name": "F", "size": 2}, "bytes"], pa.binary(), b"abc", 1),
        ([MILLIS, {"type": "string"}], pa.timestamp("ms", "UTC"), datetime(2026, 1, 1), 0),
        (
            [MILLIS, {"type": "long", "logicalType": "timestamp-micros"}],
            pa.timestamp("us", "UTC"),
            datetime(2026, 1, 1),
            1,
        ),
        ([DECIMAL, {**DECIMAL, "precision": 20}], pa.decimal128(10, 1), Decimal("12345.6"), 1),
        ([{"type": "array", "items": "int"}, {"type": "array", "items": "long"}], pa.list_(pa.int64()), [2**40], 1),
        (
            [{"type": "map", "values": "int"}, {"type": "map", "values": "long"}],
            pa.map_("string", "int64"),
            [("a", 1)],
            1,
        ),
        (["int"], pa.int64(), 7, 0),
    ],
    ids=str,
)
def test_the_branch_of_a_union_is_the_first_that_holds_all_cells(
    branches: Any, kind: Any, cell: Any, chosen: int
) -> None:
    [made] = written(record(a=branches), pa.array([{"a": cell}], pa.struct([("a", kind)])))
    assert made is not None
    assert made[0] == 2 * chosen


def test_list_views_whose_lists_are_in_any_order_are_written() -> None:
    items = pa.array([1, 2, 3], pa.int32())
    views = pa.ListViewArray.from_arrays(
        pa.array([2, 0, 1, 0], pa.int32()),
        pa.array([1, 2, 0, 3], pa.int32()),
        items,
        mask=pa.array([False] * 3 + [True]),
    )
    schema = record(a=["null", {"type": "array", "items": "int"}])
    expected = [b"\2\2\6\0", b"\2\4\2\4\0", b"\2\0", b"\0"]
    assert written(schema, pa.StructArray.from_arrays([views], ["a"])) == expected
    assert written(schema, pa.StructArray.from_arrays([views], ["a"]).slice(1, 2)) == expected[1:3]


@pytest.mark.parametrize(
    ("kind", "cell"),
    [
        (pa.map_(pa.string(), pa.map_(pa.string(), pa.null())), [("k", [("a", None), ("b", None)])]),
        (pa.list_(pa.large_list(pa.large_list(pa.null())), 1), [[[None], [None, None]]]),
        (pa.list_(pa.map_(pa.string(), pa.struct([("x", pa.null())]))), [[("k", {"x": None})]]),
    ],
    ids=str,
)
def test_nulls_within_lists_and_maps_are_written_from_any_slice(kind: Any, cell: Any) -> None:
    rows = pa.array([{"a": cell}] * 5, pa.struct([("a", kind)]))
    schema = json.loads(avro_schema(rows.type, name="t"))
    [expected] = written(schema, rows.slice(0, 1))
    assert written(schema, rows) == [expected] * 5
    assert written(schema, rows.slice(2, 2)) == [expected] * 2


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        (
            {"a": pa.struct([("b", pa.struct([("x", pa.int32())]))]), "a_b": pa.struct([("y", pa.int32())])},
            ["t", "t_a", "t_a_b", "t_a_b_2"],
        ),
        ({"l": pa.list_(pa.binary(1)), "l_item": pa.binary(2)}, ["t", "t_l_item", "t_l_item_2"]),
        (
            {"m": pa.map_(pa.string(), pa.binary(1)), "m_value_2": pa.binary(2), "m_value": pa.binary(3)},
            ["t", "t_m_value", "t_m_value_2", "t_m_value_3"],
        ),
    ],
    ids=["struct", "list", "map"],
)
def test_types_of_columns_have_different_names(kind: Any, names: list[str]) -> None:
    """Flat columns often have the name of a nested one, such as `address_city`."""
    text = avro_schema(pa.struct(kind), name="t")

    assert re.findall(r'"(?:record|fixed)", "name": "(\w+)"', text) == names
    assert arrow_type(text) == pa.struct(kind)


def test_a_refused_time_that_python_lacks_is_shown_as_its_number() -> None:
    times = pa.array([0, 2**62], pa.int64()).view(pa.timestamp("s", "UTC"))
    with pytest.raises(RowSerializationError, match=r"4611686018427387904 in timestamp\[s, tz=UTC\]") as caught:
        written(record(a=MILLIS), pa.StructArray.from_arrays([times], ["a"]))
    assert list(caught.value.rows) == [1]


@pytest.mark.parametrize("kind", [pa.decimal128(10, 1), pa.int64()], ids=str)
@pytest.mark.parametrize("its", [{"type": "bytes"}, {"type": "fixed", "name": "F", "size": 2000}], ids=str)
def test_a_decimal_of_more_digits_than_columns_have_takes_columns(kind: Any, its: Any) -> None:
    schema = {**its, "logicalType": "decimal", "precision": 1000, "scale": 1}
    [made] = written(record(a=schema), pa.array([{"a": 7}], pa.struct([("a", kind)])))
    assert made in (b"\2\x46", bytes(1999) + b"\x46")
    with pytest.raises(TypeError, match="decimal of 1000 digits"):
        arrow_type(json.dumps(schema))


def test_decimals_that_arrow_cannot_compute_with_are_refused_by_column() -> None:
    with pytest.raises(TypeError, match="column 'a'"):
        written(record(a=DECIMAL), pa.array([{"a": Decimal(1000)}], pa.struct([("a", pa.decimal128(5, -3))])))
    with pytest.raises(TypeError, match="column 'a'"):
        written(
            record(a={**DECIMAL, "precision": 80, "scale": 77}), pa.array([{"a": 1}], pa.struct([("a", pa.int64())]))
        )


def test_a_column_of_numbers_is_written_as_the_times_that_they_are() -> None:
    assert written(record(a=MILLIS), pa.array([{"a": 7}], pa.struct([("a", pa.int64())]))) == [b"\x0e"]


def test_a_logical_type_that_is_not_valid_is_ignored() -> None:
    schema = {"type": "bytes", "logicalType": "decimal"}
    assert arrow_type(json.dumps(schema)) == pa.binary()
    assert arrow_type('{"type": "string", "logicalType": "date"}') == pa.string()
    assert written(record(a=schema), pa.array([{"a": b"x"}])) == [b"\2x"]


def test_a_union_may_have_more_branches_than_a_byte_counts() -> None:
    fixed = [{"type": "fixed", "name": f"F{size}", "size": size} for size in range(1, 71)]
    assert written(record(a=[*fixed, "null"]), pa.array([{"a": None}])) == [b"\x8c\1"]
    kind = pa.struct([("a", pa.binary(70))])
    assert written(record(a=[*fixed, "null"]), pa.array([{"a": b"x" * 70}], kind)) == [b"\x8a\1" + b"x" * 70]


@settings(deadline=None)
@given(case=CASES)
def test_an_arrow_type_comes_back_from_its_schema_as_one_that_fits(case: Case) -> None:
    text = avro_schema(case.kind, name="a topic's name")
    ColumnWriter(parsed_schema(text)).rows(pa.array([], case.kind), b"", None)
    again = arrow_type(text)
    assert avro_schema(again, name="a topic's name") == text


@pytest.mark.parametrize(
    "kind",
    [pa.duration("s"), pa.month_day_nano_interval(), pa.map_(pa.int32(), pa.int32()), pa.decimal256(76, 2)],
    ids=str,
)
def test_types_without_an_avro_form_are_refused_by_column(kind: Any) -> None:
    with pytest.raises(TypeError, match=r"column 'a\.b'"):
        avro_schema(pa.struct([("a", pa.struct([("b", kind)]))]), name="t")


def test_a_name_that_avro_does_not_have_is_refused() -> None:
    with pytest.raises(TypeError, match="'flight number' cannot be a field of Avro"):
        avro_schema(pa.struct([("flight number", pa.int32())]), name="t")


def test_a_schema_that_holds_itself_takes_columns_of_any_depth() -> None:
    schema = {"type": "record", "name": "L", "fields": [{"name": "next", "type": ["null", "L"]}]}
    with pytest.raises(TypeError, match="holds itself"):
        arrow_type(json.dumps(schema))
    kind = pa.struct([("next", pa.struct([("next", pa.null())]))])
    assert written(schema, pa.array([{"next": {"next": None}}, {"next": None}], kind)) == [b"\2\0", b"\0"]


def test_an_error_about_rows_can_be_sent_to_another_process() -> None:
    error = pickle.loads(pickle.dumps(RowSerializationError({4: "why", 7: "also"})))
    assert (str(error), error.rows) == ("row 4: why, and 1 more", {4: "why", 7: "also"})
