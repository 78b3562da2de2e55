"""The serializers keep the whole contract."""

from __future__ import annotations

from typing import Any

import pytest

from ottla_serializer_schema_registry.avro import plugin as avro
from ottla_serializer_schema_registry.conformance.avro import AvroConformance
from ottla_serializer_schema_registry.conformance.json_schema import JsonSchemaConformance
from ottla_serializer_schema_registry.conformance.protobuf import ProtobufConformance
from ottla_serializer_schema_registry.json_schema import plugin as json_schema
from ottla_serializer_schema_registry.protobuf import plugin as protobuf


class TestAvro(AvroConformance):
    pass


class TestJsonSchema(JsonSchemaConformance):
    pass


class TestProtobuf(ProtobufConformance):
    pass


@pytest.mark.parametrize(
    ("plugin", "suite"),
    [(avro, AvroConformance), (json_schema, JsonSchemaConformance), (protobuf, ProtobufConformance)],
)
def test_each_plugin_names_its_conformance_suite(plugin: Any, suite: type) -> None:
    assert plugin.ottla_conformance == f"{suite.__module__}:{suite.__name__}"
