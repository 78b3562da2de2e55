"""The conformance class for `ottla plugins check`, which imports it and the testkit. It needs no registry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import pytest

from ottla.interfaces import Serializer
from ottla_serializer_schema_registry.avro import AvroSerializer
from ottla_serializer_schema_registry.exchange import Answer, Request
from ottla_serializer_schema_registry.registry import SchemaRegistry
from ottla_testkit.conformance import SerializerConformance

SCHEMA = '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "int"}]}'


class _OneSchema:
    """Answers like a registry with one schema, whose id is 258."""

    def send(self, request: Request, *, timeout: float) -> Answer:
        return Answer(status=200, body=b'{"id": 258}')


class AvroConformance(SerializerConformance):
    """Serialize records of one number."""

    samples: ClassVar[Sequence[tuple[Any, bytes]]] = (
        ({"id": 7}, b"\0\0\0\1\2\x0e"),
        ({"id": -1}, b"\0\0\0\1\2\1"),
    )
    refused: ClassVar[Sequence[Any]] = ({}, {"id": "7"}, {"id": 2**31}, {"id": None}, 7, object(), [])

    @pytest.fixture
    def serializer(self) -> Serializer:
        registry: Any = _OneSchema()
        return AvroSerializer(SchemaRegistry(registry), is_key=False, text=SCHEMA)
