"""JSON Schema as a format of the registry's serializers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ottla.interfaces import RecordEncoder, SupportsJsonRows, supports
from ottla_serializer_schema_registry.json_schema.schema import JsonSchema, parsed_schema, title_of
from ottla_serializer_schema_registry.need_pyarrow import need_pyarrow
from ottla_serializer_schema_registry.registry.references import NamedText
from ottla_serializer_schema_registry.registry.schemas import JSON

if TYPE_CHECKING:  # it needs pyarrow
    from ottla.plugins.serializers.json_columns import JsonRows


class JsonSchemaFormat:
    """Parses JSON schemas. Columns become JSON by the producer's record encoder, if it can."""

    kind = JSON

    def __init__(self) -> None:
        self.rows: JsonRows | None = None

    def __reduce__(self) -> tuple[type[JsonSchemaFormat], tuple[()]]:
        return type(self), ()  # the encoder is another one there

    def use_encoder(self, encoder: RecordEncoder) -> None:
        """Use the record encoder's `json_rows`, if it has it."""
        self.rows = encoder.json_rows if supports(encoder, SupportsJsonRows) else None

    def name_of(self, text: str) -> str | None:
        """Return the title of a schema."""
        return title_of(text)

    def parse(self, text: str, references: Sequence[NamedText]) -> ParsedJson:
        """Parse a schema. Raises InvalidSchemaError."""
        return ParsedJson(parsed_schema(text, references), self)

    def of_columns(self, kind: Any, name: str) -> str:
        """Return the schema of an Arrow type. Raises TypeError for a type without JSON."""
        need_pyarrow("JSON Schema of a column")
        from ottla.plugins.serializers.json_columns import problem
        from ottla_serializer_schema_registry.json_schema.columns import json_schema

        if reason := problem(kind):
            raise TypeError(reason)
        return json_schema(kind, title=name)


class ParsedJson:
    """A schema that checks data and columns, which become JSON."""

    indexes = b""

    def __init__(self, schema: JsonSchema, its_format: JsonSchemaFormat) -> None:
        self._schema = schema
        self._format = its_format
        self.name = schema.name

    def encode(self, data: Any, prefix: bytes) -> bytes:
        """Return the data as JSON after *prefix*. Raises ValueError and TypeError."""
        return prefix + self._schema.encode(data)

    def encode_column(self, column: Any, prefix: bytes) -> Any:
        """Return the rows of a column. Raises TypeError and RowSerializationError."""
        need_pyarrow("JSON Schema of a column")
        import pyarrow as pa
        import pyarrow.compute as pc

        from ottla_serializer_schema_registry.json_schema.columns import texts

        made = texts(self._schema, column, rows=self._format.rows).view(pa.binary())
        return pc.binary_join_element_wise(pa.scalar(prefix), made, pa.scalar(b""))
