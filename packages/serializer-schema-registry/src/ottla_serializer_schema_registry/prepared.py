"""Schemas that another process has looked up: what remains of a serializer that was pickled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, TypeAlias

import attrs

from ottla.errors import SerializationError
from ottla.interfaces import Header, RecordEncoder
from ottla_serializer_schema_registry.formats import ParsedSchema, SchemaFormat
from ottla_serializer_schema_registry.registry.references import NamedText
from ottla_serializer_schema_registry.schema_ids import set_header


@attrs.frozen(kw_only=True)
class PreparedSchema:
    """The schema of a topic, the schemas that it needs, the bytes before data, and the header of records, if any."""

    text: str = attrs.field(repr=False)
    needed: Sequence[NamedText] = attrs.field(repr=False)
    prefix: bytes
    header: Header | None = None


PreparedTopics: TypeAlias = "Mapping[str, Mapping[Any, PreparedSchema]]"
"""The schemas of each topic by the type of the columns that they were made of; None if they were not."""


class PreparedSerializer:
    """Serializes data and columns of topics whose schemas were looked up beforehand.

    For any thread; never contacts a registry.
    """

    def __init__(self, schema_format: SchemaFormat, topics: PreparedTopics) -> None:
        self._format = schema_format
        self._topics = topics
        self._ready = cache(self._parse)
        self.sets_headers = any(schema.header is not None for schemas in topics.values() for schema in schemas.values())

    def __reduce__(self) -> tuple[type[PreparedSerializer], tuple[SchemaFormat, PreparedTopics]]:
        return type(self), (self._format, self._topics)

    def use_encoder(self, encoder: RecordEncoder) -> None:
        """Use what the record encoder can do for columns."""
        self._format.use_encoder(encoder)

    def serialize(self, topic: str, data: Any, headers: Sequence[Header]) -> bytes | None:
        """The data after the id of its schema, or with a header that has it. None stays None."""
        if data is None:
            return None
        schema, parsed = self._ready(topic, None)
        encoded = parsed.encode(data, schema.prefix)
        if schema.header is not None:
            set_header(headers, schema.header)
        return encoded

    def serialize_column(self, topic: str, column: Any) -> Any:
        """The data of each row after the id of its schema; null where the row is null."""
        schema, parsed = self._ready(topic, column.type)
        return parsed.encode_column(column, schema.prefix)

    def column_headers(self, topic: str, column: Any) -> Sequence[Header]:
        """The header with the schema's id, if it is in a header."""
        header = self._ready(topic, column.type)[0].header
        return () if header is None else (header,)

    def _parse(self, topic: str, column_type: Any) -> tuple[PreparedSchema, ParsedSchema]:
        """Return the schema for columns of a type. The only one of a topic may be of another type that looks alike."""
        schemas = self._topics.get(topic, {})
        schema = next(iter(schemas.values())) if len(schemas) == 1 else schemas.get(column_type)
        if schema is None:
            of_type = f" and columns of type {column_type}" if schemas else ""
            raise SerializationError(f"no schema was looked up for topic {topic!r}{of_type}")
        return schema, self._format.parse(schema.text, schema.needed)
