"""The codec `lz4`: frames with independent blocks, the only ones that Kafka's Java readers take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from ottla.compressors.levels import bounded, joined, level_key, missing
from ottla.errors import ProtocolError
from ottla.hookspecs import hookimpl
from ottla.interfaces import Buffer, Compressor, ConfigKey, PluginConfig

DEFAULT_LEVEL: Final = 9
"""What Kafka calls the default, and means the fast compressor by; any other level is the high compressor's."""

LEVEL: Final = level_key("lz4", range(1, 18), default=DEFAULT_LEVEL)
FAST: Final = 0


class Lz4Compressor:
    """Needs the module `lz4.frame`, which lets the GIL go while it works."""

    codec_id = 3

    def __init__(self, frame: Any, level: int = DEFAULT_LEVEL) -> None:
        self._frame = frame
        self._level = level

    def compress(self, chunks: Sequence[Buffer], *, level: int | None) -> bytes:
        """One frame: blocks of 64 kB that stand alone, no content size, as Java writes it."""
        wanted = self._level if level is None else level
        compressed: bytes = self._frame.compress(
            joined(chunks),
            compression_level=FAST if wanted == DEFAULT_LEVEL else wanted,
            block_size=self._frame.BLOCKSIZE_MAX64KB,
            block_linked=False,
            store_size=False,
        )
        return compressed

    def decompress(self, buffer: Buffer, *, limit: int) -> bytes:
        """The content of one frame; a content size that it declares is not believed."""
        stream = self._frame.LZ4FrameDecompressor()
        try:
            data = bounded(stream.decompress(buffer, max_length=limit + 1), limit, codec="lz4")
        except RuntimeError as cause:
            raise ProtocolError(f"not lz4 data: {cause}") from cause
        if not stream.eof:
            raise ProtocolError("the lz4 data ends too early")
        return data


@hookimpl
def ottla_config_keys() -> Sequence[ConfigKey]:
    """Its level."""
    return [LEVEL]


@hookimpl
def ottla_compressor(config: PluginConfig) -> Compressor:
    """The codec named `lz4`."""
    try:
        import lz4.frame
    except ImportError as cause:
        raise missing("lz4", "lz4") from cause
    return Lz4Compressor(lz4.frame, config[LEVEL.name])
