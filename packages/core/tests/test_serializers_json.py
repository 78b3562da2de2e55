"""JSON, value by value; columns are in test_serializers_json_columns.py."""

from __future__ import annotations

import json
import math
import sys
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import PluginNotFoundError
from ottla.plugins.serializers.json import JsonSerializer, ottla_serializer

plain = st.recursive(
    st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def text(data: Any) -> str:
    made = ottla_serializer().serialize("t", data, ())
    assert made is not None
    return made.decode()


@given(plain.filter(lambda data: "\ud800" not in repr(data)))
def test_json_types_are_read_back(data: Any) -> None:
    assert json.loads(text(data)) == data


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"a": 1, "b": None, "c": [None, {"d": None}]}, '{"a":1,"c":[null,{}]}'),
        ([math.nan, math.inf, -math.inf, Decimal("NaN")], '["NaN","Infinity","-Infinity","NaN"]'),
        (Decimal("1.10"), "1.10"),
        (b"ab", '"YWI="'),
        (datetime(2013, 1, 1, 5, tzinfo=UTC), '"2013-01-01T05:00:00.000Z"'),
        (datetime(2013, 1, 1, 5, 0, 0, 999), '"2013-01-01T05:00:00.000"'),
        (date(2013, 1, 1), '"2013-01-01"'),
        (time(5, 30), '"05:30:00.000"'),
        ({1: True, date(2013, 1, 1): 2}, '{"1":true,"2013-01-01":2}'),
        ((1, "ü"), '[1,"ü"]'),
        ("\x0f\n\\u000f", r'"\u000F\n\\u000f"'),
        ({'"\x1b': "\x7f"}, '{"\\"\\u001B":"\x7f"}'),
    ],
)
def test_types_that_json_lacks_are_written_as_in_columns(data: Any, said: str) -> None:
    assert text(data) == said


@pytest.mark.parametrize("data", [object(), {None: 1}, {(1, 2): 1}, {1, 2}])
def test_a_value_that_json_cannot_represent_is_refused(data: Any) -> None:
    with pytest.raises(TypeError, match="JSON"):
        text(data)


@pytest.mark.parametrize("number", ["1E+999999999", "-1E+1000001", "1E-999999999", "0E-999999999"])
def test_a_short_decimal_does_not_become_a_text_that_fills_the_memory(number: str) -> None:
    with pytest.raises(ValueError, match="a number with more than 1000000 digits is too long for JSON"):
        text({"a": Decimal(number)})
    assert text(Decimal("1E+30")) == "1" + "0" * 30


@pytest.mark.parametrize("kind", [pa.duration("s"), pa.struct([("a", pa.month_day_nano_interval())])])
def test_a_column_that_json_cannot_represent_is_refused_even_if_empty(kind: Any) -> None:
    with pytest.raises(TypeError, match="has no JSON form; JSON takes"):
        JsonSerializer().serialize_column("t", pa.array([], kind))


def test_without_pyarrow_a_column_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "ottla.plugins.serializers.json_columns", raising=False)
    monkeypatch.setitem(sys.modules, "pyarrow", None)

    with pytest.raises(PluginNotFoundError, match=r"pip install 'ottla\[arrow\]'"):
        JsonSerializer().serialize_column("t", None)


def test_the_missing_time_of_pandas_is_refused_as_a_value_and_in_data() -> None:
    pandas: Any = pytest.importorskip("pandas")
    for data in (pandas.NaT, {"id": 7, "shipped": pandas.NaT}, [pandas.NaT], {pandas.NaT: 7}):
        with pytest.raises(ValueError, match="NaT is no time; write None in its place"):
            text(data)

    assert text({"shipped": pandas.Timestamp("2026-01-02", tz="UTC")}) == '{"shipped":"2026-01-02T00:00:00.000Z"}'


def test_data_that_holds_itself_is_refused_as_a_value() -> None:
    itself: list[object] = []
    itself.append(itself)

    with pytest.raises(ValueError, match="it is nested too deeply for JSON, or holds itself"):
        JsonSerializer().serialize("t", itself, ())
