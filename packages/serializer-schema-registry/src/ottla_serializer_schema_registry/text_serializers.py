"""Serializers with a schema that is a text, without settings."""

from __future__ import annotations

from ottla_serializer_schema_registry.formats import SchemaFormat
from ottla_serializer_schema_registry.registry.client import SchemaRegistry
from ottla_serializer_schema_registry.registry.references import LocalSchema
from ottla_serializer_schema_registry.registry.schemas import Reference, Schema
from ottla_serializer_schema_registry.serializer import RegistrySerializer, SchemaOptions


def text_serializer(
    registry: SchemaRegistry,
    schema_format: SchemaFormat,
    text: str | None,
    *,
    options: SchemaOptions | None = None,
    references: tuple[Reference, ...] = (),
) -> RegistrySerializer:
    """Return a serializer with a schema, by default that of the registry or of columns. Raises InvalidSchemaError.

    A schema with *references* is parsed when these are there.
    """
    if text is None:
        return RegistrySerializer(registry, schema_format, options=options or SchemaOptions())
    return RegistrySerializer(
        registry,
        schema_format,
        options=options or SchemaOptions(),
        local=LocalSchema(schema=Schema(kind=schema_format.kind, text=text, references=references)),
        parsed=None if references else schema_format.parse(text, ()),
        name=schema_format.name_of(text),
    )
