"""Dates and times of columns as text, in the format of Spark's `to_json`: a year after 9999 has a sign.

pyarrow computes years up to 32767, and writes a later one as another year. The calendar repeats after 400 years. So
such moments are written in a year that pyarrow knows, and get the number of their year afterwards.

pyarrow knows the summer time of a zone only until 2037, the last year of which files of zones list the changes. Python
also knows the rule for all later years, as Java does.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pyarrow as pa
import pyarrow.compute as pc

from ottla.protocol.binary_arrays import flags, number, numbers, string, strings

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

_LAST_LISTED: Final = 2_145_830_400_000
"""Milliseconds of the last day of 2037."""

_MINUTE: Final = 60_000

_FIXED: Final = re.compile("(?P<sign>[+-])(?P<hours>[01][0-9]|2[0-3]):(?P<minutes>[0-5][0-9])")
"""Zones that are an offset from UTC, as Arrow writes them."""

_INT64: Final = pa.int64()
_BETWEEN: Final = string("")


def times(column: Any) -> Any:
    """The text of timestamps: with milliseconds, and with the zone if they have one."""
    kind = column.type
    per_day = _PER_DAY.get(kind.unit)
    if per_day is None:
        return _near_times(column)
    moments = column.cast(_INT64)
    eras = _eras(moments, per_day)
    if eras is None:
        return _near_times(column)
    near = pc.subtract(moments, pc.multiply(eras, _int64(_ERA * per_day))).cast(kind)
    return _with_years(_near_times(near), eras)


def dates(column: Any) -> Any:
    """The text of dates."""
    is_wide = pa.types.is_date64(column.type)
    days = (column if is_wide else column.cast(pa.int32())).cast(_INT64)
    if is_wide:
        days = pc.divide(days, _int64(_PER_DAY["ms"]))
    eras = _eras(days, 1)
    if eras is None:
        return column.cast(pa.string())
    near = pc.subtract(days, pc.multiply(eras, _int64(_ERA))).cast(pa.int32()).cast(pa.date32())
    return _with_years(near.cast(pa.string()), eras)


def times_of_day(column: Any) -> Any:
    """The text of times of day: with milliseconds, as of Python's in `send`."""
    return column.cast(pa.time32("ms"), safe=False).cast(pa.string())


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


def _near_times(column: Any) -> Any:
    moments = _milliseconds(column)
    if column.type.tz is None:
        return pc.strftime(moments, format="%Y-%m-%dT%H:%M:%S")
    fixed = _FIXED.fullmatch(column.type.tz)
    if fixed is not None:  # pyarrow before 22 knows no zone of this name
        return _at_offset(moments, fixed["sign"], int(fixed["hours"]), int(fixed["minutes"]))
    text = pc.strftime(moments, format="%Y-%m-%dT%H:%M:%S%z")
    text = pc.replace_substring_regex(text, r"([+-]\d\d)(\d\d)$", r"\1:\2")
    text = _with_rules(_with_seconds_of_zone(text, moments), moments)
    return pc.replace_substring_regex(text, r"\+00:00$", "Z")


def _at_offset(moments: Any, sign: str, hours: int, minutes: int) -> Any:
    """The text of moments at a fixed offset from UTC."""
    ahead = (60 * hours + minutes) * (-1 if sign == "-" else 1)
    local = pc.add(moments.cast(_INT64), _int64(ahead * _MINUTE)).cast(pa.timestamp("ms"))
    text = pc.strftime(local, format="%Y-%m-%dT%H:%M:%S")
    return pc.binary_join_element_wise(text, string(f"{sign}{hours:02}:{minutes:02}" if ahead else "Z"), _BETWEEN)


def _with_rules(text: Any, moments: Any) -> Any:
    """The texts, those of moments after 2037 by the rule of their zone."""
    since_1970 = moments.cast(_INT64)
    latest = pc.max(since_1970).as_py()
    if latest is None or latest < _LAST_LISTED or (zone := _with_changes(moments.type.tz)) is None:
        return text
    late = pc.fill_null(pc.greater_equal(since_1970, _int64(_LAST_LISTED)), flags([False])[0])
    since_1970 = since_1970.filter(late)
    minutes = pc.divide(since_1970, _int64(_MINUTE)).dictionary_encode()
    ahead = [_minutes_ahead(minute, zone) for minute in minutes.dictionary.to_pylist()]
    shifts = numbers([each * _MINUTE for each in ahead], _INT64).take(minutes.indices)
    offsets = strings([f"{'-' if each < 0 else '+'}{abs(each) // 60:02}:{abs(each) % 60:02}" for each in ahead])
    local = pc.strftime(pc.add(since_1970, shifts).cast(pa.timestamp("ms")), format="%Y-%m-%dT%H:%M:%S")
    by_rule = pc.binary_join_element_wise(local, offsets.take(minutes.indices), _BETWEEN)
    return pc.replace_with_mask(text, late, by_rule)


def _with_changes(name: str) -> ZoneInfo | None:
    """The zone of this name; None if its offset never changes, or Python does not know it."""
    try:
        zone = ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None
    return zone if zone.utcoffset(None) is None else None


def _minutes_ahead(minute: int, zone: ZoneInfo) -> int:
    """By how many minutes a zone is ahead of UTC at a minute since 1970, which may be in a year that Python lacks."""
    first, era = _LAST_LISTED // _MINUTE, _ERA * 24 * 60
    ahead = datetime.fromtimestamp(((minute - first) % era + first) * 60, zone).utcoffset()
    assert ahead is not None, "each moment has an offset"
    return ahead // timedelta(minutes=1)


def _with_seconds_of_zone(text: Any, moments: Any) -> Any:
    """The texts, with the seconds of their zone where it has some: in the time of a place, before standard time."""
    since_1970 = moments.cast(_INT64)
    lowest = pc.min(since_1970).as_py()
    if lowest is None or lowest >= _WHOLE_MINUTES:
        return text
    ahead = pc.subtract(pc.local_timestamp(moments).cast(_INT64), since_1970)
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


def _with_years(near: Any, eras: Any) -> Any:
    """The texts, each with 400 years more for each era: they begin with a year of four digits."""
    years = pc.add(pc.utf8_slice_codeunits(near, 0, 4).cast(_INT64), pc.multiply(eras, _int64(400)))
    signs = pc.if_else(pc.less(years, _int64(0)), string("-"), _BETWEEN)
    signs = pc.if_else(pc.greater(years, _int64(9999)), string("+"), signs)
    digits = pc.utf8_lpad(pc.abs(years).cast(pa.string()), 4, "0")
    return pc.binary_join_element_wise(signs, digits, pc.utf8_slice_codeunits(near, 4), _BETWEEN)


def _int64(value: int) -> Any:
    return number(value, _INT64)
