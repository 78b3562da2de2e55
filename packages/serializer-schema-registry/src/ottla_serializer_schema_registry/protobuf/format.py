"""Protobuf as a format of the registry's serializers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ottla.interfaces import RecordEncoder
from ottla_serializer_schema_registry.protobuf.schema import (
    ProtobufSchema,
    encoded_indexes,
    indexes_in,
    indexes_of,
)
from ottla_serializer_schema_registry.registry.references import NamedText
from ottla_serializer_schema_registry.registry.schemas import PROTOBUF


class ProtobufFormat:
    """Schemas of one generated class: those of the registry say at which place they have its type."""

    kind = PROTOBUF

    def __init__(self, message_class: Any) -> None:
        self._class = message_class

    def use_encoder(self, encoder: RecordEncoder) -> None:
        """Messages are made by the library alone."""

    def local(self, *, normalized: bool = False) -> ProtobufSchema:
        """Return the schema of the class itself, as it is registered; *normalized*: as the registry normalizes it."""
        indexes = indexes_of(self._class.DESCRIPTOR, normalized=normalized)
        return ProtobufSchema(self._class, encoded_indexes(indexes))

    def name_of(self, text: str) -> str | None:
        """Return the full name of the message."""
        return str(self._class.DESCRIPTOR.full_name)

    def parse(self, text: str, references: Sequence[NamedText]) -> ProtobufSchema:
        """Return the schema for a file of the registry. Raises InvalidSchemaError if it lacks the message."""
        return ProtobufSchema(self._class, encoded_indexes(indexes_in(text, self._class.DESCRIPTOR.full_name)))

    def of_columns(self, kind: Any, name: str) -> str:
        """Raise TypeError: Protobuf makes no schema of columns, but needs a generated class."""
        raise TypeError("Protobuf needs a generated class")
