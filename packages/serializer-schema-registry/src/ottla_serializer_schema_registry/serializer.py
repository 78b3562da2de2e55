"""A serializer of keys or values with a schema of the registry, in any format. It waits only in `prepare`."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, Final, NoReturn, TypeAlias

import attrs

from ottla.errors import NotPreparedError, without_frames
from ottla.interfaces import Header, RecordEncoder
from ottla_serializer_schema_registry.errors import RegistryUnavailableError, SchemaRegistryError
from ottla_serializer_schema_registry.formats import ParsedSchema, SchemaFormat
from ottla_serializer_schema_registry.prepared import PreparedSchema, PreparedSerializer, PreparedTopics
from ottla_serializer_schema_registry.registry.client import LATEST, SchemaRegistry
from ottla_serializer_schema_registry.registry.exchange import LONGEST_WAIT, Deadline
from ottla_serializer_schema_registry.registry.references import LocalSchema, NamedText, fetch_references, registrable
from ottla_serializer_schema_registry.registry.rules import check_rules
from ottla_serializer_schema_registry.registry.schemas import RegisteredSchema, Schema
from ottla_serializer_schema_registry.schema_ids import IdPlace, header_of, prefix_of, set_header
from ottla_serializer_schema_registry.subjects import SubjectStrategy, check_name, subject_of

REFUSAL_STAYS: Final = 1.0
"""Seconds for which a refusal of the registry holds: records that fail ask it no more often."""

_Place: TypeAlias = "tuple[str, Any]"
"""A subject or topic, and the type of the columns whose schema is used, None if the schema is not theirs."""


class Lookup(Enum):
    """Where the schema of a subject comes from."""

    REGISTER = "the schema of the program or its columns, which is registered"
    LOOK_UP = "the schema of the program or its columns, which the registry has to have"
    NEWEST = "the newest version that the registry has"


@attrs.frozen(kw_only=True)
class SchemaOptions:
    """How a serializer finds its schemas."""

    part: str = "value"
    lookup: Lookup = Lookup.REGISTER
    strategy: SubjectStrategy = SubjectStrategy.TOPIC
    id_place: IdPlace = IdPlace.PREFIX


@attrs.frozen(kw_only=True)
class _Ready:
    """What data of a subject needs. *text* and *needed* are what the schema was parsed from."""

    schema: ParsedSchema = attrs.field(repr=False)
    text: str = attrs.field(repr=False)
    needed: Sequence[NamedText] = attrs.field(repr=False)
    prefix: bytes
    header: Header | None

    def prepared(self) -> PreparedSchema:
        """Return what another process needs of it."""
        return PreparedSchema(text=self.text, needed=tuple(self.needed), prefix=self.prefix, header=self.header)


@attrs.frozen(kw_only=True)
class _Refusal:
    """An answer that is final for now."""

    error: SchemaRegistryError
    until: float


class RegistrySerializer:
    """Serializes with one schema, or with the newest of each subject. For any thread.

    *local* is the schema of the program. None takes the newest version of the subject if the options say so, and
    otherwise the schema of the columns that are serialized. *parsed* is the local schema, if it needs no others, and
    *name* the name of its record. Raises InvalidSchemaError for a schema without the name that its subjects need.
    """

    def __init__(
        self,
        registry: SchemaRegistry,
        schema_format: SchemaFormat,
        *,
        options: SchemaOptions,
        local: LocalSchema | None = None,
        parsed: ParsedSchema | None = None,
        name: str | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._registry = registry
        self._format = schema_format
        self._options = options
        self._local = local
        self._parsed = parsed
        self._name = name
        self._clock = clock
        self._derives = local is None and options.lookup is not Lookup.NEWEST
        if not self._derives:
            check_name(options.strategy, name)
        self._by_topic: dict[str, _Ready] = {}
        self._by_columns: dict[_Place, _Ready] = {}
        """By topic and type of the columns, if their schema is used; then `_by_topic` stays empty."""
        self._by_subject: dict[_Place, _Ready] = {}
        self._refusals: dict[_Place, _Refusal] = {}
        self._locks: dict[tuple[int, _Place], threading.Lock] = {}
        """By process: one that forks while a thread waits for the registry leaves its child a lock that is held."""
        self.sets_headers = options.id_place is IdPlace.HEADER

    def __reduce__(self) -> tuple[type[PreparedSerializer], tuple[SchemaFormat, PreparedTopics]]:
        """Pickle what was looked up, for processes that need not reach the registry; it has none of the credentials."""
        prepared: dict[str, dict[Any, PreparedSchema]] = {}
        for topic, ready in self._by_topic.copy().items():  # other threads prepare topics meanwhile
            prepared[topic] = {None: ready.prepared()}
        for (topic, column_type), ready in self._by_columns.copy().items():
            prepared.setdefault(topic, {})[column_type] = ready.prepared()
        return PreparedSerializer, (self._format, prepared)

    def use_encoder(self, encoder: RecordEncoder) -> None:
        """Use what the record encoder can do for columns."""
        self._format.use_encoder(encoder)

    def serialize(self, topic: str, data: Any, headers: Sequence[Header]) -> bytes | None:
        """The data after the id of its schema, or with a header that has it. None stays None."""
        if data is None:
            return None
        if self._derives:
            raise ValueError(
                f"there is no {self._options.part}.schema; without it only columns of tables can be sent, whose types "
                "make the schema"
            )
        ready = self._by_topic.get(topic) or self._not_ready(topic)
        encoded = ready.schema.encode(data, ready.prefix)
        if ready.header is not None:
            set_header(headers, ready.header)
        return encoded

    def serialize_column(self, topic: str, column: Any) -> Any:
        """The data of each row after the id of its schema; null where the row is null."""
        ready = self._of_column(topic, column)
        return ready.schema.encode_column(column, ready.prefix)

    def column_headers(self, topic: str, column: Any) -> Sequence[Header]:
        """The header with the schema's id, if it is in a header."""
        header = self._of_column(topic, column).header
        return () if header is None else (header,)

    def _of_column(self, topic: str, column: Any) -> _Ready:
        ready = self._by_columns.get((topic, column.type)) if self._derives else self._by_topic.get(topic)
        return ready or self._not_ready(topic)

    def _not_ready(self, topic: str) -> NoReturn:
        raise NotPreparedError(f"the schema of the {self._options.part} for topic {topic!r} was not looked up yet")

    def prepare(self, topic: str, data: Any, headers: Sequence[Header], *, timeout: float) -> None:
        """Register or look up the schema for a topic. Raises SchemaRegistryError."""
        try:
            self._prepare(topic, data, timeout)
        except SchemaRegistryError as error:
            failure = without_frames(error)  # the frames have what the registry said, which may be our password
        else:
            return
        raise failure

    def _prepare(self, topic: str, data: Any, timeout: float) -> None:
        column_type = data.type if self._derives else None
        local, parsed, name = self._local, self._parsed, self._name
        if self._derives:
            local, parsed = self._of_columns(topic, column_type)
            name = parsed.name
        subject = subject_of(self._options.strategy, topic=topic, part=self._options.part, name=name)
        place = subject, column_type
        lock = self._locks.setdefault((os.getpid(), place), threading.Lock())
        deadline = Deadline(timeout, self._clock)  # the wait for another thread counts
        if not lock.acquire(timeout=min(timeout, LONGEST_WAIT)):
            raise RegistryUnavailableError(
                f"another thread has been waiting for the schema registry for the whole {timeout:.3g} s"
            )
        try:
            if place not in self._by_subject:
                self._by_subject[place] = self._ready(place, subject, local, parsed, deadline)
            if self._derives:
                self._by_columns[topic, column_type] = self._by_subject[place]
            else:
                self._by_topic[topic] = self._by_subject[place]
        finally:
            lock.release()

    def _of_columns(self, topic: str, column_type: Any) -> tuple[LocalSchema, ParsedSchema]:
        text = self._format.of_columns(column_type, topic)
        return LocalSchema(schema=Schema(kind=self._format.kind, text=text)), self._format.parse(text, ())

    def _ready(
        self, place: _Place, subject: str, local: LocalSchema | None, parsed: ParsedSchema | None, deadline: Deadline
    ) -> _Ready:
        refusal = self._refusals.get(place)
        if refusal is not None and self._clock() < refusal.until:
            raise type(refusal.error)(str(refusal.error))
        try:
            found = self._found(subject, local, deadline)
            check_rules(found.rules, subject)
            needed: Sequence[NamedText] = ()
            if parsed is None or local is None or found.schema.text != local.schema.text:
                needed = fetch_references(self._registry, found.schema, deadline)
                parsed = self._format.parse(found.schema.text, needed)
            return self._with_id(found, parsed, needed)
        except RegistryUnavailableError:
            raise
        except SchemaRegistryError as error:
            self._refusals[place] = _Refusal(error=error, until=self._clock() + REFUSAL_STAYS)
            raise
        except TimeoutError as error:
            raise RegistryUnavailableError(f"there was no time left for all schemas of subject {subject!r}") from error

    def _with_id(self, found: RegisteredSchema, schema: ParsedSchema, needed: Sequence[NamedText]) -> _Ready:
        in_header = self._options.id_place is IdPlace.HEADER
        return _Ready(
            schema=schema,
            text=found.schema.text,
            needed=needed,
            prefix=b"" if in_header else prefix_of(found, schema.indexes),
            header=header_of(found, schema.indexes, part=self._options.part) if in_header else None,
        )

    def _found(self, subject: str, local: LocalSchema | None, deadline: Deadline) -> RegisteredSchema:
        lookup = self._options.lookup
        if lookup is Lookup.NEWEST:
            return self._registry.version(subject, LATEST, kind=self._format.kind, timeout=deadline.remaining())
        assert local is not None, "without one, the columns have it"
        registers = lookup is Lookup.REGISTER
        schema = registrable(self._registry, local, register=registers, deadline=deadline)
        if registers:
            found = self._registry.register(subject, schema, timeout=deadline.remaining())
            if self._options.id_place is IdPlace.PREFIX or found.guid is not None:
                return found
        return self._registry.look_up(subject, schema, timeout=deadline.remaining(), just_registered=registers)
