"""gzip, codec 1: zlib of the standard library in gzip's framing. Written as one member, read as one or more."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Final

from ottla.hookspecs import hookimpl
from ottla.interfaces import Buffer, Compressor
from ottla.plugins.compressors.codec_errors import malformed, too_large

DEFAULT_LEVEL: Final = -1
"""The choice of zlib itself."""

_GZIP_FRAMING: Final = 16 + zlib.MAX_WBITS
_MAGIC: Final = b"\x1f\x8b\x08"
_LEAST_AROUND: Final = 18
"""Bytes of a member's header and trailer."""

_PIECE: Final = 16 * 1024
"""Bytes of input per call when unpacking: zlib copies what follows a member, and there may be thousands."""


class Gzip:
    """Compresses chunk by chunk; zlib releases the GIL."""

    codec_id = 1

    def __init__(self, level: int = DEFAULT_LEVEL) -> None:
        self._level = level

    def compress(self, chunks: Sequence[Buffer], *, level: int | None = None) -> bytes:
        stream = zlib.compressobj(self._level if level is None else level, zlib.DEFLATED, _GZIP_FRAMING)
        return b"".join([*map(stream.compress, chunks), stream.flush()])

    def decompress(self, buffer: Buffer, *, limit: int) -> bytes:
        members: list[bytes] = []
        free_bytes = limit
        rest = memoryview(buffer)
        while not members or _begins_a_member(rest):
            plain, rest = _member(rest, free_bytes)
            if len(plain) > free_bytes:
                raise too_large("gzip", limit)
            free_bytes -= len(plain)
            members.append(plain)
        return b"".join(members)


def _begins_a_member(rest: memoryview) -> bool:
    """Return whether another member follows; as in Java, anything else is padding."""
    return len(rest) > _LEAST_AROUND and bytes(rest[: len(_MAGIC)]) == _MAGIC


def _member(view: memoryview, free_bytes: int) -> tuple[bytes, memoryview]:
    """Unpack the first member, up to one byte more than *free_bytes*; return the result and the rest of the input."""
    stream = zlib.decompressobj(_GZIP_FRAMING)
    pieces: list[bytes] = []
    while not stream.eof and free_bytes >= 0:
        given = view[:_PIECE]
        if not given:
            raise malformed("gzip", "it ends too early")
        try:
            pieces.append(stream.decompress(given, free_bytes + 1))
        except zlib.error as error:
            raise malformed("gzip", error) from error
        free_bytes -= len(pieces[-1])
        view = view[len(given) - len(stream.unused_data) :]
    return b"".join(pieces), view


@hookimpl
def ottla_compressor() -> Compressor:
    return Gzip(DEFAULT_LEVEL)
