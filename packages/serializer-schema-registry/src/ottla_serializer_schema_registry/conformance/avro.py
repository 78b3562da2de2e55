"""The requirements for the serializer, without a registry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import pytest

from ottla.interfaces import Serializer
from ottla_serializer_schema_registry.avro.serializer import avro_serializer
from ottla_serializer_schema_registry.conformance.one_schema import PREFIX, one_schema
from ottla_serializer_schema_registry.conformance.order_columns import order_columns, other_columns
from ottla_testkit.conformance import SerializerConformance

SCHEMA = """
{"type": "record", "name": "Order", "fields": [
  {"name": "id", "type": "int"},
  {"name": "tags", "type": ["null", {"type": "array", "items": ["null", "string"]}], "default": null}]}
"""


class AvroConformance(SerializerConformance):
    """Serialize records of a number and texts."""

    samples: ClassVar[Sequence[tuple[Any, bytes]]] = (
        ({"id": 7}, PREFIX + b"\x0e\0"),
        ({"id": -1, "tags": ["a", None]}, PREFIX + b"\1\2\4\2\2a\0\0"),
    )
    refused: ClassVar[Sequence[Any]] = ({}, {"id": "7"}, {"id": 2**31}, {"id": None}, 7, object(), [])

    @pytest.fixture
    def serializer(self) -> Serializer:
        return avro_serializer(one_schema(), SCHEMA)

    def columns(self) -> Sequence[Any]:
        return order_columns()

    def refused_columns(self) -> Sequence[Any]:
        return other_columns()
