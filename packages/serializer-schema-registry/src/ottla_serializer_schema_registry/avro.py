"""Data in Avro's binary encoding, in Confluent's wire format. It waits for the registry only in `prepare`."""

from __future__ import annotations

import io
import json
import struct
import threading
from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs
import fastavro
from fastavro.validation import ValidationError, validate

from ottla.errors import NotPreparedError
from ottla.interfaces import Header
from ottla_serializer_schema_registry import keys
from ottla_serializer_schema_registry.errors import InvalidSchemaError, RegistryUnavailableError
from ottla_serializer_schema_registry.registry import SchemaRegistry

MAGIC: Final = 0
_PREFIX: Final = struct.Struct(">bI")


@attrs.frozen(kw_only=True)
class _Ready:
    """What data of a subject needs: the bytes before it, and the parsed schema."""

    prefix: bytes
    schema: Any = attrs.field(repr=False)
    is_bytes: bool
    """Whether the schema is that of bytes alone, which have no length in Confluent's wire format."""


class AvroSerializer:
    """Serializes with one schema, or with the newest of each subject. For any thread.

    *text* is the schema as JSON; None takes the newest version of the subject, which *latest* does in any case.
    """

    def __init__(
        self,
        registry: SchemaRegistry,
        *,
        is_key: bool,
        text: str | None = None,
        register: bool = True,
        latest: bool = False,
        strategy: str = keys.TOPIC,
    ) -> None:
        self._registry = registry
        self._text = text
        self._register = register
        self._latest = latest
        self._part = "key" if is_key else "value"
        self._strategy = strategy
        self._parsed = None if text is None else parsed_schema(text)
        self._name = None if self._parsed is None else record_name(self._parsed)
        self._by_topic: dict[str, _Ready] = {}
        self._by_subject: dict[str, _Ready] = {}
        self._asking = threading.Lock()

    @property
    def has_name(self) -> bool:
        """Whether the schema has a name, which the subject strategies of records need."""
        return self._name is not None

    def serialize(self, topic: str, data: Any, headers: Sequence[Header]) -> bytes | None:
        """The magic byte, the id of the schema, and the data. None stays None."""
        if data is None:
            return None
        ready = self._by_topic.get(topic)
        if ready is None:
            raise NotPreparedError(f"the schema of the {self._part} for topic {topic!r} was not looked up yet")
        return _encoded(data, ready)

    def prepare(self, topic: str, data: Any, headers: Sequence[Header], *, timeout: float) -> None:
        """Register or look up the schema for a topic. Raises SchemaRegistryError."""
        subject = self._subject(topic)
        if not self._asking.acquire(timeout=timeout):
            raise RegistryUnavailableError(
                f"another thread has been waiting for the schema registry for the whole {timeout:.3g} s"
            )
        try:
            if subject not in self._by_subject:
                self._by_subject[subject] = self._found(subject, timeout)
            self._by_topic[topic] = self._by_subject[subject]
        finally:
            self._asking.release()

    def _subject(self, topic: str) -> str:
        match self._strategy:
            case keys.RECORD:
                return str(self._name)
            case keys.TOPIC_RECORD:
                return f"{topic}-{self._name}"
            case _:
                return f"{topic}-{self._part}"

    def _found(self, subject: str, timeout: float) -> _Ready:
        if self._latest or self._text is None:
            found = self._registry.latest(subject, timeout=timeout)
        elif self._register:
            found = self._registry.register(subject, self._text, timeout=timeout)
        else:
            found = self._registry.look_up(subject, self._text, timeout=timeout)
        schema = self._parsed if found.text == self._text else parsed_schema(found.text)
        return _Ready(prefix=_PREFIX.pack(MAGIC, found.id), schema=schema, is_bytes=schema == {"type": "bytes"})


def _encoded(data: Any, ready: _Ready) -> bytes:
    if ready.is_bytes and isinstance(data, bytes):
        return ready.prefix + data
    out = io.BytesIO()
    out.write(ready.prefix)
    try:
        # fastavro writes an int of any size where the schema has 32 bits, and no reader can read that.
        validate(data, ready.schema)
        fastavro.schemaless_writer(out, ready.schema, data)
    except ValidationError as error:
        raise ValueError(f"it does not fit its Avro schema: {_reasons(error)}") from error
    except RecursionError:
        raise ValueError("it is nested too deeply for Avro, or holds itself") from None
    except Exception as error:  # of logical types, which raise errors of many types
        raise ValueError(f"it does not fit its Avro schema: {type(error).__name__}: {error}") from error
    return out.getvalue()


def _reasons(error: ValidationError) -> str:
    return "; ".join(str(each) for each in error.errors[:5])[:1000]


def parsed_schema(text: str) -> Any:
    """Parse a schema. Raises InvalidSchemaError for any text that is not Avro's."""
    try:
        parsed = fastavro.parse_schema(json.loads(text), named_schemas={})
        return {"type": parsed} if isinstance(parsed, str) else parsed
    except RecursionError:
        raise InvalidSchemaError("the schema is nested too deeply") from None
    except Exception as error:  # fastavro raises errors of many types for hostile schemas
        raise InvalidSchemaError(f"it is no Avro schema: {type(error).__name__}: {str(error)[:300]!r}") from error


def record_name(schema: Any) -> str | None:
    """Return the full name of a parsed record, enum or fixed; None for other schemas."""
    return str(schema["name"]) if isinstance(schema, Mapping) and "name" in schema else None
