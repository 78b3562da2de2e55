"""The codec in the three lowest bits of a batch's attributes, and unpacking with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from ottla.errors import CorruptBatchError, InvalidPluginError, ProtocolError
from ottla.errors.plugin_origin import described, faults, origin_of
from ottla.interfaces import Buffer, Compressor

CODEC_MASK: Final = 0x07

NONE: Final = 0
LZ4: Final = 3
ZSTD: Final = 4


def codec(codec_id: int, compressors: Mapping[int, Compressor]) -> Compressor | None:
    """The codec of a batch, None for uncompressed records. Raises CorruptBatchError for an unknown one."""
    if codec_id == NONE:
        return None
    compressor = compressors.get(codec_id)
    if compressor is None:
        raise CorruptBatchError(f"there is no compressor for codec {codec_id} (here: {sorted(compressors) or 'none'})")
    return compressor


def unpack(packed: Buffer, *, codec_id: int, compressors: Mapping[int, Compressor], limit: int) -> memoryview:
    """The uncompressed bytes, at most *limit* if they were compressed.

    Raises CorruptBatchError for an unknown codec, or for any error of the codec.
    """
    compressor = codec(codec_id, compressors)
    if compressor is None:
        return memoryview(packed)
    try:
        return memoryview(compressor.decompress(packed, limit=limit))
    except CorruptBatchError:
        raise
    except ProtocolError as error:
        raise CorruptBatchError(str(error)) from error
    except faults() as error:  # the codec may be third-party code, and the bytes are not trusted
        name = origin_of("compressor", compressor).name
        raise CorruptBatchError(f"the {name} cannot unpack it: {described(error)}") from error


def compressed(compressor: Compressor, chunks: Sequence[Buffer], *, level: int | None = None) -> bytes:
    """The compressed chunks. Raises InvalidPluginError for the compressor's errors, and for a result of no bytes."""
    try:
        made = compressor.compress(chunks, level=level)
    except MemoryError:  # a lack of memory is no fault of the compressor
        raise
    except faults() as cause:
        raise _fault(compressor, f"failed in compress: {described(cause)}") from cause
    if type(made) is not bytes:
        try:
            made = bytes(memoryview(made))
        except TypeError:
            raise _fault(compressor, f"returned {type(made).__name__}, not bytes") from None
    if not made:  # a broker would say only that something unexpected went wrong
        raise _fault(compressor, "returned no bytes, and a record has some in each format of compression")
    return made


def _fault(compressor: Compressor, what: str) -> InvalidPluginError:
    origin = origin_of("compressor", compressor)
    return InvalidPluginError(f"the {origin.name} {what}; {origin.remedy}")
