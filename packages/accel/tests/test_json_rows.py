"""Rows as JSON in C: each cell is written as pyarrow writes it when it casts to text, and columns keep their rows."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from datetime import date, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ottla.plugins.serializers.json import json_text
from ottla_accel.json_rows import objects

pytestmark = pytest.mark.unmeasured

NOTHING = "not a known format"


def as_text(column: Any) -> tuple[Any, str]:
    """The fallback for a column that C does not support: pyarrow's text, quoted."""
    return pc.fill_null(column.cast(pa.string()), NOTHING), '"'


def refuse(column: Any) -> tuple[Any, str]:
    raise AssertionError(f"{column.type} is known, and was asked for")


def written(names: Sequence[str], columns: Sequence[Any], *, text: Any = refuse) -> list[str]:
    count = len(columns[0])
    offsets, content = objects(names, columns, count=count, text=text)
    made = pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(content))
    made.validate(full=True)
    return list(made.to_pylist())


def cells(column: Any) -> list[str | None]:
    """The text after the label; None if there is none."""
    return [None if row == "{}" else row.removeprefix('{"c":').removesuffix("}") for row in written(["c"], [column])]


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
@given(data=st.data())
def test_whole_numbers_are_their_digits(bits: int, data: st.DataObject) -> None:
    numbers = data.draw(st.lists(st.none() | st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)))
    start = data.draw(st.integers(0, len(numbers)))
    column = pa.array(numbers, getattr(pa, f"int{bits}")())[start:]

    assert cells(column) == column.cast(pa.string()).to_pylist()


@given(st.lists(st.none() | st.tuples(st.integers(-(10**15), 10**15), st.integers(0, 16)), max_size=20), st.integers(0))
@example([(1, 6), (9_999_999_999, 0), (999_999_999_999_999, 5), (-5, 1), (100, 1), (0, 0), (1_000_001, 6)], 0)
@example([(1, 7), (1, 0)], 0)
@example([(10**10, 0)], 0)
@example([(-123_456_789_012_345, 15)], 0)
def test_written_decimals_equal_those_of_pyarrow(drawn: list[tuple[int, int] | None], start: int) -> None:
    numbers = [None if each is None else each[0] / 10 ** each[1] for each in drawn]
    column = pa.array(numbers, pa.float64())[start % (len(numbers) + 1) :]
    asked = []

    def text(other: Any) -> tuple[Any, str]:
        asked.append(other)
        return other.cast(pa.string()), ""

    found = written(["c"], [column], text=text)

    assert found == ["{}" if each is None else f'{{"c":{each}}}' for each in column.cast(pa.string()).to_pylist()]
    if all(each is None or (1e-6 <= abs(each) < 1e9 and round(each, 2) == each) for each in numbers):
        assert not asked


@given(st.lists(st.floats(), min_size=1, max_size=5))
def test_a_number_is_written_as_by_pyarrow_or_left_to_the_core(numbers: list[float]) -> None:
    column = pa.array(numbers, pa.float64())
    found = written(["c"], [column], text=lambda other: (other.cast(pa.string()), ""))

    assert found == [f'{{"c":{each}}}' for each in column.cast(pa.string()).to_pylist()]


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf, -0.0, 1 / 3, 1e10, 9.9e-7, 5e-324])
def test_a_column_with_one_long_number_is_left_to_the_core_as_a_whole(number: float) -> None:
    asked: list[Any] = []

    def text(column: Any) -> tuple[Any, str]:
        asked.append(column)
        return pa.array(["a", "b"]), '"'

    assert written(["c"], [pa.array([1.5, number])], text=text) == ['{"c":"a"}', '{"c":"b"}']
    assert [column.to_pylist()[0] for column in asked] == [1.5]


@given(st.lists(st.none() | st.text(), max_size=20), st.integers(0))
def test_text_is_read_back_unchanged(texts: list[str | None], start: int) -> None:
    column = pa.array(texts, pa.string())[start % (len(texts) + 1) :]

    assert [None if each is None else json.loads(each) for each in cells(column)] == column.to_pylist()


def test_only_characters_that_json_cannot_hold_are_escaped() -> None:
    said = [json.dumps(chr(code), ensure_ascii=False) for code in range(0x20)]
    column = pa.array([chr(code) for code in range(0x20)] + ['"\\/\x7f\u2028ü'])

    assert [each and each.lower() for each in cells(column)] == [*said, '"\\"\\\\/\x7f\u2028ü"']


@given(st.lists(st.none() | st.booleans(), max_size=40), st.integers(0))
def test_booleans_are_read_bit_by_bit(truths: list[bool | None], start: int) -> None:
    column = pa.array(truths, pa.bool_())[start % (len(truths) + 1) :]

    assert cells(column) == [None if each is None else json.dumps(each) for each in column.to_pylist()]


@given(st.lists(st.none() | st.dates(date(1000, 1, 1)), max_size=20))
@example([date(2000, 2, 29), date(1900, 2, 28), date(1900, 3, 1), date(1999, 12, 31), date(1000, 1, 1), date.max])
def test_dates_are_those_of_the_calendar(days: list[date | None]) -> None:
    assert cells(pa.array(days, pa.date32())) == [None if day is None else f'"{day.isoformat()}"' for day in days]


@given(st.lists(st.none() | st.datetimes(datetime(1000, 1, 1)), max_size=20))
@example([datetime(1969, 12, 31, 23, 59, 59, 999_999), datetime(1970, 1, 1), datetime.max])
def test_times_are_truncated_to_milliseconds_and_have_their_zone(times: list[datetime | None]) -> None:
    texts = [None if each is None else each.isoformat(timespec="milliseconds") for each in times]

    assert cells(pa.array(times, pa.timestamp("us"))) == [each and f'"{each}"' for each in texts]
    for zone in ("UTC", "Etc/UTC"):
        assert cells(pa.array(times, pa.timestamp("us", zone))) == [each and f'"{each}Z"' for each in texts]


@pytest.mark.parametrize(
    "column",
    [
        pa.array([0, -400_000], pa.int32()).cast(pa.date32()),
        pa.array([0, 2**62], pa.timestamp("us")),
        pa.array([0, 1], pa.timestamp("us", "Asia/Kolkata")),
        pa.array([0, 1], pa.timestamp("ns")),
        pa.array([0.5, 1], pa.float32()),
        pa.array([0, 1], pa.uint64()),
        pa.array(["a", "b"], pa.large_string()),
        pa.array([[0], [1]]),
    ],
    ids=lambda column: str(column.type),
)
def test_columns_of_unknown_types_are_converted_by_the_core(column: Any) -> None:
    found = written(["n", "c"], [pa.array([1, 2]), column], text=lambda _: (pa.array(["x", None]), '"'))

    assert found == ['{"n":1,"c":"x"}', '{"n":2}']


def test_text_from_the_core_is_inserted_unquoted_when_requested() -> None:
    column = pa.array([[0], [1]])

    assert written(["c"], [column], text=lambda _: (pa.array(["[0]", "[1]"]), "")) == ['{"c":[0]}', '{"c":[1]}']


def test_names_are_escaped_as_json() -> None:
    assert written(['"\n', "ü"], [pa.array([1]), pa.array([2])]) == ['{"\\"\\n":1,"ü":2}']


@given(count=st.integers(0, 30), size=st.integers(0, 3000))
def test_rows_of_any_length_fit(count: int, size: int) -> None:
    long = pa.array(["\x01" * size] * count, pa.string())
    true = pa.array([True] * count, pa.bool_())
    row = json.dumps({"a": "\x01" * size, "c": True}, separators=(",", ":"))

    assert written(["a", "b", "c"], [long, pa.nulls(count), true]) == [row] * count


def test_columns_of_different_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="a column of 1 rows where there are 2"):
        objects(["a", "b"], [pa.array([1, 2]), pa.array([1])], count=2, text=refuse)


def test_names_have_the_escapes_that_one_value_has() -> None:
    name = "".join(map(chr, range(0x21))) + '"\\é'

    assert written([name], [pa.array([1])]) == [json_text({name: 1})]
