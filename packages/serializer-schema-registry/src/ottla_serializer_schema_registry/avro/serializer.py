"""A serializer of Avro without settings, as programs and tests make it."""

from __future__ import annotations

from ottla_serializer_schema_registry.avro.format import AvroFormat
from ottla_serializer_schema_registry.registry.client import SchemaRegistry
from ottla_serializer_schema_registry.registry.schemas import Reference
from ottla_serializer_schema_registry.serializer import RegistrySerializer, SchemaOptions
from ottla_serializer_schema_registry.text_serializers import text_serializer


def avro_serializer(
    registry: SchemaRegistry,
    text: str | None = None,
    *,
    options: SchemaOptions | None = None,
    references: tuple[Reference, ...] = (),
    ignores_unknown_fields: bool = False,
) -> RegistrySerializer:
    """Return a serializer with a schema, by default that of the registry or of columns. Raises InvalidSchemaError.

    With *ignores_unknown_fields*, fields of data that the schema lacks are left out; otherwise such data is refused.
    """
    schema_format = AvroFormat(ignores_unknown_fields=ignores_unknown_fields)
    return text_serializer(registry, schema_format, text, options=options, references=references)
