"""gzip, codec 1: zlib of the standard library in gzip's framing, as one member."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Final

from ottla.compressors.levels import level_key
from ottla.compressors.refusals import malformed, too_large
from ottla.hookspecs import hookimpl
from ottla.interfaces import Buffer, Compressor, ConfigKey, PluginConfig

LEVEL: Final = level_key("gzip", least=1, most=9, default=-1, also=-1)

_GZIP_FRAMING: Final = 16 + zlib.MAX_WBITS


class Gzip:
    """Chunks stream through; zlib lets the GIL go."""

    codec_id = 1

    def __init__(self, level: int) -> None:
        self._level = level

    def compress(self, chunks: Sequence[Buffer], *, level: int | None = None) -> bytes:
        stream = zlib.compressobj(self._level if level is None else level, zlib.DEFLATED, _GZIP_FRAMING)
        return b"".join([*map(stream.compress, chunks), stream.flush()])

    def decompress(self, buffer: Buffer, *, limit: int) -> bytes:
        stream = zlib.decompressobj(_GZIP_FRAMING)
        try:
            plain = stream.decompress(buffer, limit + 1)
        except zlib.error as error:
            raise malformed("gzip", error) from error
        if len(plain) > limit:
            raise too_large("gzip", limit)
        if not stream.eof:
            raise malformed("gzip", "it ends too early")
        if stream.unused_data:
            raise malformed("gzip", f"{len(stream.unused_data)} bytes follow its end")
        return plain


@hookimpl
def ottla_config_keys() -> Sequence[ConfigKey]:
    return [LEVEL]


@hookimpl
def ottla_compressor(config: PluginConfig) -> Compressor:
    return Gzip(config[LEVEL.name])
