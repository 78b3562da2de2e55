"""The codec `gzip`, by the standard library."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Final

from ottla.compressors.levels import bounded, level_key
from ottla.errors import ProtocolError
from ottla.hookspecs import hookimpl
from ottla.interfaces import Buffer, Compressor, ConfigKey, PluginConfig

DEFAULT_LEVEL: Final = -1
LEVEL: Final = level_key("gzip", range(1, 10), default=DEFAULT_LEVEL)
GZIP_FRAMING: Final = 16 + zlib.MAX_WBITS


class GzipCompressor:
    """Streams chunk by chunk, so nothing is joined first."""

    codec_id = 1

    def __init__(self, level: int = DEFAULT_LEVEL) -> None:
        self._level = level

    def compress(self, chunks: Sequence[Buffer], *, level: int | None) -> bytes:
        """One gzip member."""
        stream = zlib.compressobj(self._level if level is None else level, zlib.DEFLATED, GZIP_FRAMING)
        return b"".join([*map(stream.compress, chunks), stream.flush()])

    def decompress(self, buffer: Buffer, *, limit: int) -> bytes:
        """The content of one gzip member, with its checksum verified."""
        stream = zlib.decompressobj(GZIP_FRAMING)
        try:
            data = bounded(stream.decompress(buffer, limit + 1), limit, codec="gzip")
        except zlib.error as cause:
            raise ProtocolError(f"not gzip data: {cause}") from cause
        if not stream.eof:
            raise ProtocolError("the gzip data ends too early")
        return data


@hookimpl
def ottla_config_keys() -> Sequence[ConfigKey]:
    """Its level."""
    return [LEVEL]


@hookimpl
def ottla_compressor(config: PluginConfig) -> Compressor:
    """The codec named `gzip`."""
    return GzipCompressor(config[LEVEL.name])
