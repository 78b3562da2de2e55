"""A serializer with JSON Schema without settings, as programs and tests make it."""

from __future__ import annotations

from ottla_serializer_schema_registry.json_schema.format import JsonSchemaFormat
from ottla_serializer_schema_registry.registry.client import SchemaRegistry
from ottla_serializer_schema_registry.registry.schemas import Reference
from ottla_serializer_schema_registry.serializer import RegistrySerializer, SchemaOptions
from ottla_serializer_schema_registry.text_serializers import text_serializer


def json_serializer(
    registry: SchemaRegistry,
    text: str | None = None,
    *,
    options: SchemaOptions | None = None,
    references: tuple[Reference, ...] = (),
) -> RegistrySerializer:
    """Return a serializer with a schema, by default that of the registry or of columns. Raises InvalidSchemaError."""
    return text_serializer(registry, JsonSchemaFormat(), text, options=options, references=references)
