"""Dates and times of columns as JSON, in every year that Arrow can hold."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.plugins.serializers.json_columns import JsonRows, texts
from ottla_accel.json_rows import objects as compiled

BOTH = pytest.mark.parametrize("rows", [None, compiled], ids=["pyarrow", "compiled"])
ZONES = sorted(available_timezones() - {"Factory"})
EPOCH = date(1970, 1, 1).toordinal()
PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


def said(column: Any, rows: JsonRows | None) -> Sequence[str | None]:
    """The texts of a column, as the field of an object."""
    struct = pa.StructArray.from_arrays([column], ["c"])
    return [json.loads(text).get("c") for text in texts(struct, rows=rows).to_pylist()]


def expected(moment: int | None, per_second: int) -> str | None:
    """The text of a moment since 1970, computed in a year that Python knows."""
    if moment is None:
        return None
    seconds, rest = divmod(moment, per_second)
    days, second = divmod(seconds, 86_400)
    eras, day = divmod(days + EPOCH - 1, 146_097)
    near = date.fromordinal(day + 1)
    year = near.year + 400 * eras
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    time = f"{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}.{rest * 1000 // per_second:03}"
    return f"{sign}{abs(year):04}-{near:%m-%d}T{time}"


def far(least: int, most: int) -> st.SearchStrategy[int | None]:
    return st.none() | st.integers(least, most) | st.sampled_from([least, most, 0, -1])


@BOTH
@pytest.mark.parametrize("unit", PER_SECOND)
@given(data=st.data())
def test_a_timestamp_has_its_year_however_far_it_is(rows: JsonRows | None, unit: str, data: st.DataObject) -> None:
    years = PER_SECOND[unit] * 86_400 * 366 * 10_000
    least, most = max(-(2**63), -years), min(2**63 - 1, years)
    moments = data.draw(st.lists(far(-(2**63), 2**63 - 1) | far(least, most), max_size=6))
    texts = [expected(moment, PER_SECOND[unit]) for moment in moments]

    assert said(pa.array(moments, pa.int64()).cast(pa.timestamp(unit)), rows) == texts
    in_utc = said(pa.array(moments, pa.int64()).cast(pa.timestamp(unit, "UTC")), rows)
    assert in_utc == [text and f"{text}Z" for text in texts]


@BOTH
@given(st.lists(far(-(2**31), 2**31 - 1) | far(-800_000, 3_000_000), max_size=6))
def test_a_date_has_its_year_however_far_it_is(rows: JsonRows | None, days: list[int | None]) -> None:
    texts = [None if day is None else str(expected(day * 86_400, 1)).partition("T")[0] for day in days]

    assert said(pa.array(days, pa.int32()).cast(pa.date32()), rows) == texts
    milliseconds = [None if day is None else day * 86_400_000 for day in days]
    assert said(pa.array(milliseconds, pa.int64()).cast(pa.date64()), rows) == texts


@pytest.mark.parametrize(
    "zone", ["America/Phoenix", "Asia/Kolkata", "Europe/Zurich", "America/Santiago", "Pacific/Chatham"]
)
@given(near=st.datetimes(datetime(2400, 1, 2), datetime(2799, 12, 30)), eras=st.integers(20, 200))
def test_a_far_moment_is_in_the_time_of_its_zone(zone: str, near: datetime, eras: int) -> None:
    local = near.replace(tzinfo=UTC).astimezone(ZoneInfo(zone))
    moment = (near - datetime(1970, 1, 1)) // timedelta(milliseconds=1) + eras * 146_097 * 86_400_000
    [text] = said(pa.array([moment], pa.int64()).cast(pa.timestamp("ms", zone)), None)

    assert text == f"+{local.year + 400 * eras}{local.isoformat(timespec='milliseconds')[4:]}"


@BOTH
@pytest.mark.parametrize("unit", ["s", "ms", "us"])
@given(
    moments=st.lists(st.none() | st.datetimes(datetime(2036, 1, 1), datetime(9999, 12, 30)), max_size=4),
    zone=st.sampled_from(ZONES),
)
def test_a_moment_after_2037_has_the_summer_time_of_its_zone(
    rows: JsonRows | None, unit: str, moments: Sequence[datetime | None], zone: str
) -> None:
    column = pa.array(moments, pa.timestamp("us")).cast(pa.timestamp(unit), safe=False).cast(pa.timestamp(unit, zone))
    precision = "seconds" if unit == "s" else "milliseconds"

    expected = []
    for moment in moments:
        local = moment and moment.replace(tzinfo=UTC).astimezone(ZoneInfo(zone))
        text = local and local.isoformat(timespec=precision).replace("+00:00", "Z")
        expected.append(text and (f"{text[:19]}.000{text[19:]}" if unit == "s" else text))
    assert said(column, rows) == expected


def test_nanoseconds_after_2037_have_the_summer_time_of_their_zone() -> None:
    summer = pa.array([datetime(2038, 7, 1, 12), None, datetime(2037, 7, 1, 12)], pa.timestamp("ns", "Europe/Zurich"))
    expected = ["2038-07-01T14:00:00.000+02:00", None, "2037-07-01T14:00:00.000+02:00"]
    assert said(summer, None) == expected


def test_a_fixed_offset_is_the_same_after_2037() -> None:
    for zone, offset in [("+05:30", "+05:30"), ("-01:00", "-01:00"), ("UTC", "Z"), ("Etc/GMT+3", "-03:00")]:
        [text] = said(pa.array([2**32], pa.timestamp("s", zone)), None)
        assert text is not None
        assert text.endswith(f".000{offset}")


@BOTH
@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize(("zone", "minutes"), [("+05:30", 330), ("-01:00", -60), ("-09:45", -585), ("+00:00", 0)])
def test_an_offset_from_utc_is_a_zone(rows: JsonRows | None, unit: str, zone: str, minutes: int) -> None:
    moments = [datetime(1901, 2, 3, 4, 5, 6), None, datetime(1970, 1, 1), datetime(2199, 12, 31, 23, 59, 59)]
    column = pa.array(moments, pa.timestamp("us")).cast(pa.timestamp(unit)).cast(pa.timestamp(unit, zone))

    offset = timezone(timedelta(minutes=minutes))
    local = [moment and moment.replace(tzinfo=UTC).astimezone(offset) for moment in moments]
    texts = [moment and moment.isoformat(timespec="milliseconds").replace("+00:00", "Z") for moment in local]
    assert said(column, rows) == texts


@BOTH
def test_a_zone_may_move_a_moment_into_the_year_10000(rows: JsonRows | None) -> None:
    last = datetime(9999, 12, 31, 23) - datetime(1970, 1, 1)
    column = pa.array([last // timedelta(seconds=1), 0], pa.int64()).cast(pa.timestamp("s", "Asia/Kolkata"))

    assert said(column, rows) == ["+10000-01-01T04:30:00.000+05:30", "1970-01-01T05:30:00.000+05:30"]


def test_an_infinite_moment_of_a_database_is_the_last_one() -> None:
    assert said(pa.array([2**63 - 1], pa.timestamp("us")), None) == ["+294247-01-10T04:00:54.775"]
    assert said(pa.array([2**31 - 1], pa.int32()).cast(pa.date32()), None) == ["+5881580-07-11"]


@BOTH
@pytest.mark.parametrize("unit", ["s", "us"])
def test_a_moment_before_standard_time_has_the_seconds_of_its_zone(rows: JsonRows | None, unit: str) -> None:
    def column(*moments: datetime, zone: str) -> Any:
        seconds = [(moment - datetime(1970, 1, 1)) // timedelta(seconds=1) for moment in moments]
        return pa.array(seconds, pa.int64()).cast(pa.timestamp("s", zone)).cast(pa.timestamp(unit, zone))

    early = datetime(1800, 1, 1)
    assert said(column(early, datetime(2026, 1, 1), zone="Europe/Berlin"), rows) == [
        "1800-01-01T00:53:28.000+00:53:28",
        "2026-01-01T01:00:00.000+01:00",
    ]
    assert said(column(early, zone="America/New_York"), rows) == ["1799-12-31T19:03:58.000-04:56:02"]
    assert said(column(datetime(1908, 1, 1), zone="Africa/Accra"), rows) == ["1907-12-31T23:59:08.000-00:00:52"]
    assert said(column(early, zone="UTC"), rows) == ["1800-01-01T00:00:00.000Z"]
    assert said(column(datetime(1972, 1, 7), zone="Africa/Monrovia"), rows) == ["1972-01-06T23:15:30.000-00:44:30"]


@given(st.datetimes(datetime(1700, 1, 1), datetime(2037, 1, 1)), st.sampled_from(ZONES))
def test_a_moment_of_any_zone_is_read_back_unchanged(moment: datetime, zone: str) -> None:
    milliseconds = (moment - datetime(1970, 1, 1)) // timedelta(milliseconds=1)
    [text] = said(pa.array([milliseconds], pa.int64()).cast(pa.timestamp("ms", zone)), None)

    assert text is not None
    assert (datetime.fromisoformat(text) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(
        milliseconds=1
    ) == milliseconds
