"""Compressors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from ottla.interfaces.records import Buffer


@runtime_checkable
class Compressor(Protocol):
    """A codec. Thread-safe; its output has Kafka's format for `codec_id` (1 gzip, 2 snappy, 3 lz4, 4 zstd).

    Optional ability: `SupportsClose`.
    """

    codec_id: int

    def compress(self, chunks: Sequence[Buffer], *, level: int | None) -> bytes:
        """Compress the concatenation of all *chunks*.

        *level* is what the user set with Kafka's key for `codec_id`: `compression.gzip.level` (1 to 9, or -1),
        `compression.lz4.level` (1 to 17) or `compression.zstd.level` (-131072 to 22), or None if the user set none: use
        a default.
        """

    def decompress(self, buffer: Buffer, *, limit: int) -> bytes:
        """Return the plain bytes. Raises ProtocolError for more than *limit* of them, and for malformed input."""
