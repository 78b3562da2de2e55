"""The plugin: zstd by `cramjam`, which has the zstd library of Rust's crate `zstd` inside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ottla.errors import PluginNotFoundError, ProtocolError
from ottla.hookspecs import hookimpl
from ottla.interfaces import Buffer, Compressor

if TYPE_CHECKING:
    from types import ModuleType

ottla_conformance = "ottla_compressor_cramjam_zstd.conformance:CramjamZstdConformance"

_DEFAULT_LEVEL: Final = 3  # zstd's own, and that of Java's client; cramjam's is 11
_FIRST_GUESS: Final = 8  # times the size of the frame
_SMALLEST_GUESS: Final = 64 * 1024


class CramjamZstdCompressor:
    """Many threads call it at once: it has no state."""

    codec_id = 4
    """zstd, for brokers and consumers."""

    def __init__(self, cramjam: ModuleType) -> None:
        self._zstd = cramjam.zstd
        self._error: type[Exception] = cramjam.DecompressionError
        self._too_small = self._text_of_too_small()

    def compress(self, chunks: Sequence[Buffer], *, level: int | None) -> bytes:
        """Compress all chunks into one frame. *level* is the user's `compression.zstd.level`; None: it is not set."""
        # One call with all bytes releases the interpreter lock, and writes the size into the frame; a stream does not.
        return bytes(self._zstd.compress(b"".join(chunks), level=_DEFAULT_LEVEL if level is None else level))

    def decompress(self, buffer: Buffer, *, limit: int) -> bytes:
        """Return the decompressed bytes. Stops at *limit*: the frame may be a decompression bomb."""
        packed = bytes(buffer)
        size = min(limit, max(_SMALLEST_GUESS, _FIRST_GUESS * len(packed)))
        while True:
            plain = bytearray(size)
            try:
                written = self._zstd.decompress_into(packed, plain)
            except self._error as error:
                if str(error) != self._too_small:
                    raise ProtocolError(f"malformed zstd data: {error}") from error
                if size >= limit:
                    raise ProtocolError(f"the zstd data has more than the allowed {limit} bytes") from error
                size = min(limit, 4 * size)
            else:
                return bytes(memoryview(plain)[:written])

    def _text_of_too_small(self) -> str:
        """Return what cramjam says if the plain bytes do not fit. Its errors have one class, and no code."""
        try:
            self._zstd.decompress_into(bytes(self._zstd.compress(b"two", level=1)), bytearray(1))
        except self._error as error:
            return str(error)
        raise AssertionError("cramjam wrote three bytes into one")


@hookimpl
def ottla_compressor() -> Compressor:
    """The compressor named `cramjam-zstd`."""
    try:
        import cramjam
    except ImportError as error:
        raise PluginNotFoundError(
            "the compressor cramjam-zstd needs the package cramjam: pip install 'cramjam>=2.8'"
        ) from error
    return CramjamZstdCompressor(cramjam)
