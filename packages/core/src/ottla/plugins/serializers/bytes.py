"""Bytes, unchanged; any other type is refused."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any

import attrs

from ottla.hookspecs import hookimpl
from ottla.interfaces import Header, Serializer


@attrs.frozen(eq=False, repr=False)
class BytesSerializer:
    """Accepts bytes, bytearray, memoryview and None; copies mutable ones."""

    part: str

    def serialize(self, topic: str, data: Any, headers: Sequence[Header]) -> bytes | None:
        if data is None or type(data) is bytes:
            return data
        if isinstance(data, bytes | bytearray | memoryview):
            return plain_bytes(data)
        raise TypeError(
            f"a {self.part} for topic {topic!r} is {type(data).__name__}, not bytes; encode it first, "
            f"for example {self.part}.encode(), or set {self.part}.serializer=string"
        )


@hookimpl
def ottla_serializer(is_key: bool) -> Serializer:
    return BytesSerializer("key" if is_key else "value")


def plain_bytes(data: bytes | bytearray | memoryview) -> bytes:
    """The actual content as bytes: a class derived from bytes may return anything, for example as its length."""
    return bytes(memoryview(data))


def instead_of_bytes(made: object) -> str:
    """What a serializer returned in place of bytes, for an error. Closes a coroutine, which nothing would await."""
    if isinstance(made, Coroutine):
        made.close()
        return (
            "returned a coroutine, which nothing awaits; await it before send, or use a serializer that returns bytes"
        )
    return f"returned {type(made).__name__}, not bytes"
