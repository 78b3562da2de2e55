"""Dates and times of columns as text, in the format of Spark's `to_json`: a year after 9999 has a sign.

pyarrow computes years up to 32767, and writes a later one as another year. The calendar repeats after 400 years. So
such moments are written in a year that pyarrow knows, and get the number of their year afterwards.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from ottla.protocol.binary_arrays import number, string

_PER_DAY: Final = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000}
"""Units in a day. Nanoseconds are never far: they end in the year 2262."""

_PER_MILLISECOND: Final = {"us": 1_000, "ns": 1_000_000}

_ERA: Final = 146_097
"""Days in 400 years."""

_FIRST: Final = -719_528 + 1
_LAST: Final = 2_932_896 - 1
"""Days of the years 0 to 9999, less one for the zone."""

_EARLY: Final = -281_237
_LATE: Final = 157_054
"""The first days of the years 1200 and 2400, before the first and after the last change of any zone's rules."""

_WHOLE_MINUTES: Final = 94_694_400_000
"""Milliseconds of the year 1973. Liberia, in 1972, was the last to give up seconds in its zone."""

_INT64: Final = pa.int64()
_BETWEEN: Final = string("")


def times(column: Any) -> Any:
    """The text of timestamps: with milliseconds, and with the zone if they have one."""
    kind = column.type
    per_day = _PER_DAY.get(kind.unit)
    if per_day is None:
        return _near_times(column, "%Y")
    moments = column.cast(_INT64)
    eras = _eras(moments, per_day)
    if eras is None:
        return _near_times(column, "%Y")
    near = pc.subtract(moments, pc.multiply(eras, _int64(_ERA * per_day))).cast(kind)
    return _with_years(pc.strftime(near, format="%Y"), eras, _near_times(near, ""))


def dates(column: Any) -> Any:
    """The text of dates."""
    is_wide = pa.types.is_date64(column.type)
    days = (column if is_wide else column.cast(pa.int32())).cast(_INT64)
    if is_wide:
        days = pc.divide(days, _int64(_PER_DAY["ms"]))
    eras = _eras(days, 1)
    if eras is None:
        return column.cast(pa.string())
    near = pc.subtract(days, pc.multiply(eras, _int64(_ERA))).cast(pa.int32()).cast(pa.date32()).cast(pa.string())
    return _with_years(near, eras, pc.utf8_slice_codeunits(near, 4))


def _eras(moments: Any, per_day: int) -> Any | None:
    """By how many times 400 years moments are too late; None if none is far."""
    lowest, highest = pc.min_max(moments).as_py().values()
    first, last = _FIRST * per_day, (_LAST + 1) * per_day
    if lowest is None or first <= lowest <= highest < last:
        return None
    era, zero = _int64(_ERA * per_day), _int64(0)
    after = pc.divide(pc.subtract(moments, _int64(_LATE * per_day)), era)
    before = pc.divide(pc.subtract(_int64(_EARLY * per_day - 1), moments), era)
    before = pc.subtract(_int64(-1), before)  # division truncates, and these are rounded down
    eras = pc.if_else(pc.less(moments, _int64(first)), before, zero)
    return pc.if_else(pc.greater_equal(moments, _int64(last)), after, eras)


def _near_times(column: Any, year: str) -> Any:
    moments = _milliseconds(column)
    if column.type.tz is None:
        return pc.strftime(moments, format=f"{year}-%m-%dT%H:%M:%S")
    text = pc.strftime(moments, format=f"{year}-%m-%dT%H:%M:%S%z")
    text = pc.replace_substring_regex(text, r"([+-]\d\d)(\d\d)$", r"\1:\2")
    return pc.replace_substring_regex(_with_seconds_of_zone(text, moments), r"\+00:00$", "Z")


def _with_seconds_of_zone(text: Any, moments: Any) -> Any:
    """The texts, with the seconds of their zone where it has some: in the time of a place, before standard time."""
    numbers = moments.cast(_INT64)
    lowest = pc.min(numbers).as_py()
    if lowest is None or lowest >= _WHOLE_MINUTES:
        return text
    ahead = pc.subtract(pc.local_timestamp(moments).cast(_INT64), numbers)
    minutes = pc.multiply(pc.divide(ahead, _int64(60_000)), _int64(60_000))
    seconds = pc.divide(pc.abs(pc.subtract(ahead, minutes)), _int64(1_000))
    digits = pc.utf8_lpad(seconds.cast(pa.string()), 2, "0")
    behind = pc.replace_substring_regex(text, r"\+00:00$", "-00:00")  # which pyarrow writes for less than a minute
    text = pc.if_else(pc.less(ahead, _int64(0)), behind, text)
    return pc.if_else(pc.greater(seconds, _int64(0)), pc.binary_join_element_wise(text, digits, string(":")), text)


def _milliseconds(column: Any) -> Any:
    """The timestamps, rounded down; `floor_temporal` rounds the first nanoseconds of the range beyond it."""
    unit = _PER_MILLISECOND.get(column.type.unit)
    to = pa.timestamp("ms", column.type.tz)
    if unit is None:
        return column.cast(to)
    moments = column.cast(_INT64)
    whole = pc.divide(moments, _int64(unit))
    rounded_up = pc.less(moments, pc.multiply(whole, _int64(unit)))
    return pc.subtract(whole, rounded_up.cast(_INT64)).cast(to)


def _with_years(near: Any, eras: Any, rest: Any) -> Any:
    """The texts *rest*, each after its year: that with which *near* begins, and 400 years for each era."""
    years = pc.add(pc.utf8_slice_codeunits(near, 0, 4).cast(_INT64), pc.multiply(eras, _int64(400)))
    signs = pc.if_else(pc.less(years, _int64(0)), string("-"), _BETWEEN)
    signs = pc.if_else(pc.greater(years, _int64(9999)), string("+"), signs)
    digits = pc.utf8_lpad(pc.abs(years).cast(pa.string()), 4, "0")
    return pc.binary_join_element_wise(signs, digits, rest, _BETWEEN)


def _int64(value: int) -> Any:
    return number(value, _INT64)
