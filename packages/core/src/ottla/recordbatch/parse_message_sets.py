"""Message sets, formats v0 and v1, as they are read: a message, or a wrapper with the messages inside it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Final
from zlib import crc32

import attrs

from ottla.errors import CorruptBatchError
from ottla.interfaces import Buffer, Compressor
from ottla.recordbatch.codecs import CODEC_MASK, LZ4, ZSTD, unpack
from ottla.recordbatch.lz4_in_v0 import with_right_checksum
from ottla.recordbatch.message_sets import HEADS, NO_TIMESTAMP, OVERHEADS, PREFIX, SIZE
from ottla.recordbatch.parsed_batches import Record, RecordBatch

_LOG_APPEND_TIME: Final = 0x08
_COUNTED_FROM: Final = 12
"""The length counts the bytes after it."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class _Message:
    magic: int
    offset: int
    codec_id: int
    log_append_time: bool
    timestamp_ms: int
    key: bytes | None
    value: bytes | None


def read_message(view: memoryview, *, compressors: Mapping[int, Compressor], limit: int) -> RecordBatch:
    """The single message in *view*, as a batch; a wrapper may unpack to *limit* bytes."""
    outer = _read(view)
    try:
        inner = _inner(outer, compressors, limit) if outer.codec_id else (outer,)
    except CorruptBatchError as error:
        raise CorruptBatchError(f"the message at offset {outer.offset}: {error}") from error
    # Some clients leave a wrapper's offset at 0 when they produce; then only its messages have offsets.
    base = outer.offset - inner[-1].offset if outer.magic and outer.codec_id and outer.offset else 0
    records = tuple(_record(message, base, outer) for message in inner)
    return RecordBatch(
        magic=outer.magic,
        base_offset=records[0].offset,
        last_offset=outer.offset or records[-1].offset,
        codec_id=outer.codec_id,
        log_append_time=outer.log_append_time,
        first_timestamp=records[0].timestamp_ms,
        max_timestamp=outer.timestamp_ms,
        size=len(view),
        records=records,
    )


def message_size(view: memoryview) -> int:
    """The size of the first message in *view*, by its length field; the view includes its magic."""
    size: int = _COUNTED_FROM + PREFIX.unpack_from(view)[1]
    if size < OVERHEADS[view[PREFIX.size]]:
        raise CorruptBatchError(f"a message of {size} bytes is shorter than one without key and value")
    return size


def _read(view: memoryview) -> _Message:
    """Read the message that fills *view*."""
    offset, _length, crc = PREFIX.unpack_from(view)
    if crc32(view[PREFIX.size :]) != crc:
        raise CorruptBatchError(f"the checksum of the message at offset {offset} is wrong")
    head = HEADS[view[PREFIX.size]]
    magic, attributes, *timestamp_ms = head.unpack_from(view, PREFIX.size)
    key, position = _read_sized(view, PREFIX.size + head.size)
    value, position = _read_sized(view, position)
    if position != len(view):
        raise CorruptBatchError(f"the message at offset {offset} has {len(view) - position} bytes behind its value")
    return _Message(
        magic=magic,
        offset=offset,
        codec_id=attributes & CODEC_MASK,
        log_append_time=bool(magic and attributes & _LOG_APPEND_TIME),
        timestamp_ms=timestamp_ms[0] if magic else NO_TIMESTAMP,
        key=key,
        value=value,
    )


def _read_sized(view: memoryview, position: int) -> tuple[bytes | None, int]:
    start = position + SIZE.size
    if start > len(view):
        raise CorruptBatchError("a message ends inside the size of its key or value")
    size = SIZE.unpack_from(view, position)[0]
    if size == -1:
        return None, start
    if size < 0 or start + size > len(view):
        raise CorruptBatchError(f"{size} bytes of a key or value do not end within the message")
    return bytes(view[start : start + size]), start + size


def _inner(outer: _Message, compressors: Mapping[int, Compressor], limit: int) -> tuple[_Message, ...]:
    """Decompress a wrapper, to at most *limit* bytes; return its messages, with their offsets inside it.

    Raises CorruptBatchError.
    """
    if outer.value is None:
        raise CorruptBatchError("a wrapper has no messages: its value is null")
    if outer.codec_id == ZSTD:
        raise CorruptBatchError(f"format v{outer.magic} has no zstd")
    packed: Buffer = outer.value
    if (outer.magic, outer.codec_id) == (0, LZ4):
        packed = with_right_checksum(packed)
    plain = unpack(packed, codec_id=outer.codec_id, compressors=compressors, limit=limit)
    messages = tuple(_messages_inside(plain, outer.magic))
    if not messages:
        raise CorruptBatchError("a wrapper has no messages inside")
    offsets = [-1, *(message.offset for message in messages), *([outer.offset + 1] if outer.offset else [])]
    if any(offset >= after for offset, after in pairwise(offsets)):
        raise CorruptBatchError("a wrapper has messages whose offsets are out of order or after its own")
    return messages


def _messages_inside(plain: memoryview, magic: int) -> Iterator[_Message]:
    while plain:
        if len(plain) < OVERHEADS[magic]:
            raise CorruptBatchError(f"{len(plain)} bytes follow the last message of a wrapper")
        if plain[PREFIX.size] != magic:
            raise CorruptBatchError(
                f"a wrapper of format v{magic} has a message of format v{plain[PREFIX.size]} inside"
            )
        size = message_size(plain)
        if size > len(plain):
            raise CorruptBatchError(f"a message of {size} bytes does not end within its wrapper")
        message = _read(plain[:size])
        if message.codec_id:
            raise CorruptBatchError("a wrapper has a wrapper inside")
        yield message
        plain = plain[size:]


def _record(message: _Message, base: int, outer: _Message) -> Record:
    return Record(
        offset=base + message.offset,
        timestamp_ms=outer.timestamp_ms if outer.log_append_time else message.timestamp_ms,
        key=message.key,
        value=message.value,
    )
