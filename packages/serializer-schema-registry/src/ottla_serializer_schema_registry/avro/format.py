"""Avro as a format of the registry's serializers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from ottla.interfaces import AvroType, RecordEncoder, SupportsAvroRows, SupportsAvroValues, supports
from ottla_serializer_schema_registry.avro.schema import AvroSchema, parsed_schema, record_name
from ottla_serializer_schema_registry.avro.values import avro_type
from ottla_serializer_schema_registry.need_pyarrow import need_pyarrow
from ottla_serializer_schema_registry.registry.references import NamedText
from ottla_serializer_schema_registry.registry.schemas import AVRO

if TYPE_CHECKING:  # it needs pyarrow
    from ottla_serializer_schema_registry.avro.rows import AvroRows, ColumnWriter


class AvroFormat:
    """Parses Avro schemas. Its schemas write columns by the producer's record encoder, if it can.

    With *ignores_unknown_fields*, fields of data that the schema lacks are left out; otherwise such data is refused.
    """

    kind = AVRO

    def __init__(self, *, ignores_unknown_fields: bool = False) -> None:
        self._ignores_unknown_fields = ignores_unknown_fields
        self.rows: AvroRows | None = None
        """The encoder's `avro_rows`, or None for Python's."""
        self.values: Callable[[AvroType], Callable[[bytes, Any], bytes | None]] | None = None
        """The encoder's `avro_values`, or None if fastavro encodes all data."""

    def __reduce__(self) -> tuple[Callable[[], AvroFormat], tuple[()]]:
        # The encoder is another one there.
        return partial(type(self), ignores_unknown_fields=self._ignores_unknown_fields), ()

    def use_encoder(self, encoder: RecordEncoder) -> None:
        """Use what the record encoder has of `avro_rows` and `avro_values`."""
        self.values = encoder.avro_values if supports(encoder, SupportsAvroValues) else None
        self.rows = encoder.avro_rows if supports(encoder, SupportsAvroRows) else None

    def name_of(self, text: str) -> str | None:
        """Return the full name of a record, enum or fixed."""
        return record_name(text)

    def parse(self, text: str, references: Sequence[NamedText]) -> ParsedAvro:
        """Parse a schema. Raises InvalidSchemaError."""
        schema = parsed_schema(text, references, ignores_unknown_fields=self._ignores_unknown_fields)
        return ParsedAvro(schema, self)

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

    @cached_property
    def _native(self) -> Callable[[bytes, Any], bytes | None] | None:
        """What the encoder writes; it is known only after the schema was parsed."""
        schema = self._schema
        if self._format.values is None or schema.is_bytes or schema.can_be_deep:
            return None
        if (plain := avro_type(schema)) is None:
            return None
        try:
            return self._format.values(plain)
        except ValueError:  # of a schema that is nested too deeply for it
            return None

    def encode(self, data: Any, prefix: bytes) -> bytes:
        """Return the data after *prefix*. Raises ValueError for data that does not fit."""
        if self._native is not None:
            try:
                made = self._native(prefix, data)
            except Exception:  # of logical types: fastavro raises it again, and says of which field
                made = None
            if made is not None:
                return made
        return prefix + self._schema.encode(data)

    def encode_column(self, column: Any, prefix: bytes) -> Any:
        """Return the rows of a column. Raises TypeError and RowSerializationError."""
        if self._columns is None:
            need_pyarrow("Avro of a column")
            from ottla_serializer_schema_registry.avro.rows import ColumnWriter

            self._columns = ColumnWriter(self._schema)
        return self._columns.rows(column, prefix, self._format.rows)
