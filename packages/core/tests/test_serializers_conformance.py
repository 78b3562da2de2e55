"""The built-in serializers keep the whole contract."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from datetime import date
from typing import Any

import pytest

from ottla.interfaces import Serializer
from ottla.plugins.registry import Registry
from ottla_testkit.conformance import SerializerConformance


def made(name: str) -> Serializer:
    """A built-in serializer, through the same entry point as a third-party one."""
    serializer: Serializer = Registry().plugin("serializer", name).create({}, is_key=False)
    return serializer


class TestBytes(SerializerConformance):
    samples = ((b"", b""), (b"as it is", b"as it is"), (bytearray(b"\0\xff"), b"\0\xff"), (memoryview(b"x"), b"x"))
    refused = ("text", 1, [b"x"], object())

    @pytest.fixture
    def serializer(self) -> Serializer:
        return made("bytes")


class TestString(SerializerConformance):
    samples = (("", b""), ("text", b"text"), ("caf\u00e9 \U0001f600\0", b"caf\xc3\xa9 \xf0\x9f\x98\x80\0"))
    refused = (b"bytes", 1, "\ud800", object())

    @pytest.fixture
    def serializer(self) -> Serializer:
        return made("string")


class TestJson(SerializerConformance):
    samples = (
        (
            {"id": 1, "out": None, "of": ["\u00e9", None, {"b": True}]},
            b'{"id":1,"of":["\xc3\xa9",null,{"b":true}]}',
        ),
        ("text", b'"text"'),
        (b"ab", b'"YWI="'),
        (math.inf, b'"Infinity"'),
    )
    refused = (object(), {None: 1}, "\ud800")

    def columns(self) -> Sequence[Any]:
        import pyarrow as pa  # only here: the other tests need no tables

        day = date(2013, 1, 1)
        return (
            pa.array([{"id": 1, "name": "a", "tags": ["x", None]}, None, {"id": None, "name": '"\n', "tags": None}]),
            pa.array([{"deep": {"day": day, "ratio": 0.1}}, None, {"deep": None}, {"deep": {"day": None}}]),
            pa.array(["text", None, "\u00e9"]),
            pa.array([1.0, 1e10, None, math.inf, -0.5]),
            pa.array([b"ab", None, b""]),
            pa.array(["twice", None, "twice"]).dictionary_encode(),
        )

    def refused_columns(self) -> Sequence[Any]:
        import pyarrow as pa

        return (pa.array([1], pa.duration("s")), pa.array([{"a": 1}], pa.struct([("a", pa.duration("s"))])))

    @pytest.fixture
    def serializer(self) -> Serializer:
        return made("json")

    def alike(self, made: bytes, expected: bytes) -> bool:
        same: bool = json.loads(made) == json.loads(expected)  # 1e+10 and 10000000000.0 are one number
        return same
