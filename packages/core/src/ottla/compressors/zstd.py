"""The codec `zstd`, which only record batches v2 can carry."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, Final

from ottla.compressors.levels import beyond, joined, level_key, missing
from ottla.errors import ProtocolError
from ottla.hookspecs import hookimpl
from ottla.interfaces import Buffer, Compressor, ConfigKey, PluginConfig

DEFAULT_LEVEL: Final = 3
LEVEL: Final = level_key("zstd", range(-131072, 23), default=DEFAULT_LEVEL)

PIECE: Final = 256
"""The library has no bound for what one call returns; so few bytes cannot become more than some megabytes."""


class ZstdCompressor:
    """Needs the module `zstandard`. Its contexts are costly and serve one thread each: every thread has its own."""

    codec_id = 4

    def __init__(self, zstandard: Any, level: int = DEFAULT_LEVEL) -> None:
        self._zstandard = zstandard
        self._level = level
        self._contexts = threading.local()

    def compress(self, chunks: Sequence[Buffer], *, level: int | None) -> bytes:
        """One frame."""
        compressed: bytes = self._context(self._level if level is None else level).compress(joined(chunks))
        return compressed

    def decompress(self, buffer: Buffer, *, limit: int) -> bytes:
        """The content of one frame; a content size that it declares is not believed."""
        stream = self._zstandard.ZstdDecompressor().decompressobj(read_across_frames=False)
        pieces: list[bytes] = []
        size = 0
        try:
            for start in range(0, len(buffer), PIECE):
                pieces.append(stream.decompress(buffer[start : start + PIECE]))
                size += len(pieces[-1])
                if size > limit:
                    raise beyond(limit, codec="zstd")
        except self._zstandard.ZstdError as cause:
            raise ProtocolError(f"not zstd data: {cause}") from cause
        if not stream.eof:
            raise ProtocolError("the zstd data ends too early")
        return b"".join(pieces)

    def _context(self, level: int) -> Any:
        contexts: dict[int, Any] = self._contexts.__dict__.setdefault("by_level", {})
        context = contexts.get(level)
        if context is None:
            context = contexts[level] = self._zstandard.ZstdCompressor(level=level)
        return context


@hookimpl
def ottla_config_keys() -> Sequence[ConfigKey]:
    """Its level."""
    return [LEVEL]


@hookimpl
def ottla_compressor(config: PluginConfig) -> Compressor:
    """The codec named `zstd`."""
    try:
        import zstandard
    except ImportError as cause:
        raise missing("zstd", "zstandard") from cause
    return ZstdCompressor(zstandard, config[LEVEL.name])
