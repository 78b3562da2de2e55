"""The built-in serializers keep the whole contract."""

from __future__ import annotations

import pytest

from ottla.interfaces import Serializer
from ottla.registry import Registry
from ottla_testkit.conformance import SerializerConformance


def made(name: str) -> Serializer:
    """A built-in serializer through the door that everybody else's comes by."""
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
