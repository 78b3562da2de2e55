"""Strings as UTF-8; any other type is refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from ottla.hookspecs import hookimpl
from ottla.interfaces import Header, Serializer


@attrs.frozen
class StringSerializer:
    """Accepts str and None. A lone surrogate raises UnicodeEncodeError, a ValueError."""

    part: str

    def serialize(self, topic: str, data: Any, headers: Sequence[Header]) -> bytes | None:
        if data is None:
            return None
        if isinstance(data, str):
            return data.encode()
        is_bytes = isinstance(data, bytes | bytearray | memoryview)
        remedy = f"set {self.part}.serializer=bytes to send bytes as they are" if is_bytes else "make it a string first"
        raise TypeError(f"it is {type(data).__name__}, not str; {remedy}")


@hookimpl
def ottla_serializer(is_key: bool) -> Serializer:
    return StringSerializer("key" if is_key else "value")
