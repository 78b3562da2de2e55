"""Codecs that each break one promise, all made from gzip as it should be."""

from __future__ import annotations

import gzip
import time
import zlib
from collections.abc import Sequence
from typing import Any

from ottla.errors import CorruptBatchError
from ottla.interfaces import Buffer
from ottla.plugins.compressors.gzip import Gzip


class Right(Gzip):
    """Keeps all promises."""

    def __init__(self) -> None:
        super().__init__(-1)


class IsNoCodecOfKafkas(Right):
    codec_id = 7


class HasATextualId(Right):
    codec_id = "gzip"  # type: ignore[assignment]


class PacksTheFirstChunk(Right):
    def compress(self, chunks: Sequence[Buffer], *, level: int | None = None) -> bytes:
        return super().compress(chunks[:1], level=level)


class NeedsAChunk(Right):
    def compress(self, chunks: Sequence[Buffer], *, level: int | None = None) -> bytes:
        return super().compress([chunks[0], *chunks[1:]], level=level)


class TakesBytesOnly(Right):
    def compress(self, chunks: Sequence[Buffer], *, level: int | None = None) -> bytes:
        return super().compress([chunk.removesuffix(b"") for chunk in chunks], level=level)  # type: ignore[union-attr]


class KeepsSmallChunks(Right):
    """Only the first thousand."""

    def compress(self, chunks: Sequence[Buffer], *, level: int | None = None) -> bytes:
        return super().compress(chunks[:1000], level=level)


class WantsAList(Right):
    def compress(self, chunks: Sequence[Buffer], *, level: int | None = None) -> bytes:
        return super().compress(chunks.copy(), level=level)  # type: ignore[attr-defined]


class EatsTheList(Right):
    def compress(self, chunks: Sequence[Buffer], *, level: int | None = None) -> bytes:
        packed = super().compress(chunks, level=level)
        if isinstance(chunks, list):
            chunks.clear()
        return packed


class WipesWhatItWasGiven(Right):
    def decompress(self, buffer: Buffer, *, limit: int) -> bytes:
        plain = super().decompress(buffer, limit=limit)
        if isinstance(buffer, bytearray):
            buffer[:] = bytes(len(buffer))
        return plain


class ReturnsABytearray(Right):
    def compress(self, chunks: Sequence[Buffer], *, level: int | None = None) -> Any:
        return bytearray(super().compress(chunks, level=level))


class ReturnsAView(Right):
    def decompress(self, buffer: Buffer, *, limit: int) -> Any:
        return memoryview(super().decompress(buffer, limit=limit))


class UnpacksBytesOnly(Right):
    def decompress(self, buffer: Buffer, *, limit: int) -> bytes:
        return super().decompress(buffer.removesuffix(b""), limit=limit)  # type: ignore[union-attr]


class HasAFramingOfItsOwn(Right):
    """zlib's: it reads what it wrote."""

    def compress(self, chunks: Sequence[Buffer], *, level: int | None = None) -> bytes:
        return zlib.compress(b"".join(chunks))

    def decompress(self, buffer: Buffer, *, limit: int) -> bytes:
        try:
            plain = zlib.decompress(buffer)
        except zlib.error as error:
            raise CorruptBatchError(str(error)) from error
        if len(plain) > limit:
            raise CorruptBatchError("too large")
        return plain


class WritesAnUnknownFormat(Right):
    """Reads Kafka's form, and writes a letter of its own before it."""

    def compress(self, chunks: Sequence[Buffer], *, level: int | None = None) -> bytes:
        return b"!" + super().compress(chunks, level=level)

    def decompress(self, buffer: Buffer, *, limit: int) -> bytes:
        view = memoryview(buffer)
        return super().decompress(view[1:] if bytes(view[:1]) == b"!" else view, limit=limit)


class BreaksAtALevel(Right):
    def compress(self, chunks: Sequence[Buffer], *, level: int | None = None) -> bytes:
        return super().compress([] if level == 9 else chunks, level=level)


class KnowsNoLevels(Right):
    def compress(self, chunks: Sequence[Buffer], *, level: int | None = None) -> bytes:
        return super().compress(chunks, level=level + 0)  # type: ignore[operator]


class HasNoLimit(Right):
    def decompress(self, buffer: Buffer, *, limit: int) -> bytes:
        return super().decompress(buffer, limit=1 << 40)


class CutsAtTheLimit(Right):
    def decompress(self, buffer: Buffer, *, limit: int) -> bytes:
        return super().decompress(buffer, limit=1 << 40)[:limit]


class LimitsTooEarly(Right):
    def decompress(self, buffer: Buffer, *, limit: int) -> bytes:
        plain = super().decompress(buffer, limit=limit)
        if plain and len(plain) == limit:
            raise CorruptBatchError("too large")
        return plain


class LooksAtTheLimitAfterwards(Right):
    def decompress(self, buffer: Buffer, *, limit: int) -> bytes:
        plain = super().decompress(buffer, limit=1 << 40)
        if len(plain) > limit:
            raise CorruptBatchError("too large")
        return plain


class LooksAtTheLimitAfterEachMember(Right):
    """Its own members are small; those of others need not be."""

    def compress(self, chunks: Sequence[Buffer], *, level: int | None = None) -> bytes:
        plain = b"".join(chunks)
        pieces = [plain[start : start + 65536] for start in range(0, len(plain), 65536)] or [b""]
        return b"".join(super(LooksAtTheLimitAfterEachMember, self).compress([each], level=level) for each in pieces)

    def decompress(self, buffer: Buffer, *, limit: int) -> bytes:
        plain, rest = b"", bytes(buffer)
        while True:
            stream = zlib.decompressobj(16 + zlib.MAX_WBITS)
            try:
                plain += stream.decompress(rest)
            except zlib.error as error:
                raise CorruptBatchError("no gzip data") from error
            if len(plain) > limit or not stream.eof:
                raise CorruptBatchError("too large, or too short")
            rest = stream.unused_data
            if not rest:
                return plain


class RaisesWhatTheLibraryRaises(Right):
    def decompress(self, buffer: Buffer, *, limit: int) -> bytes:
        plain = gzip.decompress(buffer)
        if len(plain) > limit:
            raise CorruptBatchError("too large")
        return plain


class ReadsAsFarAsItGets(Right):
    def decompress(self, buffer: Buffer, *, limit: int) -> bytes:
        try:
            plain = zlib.decompressobj(31).decompress(buffer, limit + 1)
        except zlib.error as error:
            raise CorruptBatchError(str(error)) from error
        if len(plain) > limit:
            raise CorruptBatchError("too large")
        return plain


class WaitsForTheEnd(Right):
    def decompress(self, buffer: Buffer, *, limit: int) -> bytes:
        stream = zlib.decompressobj(31)
        try:
            plain = stream.decompress(buffer, limit + 1)
        except zlib.error as error:
            raise CorruptBatchError(str(error)) from error
        until = time.monotonic() + 3  # for ever, but for the end of this process
        while not stream.eof and len(plain) <= limit and time.monotonic() < until:
            time.sleep(0.01)
        if not stream.eof:
            raise CorruptBatchError("too large, or cut")
        return plain


class NeverRecovers(Right):
    broken = False

    def decompress(self, buffer: Buffer, *, limit: int) -> bytes:
        if self.broken:
            raise CorruptBatchError("again")
        try:
            return super().decompress(buffer, limit=limit)
        except CorruptBatchError:
            self.broken = True
            raise


class OneBufferForAll(Right):
    """Collects chunks where other threads collect theirs."""

    def __init__(self) -> None:
        super().__init__()
        self.collected: list[Buffer] = []

    def compress(self, chunks: Sequence[Buffer], *, level: int | None = None) -> bytes:
        self.collected = []
        for chunk in chunks:
            self.collected.append(chunk)
            time.sleep(0.001)  # what a longer computation does now and then
        return super().compress(self.collected, level=level)


class IgnoresTheLevel(Right):
    def compress(self, chunks: Sequence[Buffer], *, level: int | None = None) -> bytes:
        return super().compress(chunks, level=None)


class TornBetweenLines(Right):
    """Keeps the bytes of a call where other calls keep theirs."""

    def compress(self, chunks: Sequence[Buffer], *, level: int | None = None) -> bytes:
        self.plain = b"".join(chunks)
        size = len(self.plain)
        return super().compress([self.plain[:size]], level=level)


class TakesItsTime(Right):
    def compress(self, chunks: Sequence[Buffer], *, level: int | None = None) -> bytes:
        time.sleep(0.2)
        return super().compress(chunks, level=level)
