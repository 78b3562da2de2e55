"""Avro as a format of the registry's serializers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ottla.interfaces import RecordEncoder, SupportsAvroRows, supports
from ottla_serializer_schema_registry.avro.schema import AvroSchema, parsed_schema, record_name
from ottla_serializer_schema_registry.need_pyarrow import need_pyarrow
from ottla_serializer_schema_registry.registry.references import NamedText
from ottla_serializer_schema_registry.registry.schemas import AVRO

if TYPE_CHECKING:  # it needs pyarrow
    from ottla_serializer_schema_registry.avro.rows import AvroRows, ColumnWriter


class AvroFormat:
    """Parses Avro schemas. Its schemas write columns by the producer's record encoder, if it can."""

    kind = AVRO

    def __init__(self) -> None:
        self.rows: AvroRows | None = None
        """The encoder's `avro_rows`; None: Python's."""

    def use_encoder(self, encoder: RecordEncoder) -> None:
        """Use the record encoder's `avro_rows`, if it has it."""
        self.rows = encoder.avro_rows if supports(encoder, SupportsAvroRows) else None

    def name_of(self, text: str) -> str | None:
        """Return the full name of a record, enum or fixed."""
        return record_name(text)

    def parse(self, text: str, references: Sequence[NamedText]) -> ParsedAvro:
        """Parse a schema. Raises InvalidSchemaError."""
        return ParsedAvro(parsed_schema(text, references), self)

    def of_columns(self, kind: Any, name: str) -> str:
        """Return the schema of an Arrow type. Raises TypeError for a type without one."""
        need_pyarrow("Avro of a column")
        from ottla_serializer_schema_registry.avro.arrow_types import avro_schema

        return avro_schema(kind, name=name)


class ParsedAvro:
    """A schema that encodes data, and columns."""

    indexes = b""

    def __init__(self, schema: AvroSchema, its_format: AvroFormat) -> None:
        self._schema = schema
        self._format = its_format
        self._columns: ColumnWriter | None = None
        self.name = schema.name
        self.encode = schema.encode

    def encode_column(self, column: Any, prefix: bytes) -> Any:
        """Return the rows of a column. Raises TypeError and RowSerializationError."""
        if self._columns is None:
            need_pyarrow("Avro of a column")
            from ottla_serializer_schema_registry.avro.rows import ColumnWriter

            self._columns = ColumnWriter(self._schema)
        return self._columns.rows(column, prefix, self._format.rows)
