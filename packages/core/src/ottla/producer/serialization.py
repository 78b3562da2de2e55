"""Keys and values of records become bytes: by the serializers of one producer, or because they are bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from ottla.config.wait_limit import WaitLimit
from ottla.errors import InvalidRecordError, NotPreparedError, SerializationError
from ottla.errors.plugin_origin import faults
from ottla.interfaces import Header, Serializer, SupportsPrepare, SupportsSetsHeaders, supports
from ottla.plugins.serializer_failures import serialization_failure
from ottla.plugins.serializer_lookups import Lookup, LookupWait
from ottla.plugins.serializers.bytes import plain_bytes
from ottla.producer.headers import checked_headers

Serialized: TypeAlias = tuple[bytes | None, bytes | None, Sequence[Header]]
"""A record's key, value and headers."""


class PartSerializer:
    """Makes keys, or values, bytes: *part* is "key" or "value". Without a *serializer* they must be bytes."""

    def __init__(self, part: str, serializer: Serializer | None) -> None:
        self.changes_bytes = serializer is not None
        self.sets_headers = supports(serializer, SupportsSetsHeaders) and bool(serializer.sets_headers)
        self.prepares = serializer if supports(serializer, SupportsPrepare) else None
        self._part = part
        self._serialize = None if serializer is None else serializer.serialize
        self._serializer = serializer

    def bytes_of(self, topic: str, data: Any, headers: Sequence[Header]) -> bytes | None:
        """The bytes of a key or value. Raises SerializationError, or InvalidRecordError without a serializer."""
        if self._serialize is None:
            return self._given_bytes(topic, data)
        try:
            made = self._serialize(topic, data, headers)
            return made if type(made) is bytes or made is None else plain_bytes(made)
        except faults() as cause:
            raise self._refused(topic, cause) from cause

    def made(self, topic: str, data: Any, headers: Sequence[Header]) -> tuple[bytes | None, Sequence[Header]]:
        """The same, and the record's headers from then on. Raises NotPreparedError while a `lookup` is needed."""
        if self._serialize is None:
            return self._given_bytes(topic, data), headers
        # A list of its own for each attempt: one that ends in a lookup may have changed it.
        given = list(headers) if self.sets_headers else headers
        try:
            made = self._serialize(topic, data, given)
            serialized = made if type(made) is bytes or made is None else plain_bytes(made)
            return serialized, checked_headers(given) if self.sets_headers else headers
        except NotPreparedError as cause:
            if self.prepares is not None:
                raise
            raise self._refused(topic, cause) from cause
        except faults() as cause:
            raise self._refused(topic, cause) from cause

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

    def _refused(self, topic: str, cause: BaseException) -> SerializationError:
        assert self._serializer is not None, "it has raised the cause"
        reason = serialization_failure(self._serializer, cause)
        return SerializationError(f"the {self._part} for topic {topic!r} could not be serialized: {reason}")

    def _given_bytes(self, topic: str, data: Any) -> bytes | None:
        if data is None:
            return None
        if isinstance(data, bytes | bytearray | memoryview):
            return plain_bytes(data)
        raise InvalidRecordError(
            f"the {self._part} for topic {topic!r} must be bytes, not {type(data).__name__}: encode it first, or set "
            f"{self._part}.serializer"
        )


class RecordSerializer:
    """The serializers of a producer, of which one sets headers, or needs lookups. For any thread."""

    def __init__(
        self, *, key: PartSerializer, value: PartSerializer, max_block: float, clock: Callable[[], float]
    ) -> None:
        self._key = key
        self._value = value
        self._max_block = max_block
        self._clock = clock

    @classmethod
    def of(
        cls, *, key: PartSerializer, value: PartSerializer, max_block: float, clock: Callable[[], float]
    ) -> RecordSerializer | None:
        """None: `bytes_of` of each does it all."""
        if not any(part.sets_headers or part.prepares is not None for part in (key, value)):
            return None
        return cls(key=key, value=value, max_block=max_block, clock=clock)

    def serialize(
        self, topic: str, key: Any, value: Any, headers: Sequence[Header], *, timeout: float | None = None
    ) -> tuple[Serialized, float]:
        """The serialized record, and the seconds that its lookups took, at most about *timeout*, or `max.block.ms`.

        Raises what `bytes_of` raises.
        """
        made = self.try_serialize(topic, key, value, headers)
        if not isinstance(made, Lookup):
            return made, 0.0
        lookups = LookupWait(WaitLimit.of(timeout, max_block=self._max_block), clock=self._clock)
        while isinstance(made, Lookup):
            lookups.wait(made)
            made = self.try_serialize(topic, key, value, headers)
        return made, lookups.waited

    def try_serialize(self, topic: str, key: Any, value: Any, headers: Sequence[Header]) -> Serialized | Lookup:
        """The serialized record, without waiting; or the lookup to wait for, before the same call is made again.

        `Lookup.prepare` blocks: an event loop calls it on a helper thread. Raises what `bytes_of` raises.
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
