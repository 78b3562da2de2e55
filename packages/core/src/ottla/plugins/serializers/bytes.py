"""Bytes stay what they are; anything else is refused rather than guessed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from ottla.hookspecs import hookimpl
from ottla.interfaces import Header, Serializer


@attrs.frozen
class BytesSerializer:
    """Takes bytes, bytearray, memoryview and None; what can change later is copied."""

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
    """What is really there, as bytes: a class derived from bytes may say anything of itself, its length for one."""
    return bytes(memoryview(data))
