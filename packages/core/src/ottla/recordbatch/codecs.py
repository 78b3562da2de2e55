"""The codec in the three lowest bits of a batch's attributes, and unpacking with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from ottla.errors import CorruptBatchError, InvalidPluginError, ProtocolError, printable
from ottla.errors.quoting import class_name
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
    except Exception as error:  # the codec may be third-party code, and the bytes are not trusted
        raise CorruptBatchError(f"codec {codec_id} cannot unpack it: {printable(repr(error))}") from error


def compressed(compressor: Compressor, chunks: Sequence[Buffer]) -> bytes:
    """The compressed chunks. Raises the compressor's errors, and InvalidPluginError if the result is not bytes."""
    made = compressor.compress(chunks, level=None)
    if type(made) is bytes:
        return made
    try:
        return bytes(memoryview(made))
    except TypeError:
        raise InvalidPluginError(
            f"the compressor {class_name(compressor)} returned {type(made).__name__}, not bytes"
        ) from None
