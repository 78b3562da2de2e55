"""The requirements for the serializer, without a registry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from ottla.interfaces import Serializer
from ottla_serializer_schema_registry.conformance.one_schema import PREFIX, one_schema
from ottla_serializer_schema_registry.protobuf.serializer import protobuf_serializer
from ottla_testkit.conformance import SerializerConformance


class ProtobufConformance(SerializerConformance):
    """Serialize a message that comes with the library."""

    samples: ClassVar[Sequence[tuple[Any, bytes]]] = (
        (Timestamp(seconds=7), PREFIX + b"\0\x08\x07"),
        ({"seconds": 7, "nanos": 1}, PREFIX + b"\0\x08\x07\x10\x01"),
        ({"seconds": None}, PREFIX + b"\0"),
    )
    refused: ClassVar[Sequence[Any]] = ({"x": 1}, {"seconds": "7"}, {"nanos": 2**31}, 7, object(), [])

    @pytest.fixture
    def serializer(self) -> Serializer:
        return protobuf_serializer(one_schema(), Timestamp)

    def columns(self) -> Sequence[Any]:
        import pyarrow as pa  # only here: the other tests need no tables

        return (pa.array([{"seconds": 7, "nanos": None}, None, {"seconds": None, "nanos": 2}]),)

    def refused_columns(self) -> Sequence[Any]:
        import pyarrow as pa

        return (pa.array([1, 2]), pa.array([{"seconds": 7, "unknown": 8}]))
