"""The requirements for the serializer, without a registry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import pytest

from ottla.interfaces import Serializer
from ottla_serializer_schema_registry.conformance.one_schema import PREFIX, one_schema
from ottla_serializer_schema_registry.conformance.order_columns import order_columns, other_columns
from ottla_serializer_schema_registry.json_schema.serializer import json_serializer
from ottla_testkit.conformance import SerializerConformance

SCHEMA = """
{"title": "Order", "type": "object", "required": ["id"], "additionalProperties": false, "properties": {
  "id": {"type": "integer"}, "tags": {"type": "array", "items": {"type": ["string", "null"]}}}}
"""


class JsonSchemaConformance(SerializerConformance):
    """Serialize objects of a number and texts."""

    samples: ClassVar[Sequence[tuple[Any, bytes]]] = (
        ({"id": 7}, PREFIX + b'{"id":7}'),
        ({"id": -1, "tags": ["a", None]}, PREFIX + b'{"id":-1,"tags":["a",null]}'),
    )
    refused: ClassVar[Sequence[Any]] = ({}, {"id": "7"}, {"id": None}, {"id": 7, "x": 8}, 7, object(), [])

    @pytest.fixture
    def serializer(self) -> Serializer:
        return json_serializer(one_schema(), SCHEMA)

    def columns(self) -> Sequence[Any]:
        return order_columns()

    def refused_columns(self) -> Sequence[Any]:
        import pyarrow as pa

        return (*other_columns(), pa.array([{"tags": ["a"]}]))
