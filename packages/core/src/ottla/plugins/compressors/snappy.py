"""Snappy, codec 2: raw blocks of 32 kB in the framing of xerial's snappy-java, which Kafka calls snappy."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Final

from ottla.hookspecs import hookimpl
from ottla.interfaces import Buffer, Compressor
from ottla.plugins.compressors.codec_errors import library_missing, malformed, too_large

_MAGIC: Final = b"\x82SNAPPY\0"
_HEADER: Final = _MAGIC + struct.pack(">ii", 1, 1)
_BLOCK_SIZE: Final = 32 * 1024
_LENGTH: Final = struct.Struct(">i")

_MAX_EXPANSION: Final = 22
"""Maximum ratio. A copy of 64 bytes, the longest, takes 3 bytes; a block that declares more has a wrong size."""


class Snappy:
    """Has no levels. Chunks are joined, because blocks do not end with chunks."""

    codec_id = 2

    def __init__(self, cramjam: ModuleType) -> None:
        self._raw = cramjam.snappy
        self._error = cramjam.DecompressionError

    def compress(self, chunks: Sequence[Buffer], *, level: int | None = None) -> bytes:
        plain = memoryview(chunks[0] if len(chunks) == 1 else b"".join(chunks))
        parts = [_HEADER]
        for start in range(0, len(plain), _BLOCK_SIZE):
            block = bytes(self._raw.compress_raw(plain[start : start + _BLOCK_SIZE]))
            parts += (_LENGTH.pack(len(block)), block)
        return b"".join(parts)

    def decompress(self, buffer: Buffer, *, limit: int) -> bytes:
        pieces: list[bytes] = []
        free_bytes = limit
        for block in _blocks(memoryview(buffer)):
            try:
                declared = self._raw.decompress_raw_len(block)
                if declared > _MAX_EXPANSION * len(block):
                    raise malformed("snappy", f"{len(block)} bytes cannot unpack to {declared}")
                free_bytes -= declared
                if free_bytes < 0:
                    raise too_large("snappy", limit)
                pieces.append(bytes(self._raw.decompress_raw(block)))
            except self._error as error:
                raise malformed("snappy", error) from error
        return b"".join(pieces)


def _blocks(view: memoryview) -> Iterator[memoryview]:
    if bytes(view[: len(_MAGIC)]) != _MAGIC:
        yield view  # Java also reads a single raw block, which some clients write.
        return
    rest = view
    while rest:
        if bytes(rest[: len(_MAGIC)]) == _MAGIC:  # of the first stream, or of a concatenated one
            if len(rest) < len(_HEADER):
                raise malformed("snappy", "it ends inside its header")
            rest = rest[len(_HEADER) :]
            continue
        if len(rest) < _LENGTH.size:
            raise malformed("snappy", "it ends inside the length of a block")
        end = _LENGTH.size + _LENGTH.unpack_from(rest)[0]
        if not _LENGTH.size < end <= len(rest):
            raise malformed("snappy", f"a block of {end - _LENGTH.size} bytes does not end within it")
        yield rest[_LENGTH.size : end]
        rest = rest[end:]


@hookimpl
def ottla_compressor() -> Compressor:
    try:
        import cramjam
    except ImportError:
        raise library_missing("snappy") from None
    return Snappy(cramjam)
