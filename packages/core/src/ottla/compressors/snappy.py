"""The codec `snappy`, in the framing of xerial's Java library, which Kafka took over.

A header of sixteen bytes, then blocks: a length of four bytes, and so much raw snappy. The format has no end mark.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any, Final

from ottla.compressors.levels import beyond, joined, missing
from ottla.errors import ProtocolError
from ottla.hookspecs import hookimpl
from ottla.interfaces import Buffer, Compressor, PluginConfig

MAGIC: Final = b"\x82SNAPPY\0"
HEADER: Final = MAGIC + struct.pack(">ii", 1, 1)  # its version, and the oldest that can read it
BLOCK_SIZE: Final = 32 * 1024
_LENGTH: Final = struct.Struct(">i")


class SnappyCompressor:
    """Needs the module `cramjam.snappy`."""

    codec_id = 2

    def __init__(self, snappy: Any) -> None:
        self._snappy = snappy

    def compress(self, chunks: Sequence[Buffer], *, level: int | None) -> bytes:
        """Blocks of 32 kB; the codec has no levels."""
        data = memoryview(joined(chunks))
        pieces = [HEADER]
        for start in range(0, len(data), BLOCK_SIZE):
            block = bytes(self._snappy.compress_raw(data[start : start + BLOCK_SIZE]))
            pieces += _LENGTH.pack(len(block)), block
        return b"".join(pieces)

    def decompress(self, buffer: Buffer, *, limit: int) -> bytes:
        """Framed or, as some clients send it, bare snappy."""
        data = bytes(buffer)
        pieces: list[bytes] = []
        room = limit
        for block in _blocks(data) if data.startswith(MAGIC) else [data]:
            pieces.append(self._plain(block, room, limit))
            room -= len(pieces[-1])
        return b"".join(pieces)

    def _plain(self, block: bytes, room: int, limit: int) -> bytes:
        try:
            if self._snappy.decompress_raw_len(block) > room:
                raise beyond(limit, codec="snappy")
            return bytes(self._snappy.decompress_raw(block))
        except ProtocolError:
            raise
        except Exception as cause:  # the library's own class is not exported for every kind of failure
            raise ProtocolError(f"not snappy data: {cause}") from cause


def _blocks(data: bytes) -> Iterator[bytes]:
    at = len(HEADER)
    if len(data) < at:
        raise ProtocolError("the snappy data ends inside its header")
    while at < len(data):
        if at + _LENGTH.size > len(data):
            raise ProtocolError("the snappy data ends inside a block's length")
        [size] = _LENGTH.unpack_from(data, at)
        at += _LENGTH.size
        if not 0 <= size <= len(data) - at:
            raise ProtocolError(f"a snappy block of {size} bytes where {len(data) - at} are left")
        yield data[at : at + size]
        at += size


@hookimpl
def ottla_compressor(config: PluginConfig) -> Compressor:
    """The codec named `snappy`."""
    try:
        import cramjam
    except ImportError as cause:
        raise missing("snappy", "cramjam") from cause
    return SnappyCompressor(cramjam.snappy)
