"""Keys and values of records become bytes: by the serializers of one producer, or because they are bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, Protocol, TypeAlias

from ottla.concurrency import io_threads
from ottla.config.wait_limit import WaitLimit
from ottla.errors import InvalidRecordError, NotPreparedError, SerializationError
from ottla.errors.plugin_origin import faults
from ottla.interfaces import Header, Serializer, SupportsPrepare, SupportsSetsHeaders, supports
from ottla.plugins.record_headers import checked_headers
from ottla.plugins.serializer_failures import serialization_failure, serialized_bytes
from ottla.plugins.serializer_lookups import Lookup, LookupWait
from ottla.plugins.serializers.bytes import plain_bytes

Serialized: TypeAlias = tuple[bytes | None, bytes | None, Sequence[Header]]
"""A record's key, value and headers."""

Serialize: TypeAlias = Callable[
    [str, Any, Any, Sequence[Header], float | None], tuple[bytes | None, bytes | None, Sequence[Header], float]
]
"""Makes a record of a topic from key, value and headers. Returns these, and the seconds that lookups took."""


class AwaitTopic(Protocol):
    """A function that waits until a topic is known. Raises if it cannot be, and if the producer takes no records."""

    def __call__(self, topic: str, *, timeout: float | None) -> object: ...


_BYTES: Final = (bytes, bytearray, memoryview)
"""A union in their place would be made for each call, in 100 ns."""


class PartSerializer:
    """Makes keys, or values, bytes: *part* is "key" or "value". Without a *serializer* they must be bytes."""

    def __init__(self, part: str, serializer: Serializer | None) -> None:
        self.changes_bytes = serializer is not None
        self.sets_headers = supports(serializer, SupportsSetsHeaders) and bool(serializer.sets_headers)
        self.prepares = serializer if supports(serializer, SupportsPrepare) else None
        self._part = part
        self.serialize = partial(_given_bytes, part) if serializer is None else serializer.serialize
        self._serializer = serializer

    def made(self, topic: str, data: Any, headers: Sequence[Header]) -> tuple[bytes | None, Sequence[Header]]:
        """The bytes of a key or value, and the record's headers from then on.

        Raises SerializationError, InvalidRecordError without a serializer, and NotPreparedError while a `lookup` is
        needed.
        """
        if self._serializer is None:
            return self.serialize(topic, data, headers), headers
        # A new list for each attempt: one that ends in a lookup may have changed it.
        given = list(headers) if self.sets_headers else headers
        try:
            made = self.serialize(topic, data, given)
            serialized = made if type(made) is bytes or made is None else serialized_bytes(made)
            return serialized, checked_headers(given) if self.sets_headers else headers
        except NotPreparedError as cause:
            if self.prepares is not None:
                raise
            raise self.failure(topic, cause) from cause
        except faults() as cause:
            raise self.failure(topic, cause) from cause

    def lookup(self, topic: str, data: Any, headers: Sequence[Header]) -> Lookup:
        """The lookup that `made` needs."""
        assert self.prepares is not None, "otherwise it is no NotPreparedError that is raised"
        return Lookup(
            serializer=self.prepares,
            what=f"the {self._part} for topic {topic!r}",
            topic=topic,
            data=data,
            headers=tuple(headers),
        )

    def failure(self, topic: str, cause: BaseException) -> SerializationError:
        """The error for an exception of the serializer."""
        assert self._serializer is not None, "it has raised the cause"
        reason = serialization_failure(self._serializer, cause)
        return SerializationError(f"the {self._part} for topic {topic!r} could not be serialized: {reason}")


def _given_bytes(part: str, topic: str, data: Any, _headers: Sequence[Header]) -> bytes | None:
    if data is None:
        return None
    if isinstance(data, _BYTES):
        try:
            return plain_bytes(data)
        except ValueError as cause:  # of a memoryview that was released
            raise InvalidRecordError(f"the {part} for topic {topic!r} cannot be read: {cause}") from cause
    example = "=string" if isinstance(data, str) else "=json" if isinstance(data, dict | list) else ""
    raise InvalidRecordError(
        f"the {part} for topic {topic!r} must be bytes, not {type(data).__name__}: encode it first, or set "
        f"{part}.serializer{example}"
    )


class RecordSerializer:
    """The serializers of a producer's keys and values. For any thread."""

    def __init__(
        self,
        *,
        key: PartSerializer,
        value: PartSerializer,
        max_block: float,
        clock: Callable[[], float],
    ) -> None:
        self._key = key
        self._value = value
        self._max_block = max_block
        self._clock = clock
        self.changes_bytes = key.changes_bytes or value.changes_bytes
        """Whether keys or values that are bytes already need serializing."""
        self.await_topic: AwaitTopic | None = None
        """What is called before the first lookup of a record, which may change something elsewhere: a schema that is
        registered for a topic that cannot be stays in the registry."""

    @property
    def serialize(self) -> Serialize:
        """The version for these serializers. Its lookups take about *timeout* seconds at most, or `max.block.ms`.

        It raises SerializationError, or InvalidRecordError for a key or value that is not bytes and has no serializer.
        """
        if any(part.sets_headers or part.prepares is not None for part in (self._key, self._value)):
            return self._serialize_with_lookups
        return self._serialize_at_once

    def _serialize_at_once(
        self, topic: str, key: Any, value: Any, headers: Sequence[Header], _timeout: float | None
    ) -> tuple[bytes | None, bytes | None, Sequence[Header], float]:
        part = self._value
        try:
            made_value = part.serialize(topic, value, headers)
            if type(made_value) is not bytes and made_value is not None:
                made_value = serialized_bytes(made_value)
            if key is None:
                return None, made_value, headers, 0.0
            part = self._key
            made_key = part.serialize(topic, key, headers)
            if type(made_key) is not bytes and made_key is not None:
                made_key = serialized_bytes(made_key)
        except faults() as cause:
            if not part.changes_bytes:
                raise
            raise part.failure(topic, cause) from cause
        return made_key, made_value, headers, 0.0

    def _serialize_with_lookups(
        self, topic: str, key: Any, value: Any, headers: Sequence[Header], timeout: float | None
    ) -> tuple[bytes | None, bytes | None, Sequence[Header], float]:
        made = self.try_serialize(topic, key, value, headers)
        if not isinstance(made, Lookup):
            return *made, 0.0
        started_at = self._clock()
        if self.await_topic is not None and not io_threads.on_io_thread():
            self.await_topic(topic, timeout=timeout)
        limit = WaitLimit.of(timeout, max_block=self._max_block)
        lookups = LookupWait(limit, clock=self._clock, waited=self._clock() - started_at)
        while isinstance(made, Lookup):
            lookups.wait(made)
            made = self.try_serialize(topic, key, value, headers)
        return *made, lookups.waited

    def try_serialize(self, topic: str, key: Any, value: Any, headers: Sequence[Header]) -> Serialized | Lookup:
        """The serialized record, without waiting; or the lookup to wait for, before the same call is made again.

        `Lookup.prepare` blocks: an event loop calls it on a helper thread. Raises what `serialize` raises.
        """
        part, data = self._value, value
        try:
            made_value, headers = part.made(topic, data, headers)
            if key is None:
                return None, made_value, headers
            part, data = self._key, key
            made_key, headers = part.made(topic, data, headers)
        except NotPreparedError:
            return part.lookup(topic, data, headers)
        return made_key, made_value, headers
