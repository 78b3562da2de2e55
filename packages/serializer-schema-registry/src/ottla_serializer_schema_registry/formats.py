"""What Avro, JSON Schema and Protobuf have in common: a text becomes a parsed schema, which encodes data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from ottla.interfaces import RecordEncoder
from ottla_serializer_schema_registry.registry.references import NamedText


class ParsedSchema(Protocol):
    """A schema that encodes data."""

    @property
    def name(self) -> str | None:
        """The full name of the record or message, or None for a schema without one."""

    @property
    def indexes(self) -> bytes:
        """What follows the schema's id: the place of a Protobuf message in its file. Empty for other formats."""

    def encode(self, data: Any, prefix: bytes) -> bytes:
        """Return the bytes of data after *prefix*. Raises ValueError for data that does not fit."""

    def encode_column(self, column: Any, prefix: bytes) -> Any:
        """Return the bytes of each row of an Arrow array, after *prefix*; null where the row is null.

        Raises TypeError for a type of column that does not fit, and RowSerializationError for rows.
        """


class SchemaFormat(Protocol):
    """A language of schemas."""

    @property
    def kind(self) -> str:
        """The registry's name of the format, its `schemaType`."""

    def name_of(self, text: str) -> str | None:
        """Return the full name of the record or message of a schema; None without one, and for other texts."""

    def parse(self, text: str, references: Sequence[NamedText]) -> ParsedSchema:
        """Parse a schema; *references* are the schemas that it needs. Raises InvalidSchemaError for any text."""

    def use_encoder(self, encoder: RecordEncoder) -> None:
        """Use abilities of the producer's record encoder for columns."""

    def of_columns(self, kind: Any, name: str) -> str:
        """Return the text of a schema for an Arrow type, whose record gets this *name*. Raises TypeError."""
