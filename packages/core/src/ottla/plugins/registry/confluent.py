"""Serializers of confluent-kafka, such as `AvroSerializer`, which are called with a `SerializationContext`.

confluent-kafka is not imported: a program that gives such a serializer has imported it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final

from ottla.interfaces import Header
from ottla.plugins.serializers.bytes import instead_of_bytes

_MODULE: Final = "confluent_kafka.serialization"


def is_confluent_serializer(given: object) -> bool:
    """Return whether an object, which is no class, is a serializer of confluent-kafka."""
    return any(each.__module__ == _MODULE and each.__name__ == "Serializer" for each in type(given).__mro__)


class ConfluentSerializer:
    """Calls a serializer of confluent-kafka with the topic, the field and the headers of each record.

    If it uses a schema registry, the first call for a schema waits for it, as long as confluent-kafka's client does.
    """

    sets_headers = True

    def __init__(self, serializer: Callable[..., bytes | None], *, is_key: bool) -> None:
        confluent = sys.modules[_MODULE]
        self._context: Callable[..., Any] = confluent.SerializationContext
        self._field = confluent.MessageField.KEY if is_key else confluent.MessageField.VALUE
        self._serializer = serializer

    def serialize(self, topic: str, data: Any, headers: list[Header]) -> bytes | None:
        """The serializer's result, which must be bytes or None."""
        result = self._serializer(data, self._context(topic, self._field, headers))
        if result is not None and not isinstance(result, bytes):
            raise TypeError(f"the serializer of confluent-kafka {instead_of_bytes(result)}")
        return result
