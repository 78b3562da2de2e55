"""A serializer of Protobuf without settings, as programs and tests make it."""

from __future__ import annotations

from typing import Any

from ottla_serializer_schema_registry.protobuf.format import ProtobufFormat
from ottla_serializer_schema_registry.protobuf.schema import local_schema
from ottla_serializer_schema_registry.registry.client import SchemaRegistry
from ottla_serializer_schema_registry.serializer import RegistrySerializer, SchemaOptions


def protobuf_serializer(
    registry: SchemaRegistry, its_class: Any, *, options: SchemaOptions | None = None
) -> RegistrySerializer:
    """Return a serializer of messages of a generated class."""
    made = ProtobufFormat(its_class)
    return RegistrySerializer(
        registry,
        made,
        options=options or SchemaOptions(),
        local=local_schema(its_class.DESCRIPTOR.file),
        parsed=made.local(normalized=registry.normalizes),
        name=made.name_of(""),
    )
