"""Accepted and refused data for this serializer's conformance suite; `ottla plugins check` uses them, too.

It needs ottla-testkit, so nothing else may import it.
"""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
from ottla_testkit.conformance import SerializerConformance

MOMENT = datetime.datetime(2026, 1, 2, 3, 4, 5, 678_000, datetime.UTC)

COLUMNS: tuple[Any, ...] = (
    pa.array([1, None, -1, 2**40, -(2**63)]),
    pa.array([2**64 - 1, 0], pa.uint64()),
    pa.array([1.5, None, float("inf")]),
    pa.array([1.5, None], pa.float16()),
    pa.array([True, None, False]),
    pa.array(["a", "", None, "\u00e9" * 40]),
    pa.array(["a", None], pa.string_view()),
    pa.array([b"\xff", b"", None]),
    pa.array([b"ab", None], pa.binary(2)),
    pa.array([None, None]),
    pa.array([[1, None], None, [], list(range(20))]),
    pa.array([[1, 2], None, [3, 4]], pa.list_(pa.int8(), 2)),
    pa.array([["a"], None, []], pa.list_view(pa.string())),
    pa.array([{"a": 1, "b": [None]}, None, {"a": None, "b": None}]),
    pa.array([{}, None], pa.struct([])),
    pa.array([MOMENT, None, datetime.datetime(1969, 12, 31, tzinfo=datetime.UTC)], pa.timestamp("ms", "UTC")),
    pa.array([MOMENT, None], pa.timestamp("us", "UTC")),
    pa.array(["a", None, "b", "a"]).dictionary_encode(),
    pa.array([], pa.string()),
)


class MsgpackConformance(SerializerConformance):
    """All requirements for a serializer."""

    samples = (
        ({"b": [1, 2.5], "n": None}, b"\x82\xa1b\x92\x01\xcb\x40\x04" + bytes(6) + b"\xa1n\xc0"),
        ("\u00e9", b"\xa2\xc3\xa9"),
        ("", b"\xa0"),
        (b"\xff", b"\xc4\x01\xff"),
        (False, b"\xc2"),
        (-1, b"\xff"),
        (-33, b"\xd0\xdf"),
        (128, b"\xcc\x80"),
        (2**64 - 1, b"\xcf" + b"\xff" * 8),
        (datetime.datetime(1970, 1, 1, 0, 0, 1, tzinfo=datetime.UTC), b"\xd6\xff\0\0\0\x01"),
    )
    refused = (2**64, -(2**63) - 1, Decimal(1), object(), {1, 2}, {None: 1}, "\ud800", datetime.datetime(2026, 1, 1))
    columns = COLUMNS
    refused_columns = (
        pa.array([Decimal("1.5")]),
        pa.array([datetime.datetime(2026, 1, 1)]),
        pa.array([datetime.date(2026, 1, 1)]),
        pa.array([[datetime.timedelta(1)]]),
        pa.array([], pa.struct([("a", pa.int8()), ("a", pa.int8())])),
        pa.array([], pa.map_(pa.float64(), pa.int8())),
    )
