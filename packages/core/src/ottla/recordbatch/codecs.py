"""Which codec a batch names in the three lowest bits of its attributes, and the plain bytes behind it."""

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
    """The one that a batch names, None for plain records; one that is not here is a CorruptBatchError."""
    if codec_id == NONE:
        return None
    compressor = compressors.get(codec_id)
    if compressor is None:
        raise CorruptBatchError(f"there is no compressor for codec {codec_id} (here: {sorted(compressors) or 'none'})")
    return compressor


def unpack(packed: Buffer, *, codec_id: int, compressors: Mapping[int, Compressor], limit: int) -> memoryview:
    """The plain bytes, at most *limit* when compressed; a codec that is not here, or what it raises:
    CorruptBatchError."""
    compressor = codec(codec_id, compressors)
    if compressor is None:
        return memoryview(packed)
    try:
        return memoryview(compressor.decompress(packed, limit=limit))
    except CorruptBatchError:
        raise
    except ProtocolError as error:
        raise CorruptBatchError(str(error)) from error
    except Exception as error:  # the codec may be somebody else's, and these bytes anybody's
        raise CorruptBatchError(f"codec {codec_id} cannot unpack it: {printable(repr(error))}") from error


def compressed(compressor: Compressor, chunks: Sequence[Buffer]) -> bytes:
    """What a compressor makes of *chunks*. Raises what it raises, and InvalidPluginError for what are no bytes."""
    made = compressor.compress(chunks, level=None)
    if type(made) is bytes:
        return made
    try:
        return bytes(memoryview(made))
    except TypeError:
        raise InvalidPluginError(
            f"the compressor {class_name(compressor)} returned {type(made).__name__}, not bytes"
        ) from None
