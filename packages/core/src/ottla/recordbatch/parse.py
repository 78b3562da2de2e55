"""Parser of record batches in any mixture of formats: for tests, for the command line, and to split a batch.

The bytes are not trusted: any error in them raises CorruptBatchError, and their unpacked size is bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, Protocol

from ottla.errors import CorruptBatchError
from ottla.interfaces import Buffer, Compressor
from ottla.recordbatch.header_v2 import MAGIC_OFFSET
from ottla.recordbatch.parse_message_sets import message_size, read_message
from ottla.recordbatch.parse_v2 import batch_size, read_batch
from ottla.recordbatch.parsed_batches import ControlMarker, Record, RecordBatch

__all__ = ["UNPACKED_LIMIT", "ControlMarker", "Record", "RecordBatch", "parse_batches"]

UNPACKED_LIMIT: Final = 128 * 1024 * 1024
"""Maximum unpacked bytes of one batch, unless the caller passes another limit."""


class _Read(Protocol):
    def __call__(self, view: memoryview, *, compressors: Mapping[int, Compressor], limit: int) -> RecordBatch: ...


_FORMATS: Final[Mapping[int, tuple[Callable[[memoryview], int], _Read]]] = {
    0: (message_size, read_message),
    1: (message_size, read_message),
    2: (batch_size, read_batch),
}


def parse_batches(
    buffer: Buffer, *, compressors: Mapping[int, Compressor], limit: int = UNPACKED_LIMIT
) -> Iterator[RecordBatch]:
    """The batches of *buffer*, one after the other, each in its own format; *compressors* by codec id."""
    view = memoryview(buffer)
    while view:
        size, read = _first(view)
        yield read(view[:size], compressors=compressors, limit=limit)
        view = view[size:]


def _first(view: memoryview) -> tuple[int, _Read]:
    """The size of the first batch, and the function that reads it."""
    if len(view) > MAGIC_OFFSET:
        magic = view[MAGIC_OFFSET]
        if magic not in _FORMATS:
            raise CorruptBatchError(f"record format v{magic} is not supported, only v0 to v{max(_FORMATS)}")
        size_of, read = _FORMATS[magic]
        size = size_of(view)
        if size <= len(view):
            return size, read
    raise CorruptBatchError(f"the last batch is cut off: only its first {len(view)} bytes are there")
