"""Columns as JSON, against Python's json."""

from __future__ import annotations

import json
import math
from base64 import b64encode
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any, TypeAlias

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nested_columns import columns

from ottla.plugins.serializers.json import JsonSerializer, json_text
from ottla.plugins.serializers.json_columns import JsonRows, objects, problem, texts
from ottla_accel.json_rows import objects as compiled

WHOLE = st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(st.characters(blacklist_categories=["Cs"]), max_size=6)
Kind: TypeAlias = tuple[pa.DataType, st.SearchStrategy[Any]]

LEAVES: list[Kind] = [
    (pa.int64(), WHOLE),
    (pa.string(), TEXT),
    (pa.large_string(), TEXT),
    (pa.float64(), st.floats()),
    (pa.bool_(), st.booleans()),
    (pa.binary(), st.binary(max_size=4)),
    (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    (pa.float64(), st.integers(-(10**11), 10**11).map(lambda cents: cents / 100)),
]
BOTH = pytest.mark.parametrize("rows", [None, compiled], ids=["pyarrow", "compiled"])


@st.composite
def kinds(draw: st.DrawFn, depth: int = 2) -> Kind:
    """A type, and its values; null among them."""
    shape = draw(st.sampled_from(["leaf", "struct", "list", "map"])) if depth else "leaf"
    if shape == "leaf":
        kind, cells = draw(st.sampled_from(LEAVES))
        return kind, st.none() | cells
    kind, cells = draw(kinds(depth - 1))
    if shape == "list":
        return pa.list_(kind), st.none() | st.lists(cells, max_size=3)
    if shape == "map":
        return pa.map_(pa.string(), kind), st.none() | st.dictionaries(TEXT, cells, max_size=3).map(
            lambda pairs: list(pairs.items())
        )
    other, others = draw(kinds(depth - 1))
    names = draw(st.lists(TEXT, min_size=2, max_size=2, unique=True))
    struct = pa.struct([pa.field(names[0], kind), pa.field(names[1], other)])
    return struct, st.none() | st.fixed_dictionaries({names[0]: cells, names[1]: others})


def plain(kind: pa.DataType, cell: Any) -> Any:
    """The expected value, as Python's json reads it."""
    if cell is None:
        return None
    if pa.types.is_struct(kind):
        fields = [kind.field(place) for place in range(kind.num_fields)]
        return {field.name: plain(field.type, cell[field.name]) for field in fields if cell[field.name] is not None}
    if pa.types.is_map(kind):
        return {key: plain(kind.item_type, value) for key, value in cell}
    if pa.types.is_dictionary(kind):
        return plain(kind.value_type, cell)
    if isinstance(cell, list):
        return [plain(kind.value_type, each) for each in cell]
    if isinstance(cell, bytes):
        return b64encode(cell).decode()
    if isinstance(cell, float) and not math.isfinite(cell):
        return "NaN" if math.isnan(cell) else "Infinity" if cell > 0 else "-Infinity"
    return cell


@BOTH
@given(kind=kinds(), data=st.data())
def test_every_row_is_the_json_of_its_cell(
    rows: JsonRows | None, kind: tuple[pa.DataType, st.SearchStrategy[Any]], data: st.DataObject
) -> None:
    arrow, cells = kind
    drawn = data.draw(st.lists(cells, max_size=8), "rows")
    start = data.draw(st.integers(0, len(drawn)), "start of a slice")
    found = texts(pa.array(drawn, arrow)[start:], rows=rows).to_pylist()

    assert [None if text is None else json.loads(text) for text in found] == [
        plain(arrow, row) for row in drawn[start:]
    ]


@BOTH
@given(column=columns())
def test_a_column_of_types_within_types_is_the_json_of_its_cells(rows: JsonRows | None, column: pa.Array) -> None:
    assert problem(column.type) is None
    found = texts(column, rows=rows).to_pylist()

    assert [None if text is None else json.loads(text) for text in found] == [
        plain(column.type, cell) for cell in column.to_pylist()
    ]


@BOTH
@pytest.mark.parametrize("start", range(4))
@pytest.mark.parametrize(
    ("kind", "cell", "said"),
    [
        (pa.null(), None, "null"),
        (pa.list_(pa.null()), [None, None], "[null,null]"),
        (pa.struct([("f", pa.null()), ("g", pa.int8())]), {"f": None, "g": 1}, '{"g":1}'),
        (pa.map_(pa.string(), pa.null()), [("k", None)], '{"k":null}'),
        (pa.struct([("l", pa.list_(pa.null()))]), {"l": [None]}, '{"l":[null]}'),
    ],
)
def test_maps_with_values_of_type_null_can_be_sliced(
    rows: JsonRows | None, start: int, kind: pa.DataType, cell: Any, said: str
) -> None:
    """pyarrow's cast gives such values wrong lengths, and then ends the process."""
    maps = pa.array([[("a", cell)], None, [("b", cell), ("c", cell)], []], pa.map_(pa.string(), kind))
    expected = [f'{{"a":{said}}}', None, f'{{"b":{said},"c":{said}}}', "{}"]

    assert texts(maps[start:], rows=rows).to_pylist() == expected[start:]


@BOTH
def test_null_fields_are_omitted_at_every_position(rows: JsonRows | None) -> None:
    columns = [pa.array([None, 1, None, 4]), pa.array(["a", None, None, "d"]), pa.array([None] * 4), pa.array([1] * 4)]

    assert objects(["x", "y", "z", "n"], columns, count=4, rows=rows).to_pylist() == [
        '{"y":"a","n":1}',
        '{"x":1,"n":1}',
        '{"n":1}',
        '{"x":4,"y":"d","n":1}',
    ]
    assert objects(["x", "y"], columns[:2], count=4, rows=rows).to_pylist() == [
        '{"y":"a"}',
        '{"x":1}',
        "{}",
        '{"x":4,"y":"d"}',
    ]
    assert objects([], [], count=2, rows=rows).to_pylist() == ["{}", "{}"]


def test_control_characters_are_escaped_as_required_by_json() -> None:
    text = "".join(map(chr, range(0x21))) + '"\\/ü\U0001f600'
    [found] = texts(pa.array([text])).to_pylist()

    assert json.loads(found) == text
    assert found.isprintable()


def test_names_of_fields_have_the_escapes_that_one_value_has() -> None:
    row = {"".join(map(chr, range(0x21))) + '"\\é': 1}

    assert texts(pa.array([row])).to_pylist() == [json_text(row)]


@pytest.mark.parametrize(
    ("kind", "cell", "said"),
    [
        (pa.timestamp("us", "UTC"), datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC), '"1969-12-31T23:59:59.999Z"'),
        (pa.timestamp("us", "Asia/Kolkata"), datetime(2013, 1, 1, tzinfo=UTC), '"2013-01-01T05:30:00.000+05:30"'),
        (pa.timestamp("us"), datetime(2013, 1, 1, 5), '"2013-01-01T05:00:00.000"'),
        (pa.date32(), date(2013, 1, 1), '"2013-01-01"'),
        (pa.decimal128(20, 3), Decimal("1.10"), "1.100"),
        (pa.map_(pa.int32(), pa.bool_()), [(1, True)], '{"1":true}'),
        (pa.map_(pa.float64(), pa.null()), [(math.inf, None)], '{"Infinity":null}'),
        (pa.map_(pa.time64("ns"), pa.null()), [(time(1, 2, 3, 456_789), None)], '{"01:02:03.456":null}'),
    ],
    ids=["before 1970", "another zone", "no zone", "date", "decimal", "numbers as keys", "strange numbers", "times"],
)
def test_other_types_are_written_as_by_spark(kind: pa.DataType, cell: Any, said: str) -> None:
    assert texts(pa.array([cell], kind)).to_pylist() == [said]


@BOTH
@pytest.mark.parametrize("kind", [pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")], ids=str)
@given(cells=st.lists(st.none() | st.times(), max_size=4))
def test_a_time_of_day_has_the_text_of_send(rows: JsonRows | None, kind: pa.DataType, cells: list[time | None]) -> None:
    column = pa.array(cells, pa.time64("us")).cast(kind, safe=False)
    struct = pa.StructArray.from_arrays([column], ["c"])
    expected = [JsonSerializer().serialize("t", {"c": cell}, ()) for cell in column.cast("time64[us]").to_pylist()]
    assert [text.encode() for text in texts(struct, rows=rows).to_pylist()] == expected


@BOTH
@pytest.mark.parametrize("kind", [pa.decimal32(9, 8), pa.decimal64(18, 7), pa.decimal128(38, 10), pa.decimal256(9, -2)])
@given(digits=st.lists(st.none() | st.sampled_from([0, 1, -1, 99]) | st.integers(-(10**7), 10**7), max_size=5))
def test_a_decimal_has_the_text_of_send(rows: JsonRows | None, kind: Any, digits: list[int | None]) -> None:
    cells = [None if each is None else Decimal(each).scaleb(-kind.scale) for each in digits]
    column = pa.array(cells, kind)

    def sent(data: Any) -> str | None:
        made = JsonSerializer().serialize("t", data, ())
        return None if made is None else made.decode()

    assert texts(column, rows=rows).to_pylist() == [*map(sent, cells)]
    struct = pa.StructArray.from_arrays([column], ["c"])
    assert texts(struct, rows=rows).to_pylist() == [sent({"c": cell}) for cell in cells]
    maps = pa.array([[] if cell is None else [(cell, cell)] for cell in cells], pa.map_(kind, kind))
    assert texts(maps, rows=rows).to_pylist() == [sent({} if cell is None else {cell: cell}) for cell in cells]


@BOTH
@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.float64()], ids=str)
def test_numbers_that_json_lacks_are_text_in_every_precision(rows: JsonRows | None, kind: pa.DataType) -> None:
    column = pa.array([1.5, None, math.nan, math.inf, -math.inf], pa.float64()).cast(kind)
    assert texts(column, rows=rows).to_pylist() == ["1.5", None, '"NaN"', '"Infinity"', '"-Infinity"']
    struct = pa.StructArray.from_arrays([column], ["c"])
    assert texts(struct, rows=rows).to_pylist()[2:] == ['{"c":"NaN"}', '{"c":"Infinity"}', '{"c":"-Infinity"}']
    assert texts(column[:2], rows=rows).to_pylist() == ["1.5", None]


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (pa.duration("us"), "duration[us] has no JSON form"),
        (pa.dictionary(pa.int8(), pa.duration("s")), "duration[s] has no JSON form"),
        (pa.run_end_encoded(pa.int16(), pa.duration("s")), "duration[s] has no JSON form"),
        (pa.opaque(pa.duration("s"), "t", "v"), "duration[s] has no JSON form"),
        (pa.struct({"a": pa.int8(), "b": pa.duration("s")}), "column 'b': duration[s] has no JSON form"),
        (
            pa.struct({"a": pa.list_(pa.struct({"b": pa.month_day_nano_interval()}), 2)}),
            "column 'a[].b': month_day_nano_interval has no JSON form",
        ),
        (
            pa.struct({"a": pa.map_(pa.string(), pa.list_view(pa.duration("s")))}),
            "column 'a.value[]': duration[s] has no JSON form",
        ),
        (
            pa.struct({"a": pa.map_(pa.binary(), pa.int8())}),
            "column 'a': a map with keys of type binary has no JSON form",
        ),
        (pa.struct({"a": pa.map_(pa.date32(), pa.int8())}), None),
    ],
    ids=str,
)
def test_the_column_that_json_lacks_is_named(kind: pa.DataType, said: str | None) -> None:
    assert problem(kind) == said
