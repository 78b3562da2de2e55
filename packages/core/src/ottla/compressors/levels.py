"""Compression levels as configuration, and the bounds that every decompression keeps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ottla.errors import PluginMissing, ProtocolError
from ottla.interfaces import Buffer, ConfigKey


def level_key(codec: str, allowed: range, *, default: int) -> ConfigKey:
    """The key `compression.<codec>.level`; *default* is the codec's own way and may lie outside of the range."""
    return ConfigKey(
        name=f"compression.{codec}.level",
        type=_level(allowed, default),
        default=default,
        meaning=f"How hard {codec} tries: {allowed.start} to {allowed.stop - 1}, or {default} for its default.",
    )


def joined(chunks: Sequence[Buffer]) -> Buffer:
    """All chunks in a row, without a copy when there is only one: what an encoder gives as a rule."""
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def bounded(data: bytes, limit: int, *, codec: str) -> bytes:
    """The data, which is at most one byte longer than *limit* because decompressing stopped there."""
    if len(data) > limit:
        raise beyond(limit, codec=codec)
    return data


def beyond(limit: int, *, codec: str) -> ProtocolError:
    """The error for data that would grow larger than *limit* bytes."""
    return ProtocolError(f"{codec} data grows beyond the limit of {limit} bytes")


def missing(codec: str, library: str) -> PluginMissing:
    """The error for a codec whose library is not installed."""
    return PluginMissing(
        f"compression.type={codec} needs the library {library}, which is not installed; "
        f'try: pip install "ottla[{codec}]"'
    )


def _level(allowed: range, default: int) -> Callable[[Any], int]:
    def level(raw: Any) -> int:
        if isinstance(raw, bool):
            raise TypeError("a level is a whole number")
        value = int(raw)
        if value != default and value not in allowed:
            raise ValueError(f"must be {allowed.start} to {allowed.stop - 1}, or {default}")
        return value

    return level
