"""Schemas that another process has looked up: what remains of a serializer that was pickled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import attrs

from ottla.errors import SerializationError
from ottla.interfaces import Header, RecordEncoder
from ottla_serializer_schema_registry.formats import ParsedSchema, SchemaFormat
from ottla_serializer_schema_registry.registry.references import NamedText


@attrs.frozen(kw_only=True)
class PreparedSchema:
    """The schema of a topic, the schemas that it needs, the bytes before data, and the header of records, if any."""

    text: str = attrs.field(repr=False)
    needed: Sequence[NamedText] = attrs.field(repr=False)
    prefix: bytes
    header: Header | None = None


class PreparedSerializer:
    """Serializes data and columns of topics whose schemas were looked up beforehand.

    For any thread; never contacts a registry.
    """

    def __init__(self, schema_format: SchemaFormat, topics: Mapping[str, PreparedSchema]) -> None:
        self._format = schema_format
        self._topics = topics
        self._parsed = cache(self._parse)

    def __reduce__(self) -> tuple[type[PreparedSerializer], tuple[SchemaFormat, Mapping[str, PreparedSchema]]]:
        return type(self), (self._format, self._topics)

    def use_encoder(self, encoder: RecordEncoder) -> None:
        """Use what the record encoder can do for columns."""
        self._format.use_encoder(encoder)

    def serialize(self, topic: str, data: Any, headers: Sequence[Header]) -> bytes | None:
        """The data after the id of its schema. None stays None."""
        return None if data is None else self._parsed(topic).encode(data, self._topics[topic].prefix)

    def serialize_column(self, topic: str, column: Any) -> Any:
        """The data of each row after the id of its schema; null where the row is null."""
        return self._parsed(topic).encode_column(column, self._topics[topic].prefix)

    def column_headers(self, topic: str, column: Any) -> Sequence[Header]:
        """The header with the schema's id, if it is in a header."""
        header = self._topics[topic].header
        return () if header is None else (header,)

    def _parse(self, topic: str) -> ParsedSchema:
        if topic not in self._topics:
            raise SerializationError(f"no schema was looked up for topic {topic!r}")
        return self._format.parse(self._topics[topic].text, self._topics[topic].needed)
