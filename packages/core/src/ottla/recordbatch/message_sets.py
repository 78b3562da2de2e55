"""Message sets, formats v0 and v1, as they are written; a compressed set is the value of a wrapper message.

A message is its offset, its length, a CRC-32 of all that follows, magic, attributes, in v1 a timestamp, key and value.
A wrapper's offset is that of its last message; offsets inside start at 0 in v1, and are the log's own in v0. Neither
format has headers, producer ids or transactions, nor zstd.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import Final
from zlib import crc32

from ottla.recordbatch.codecs import LZ4
from ottla.recordbatch.lz4_in_v0 import with_v0_checksum

NO_TIMESTAMP: Final = -1

PREFIX: Final = struct.Struct(">qiI")
"""Offset, length, checksum."""
HEADS: Final = (struct.Struct(">bb"), struct.Struct(">bbq"))
"""By format: magic, attributes, and in v1 the timestamp."""
SIZE: Final = struct.Struct(">i")
_NULL: Final = SIZE.pack(-1)

OVERHEADS: Final = tuple(PREFIX.size + head.size + 2 * SIZE.size for head in HEADS)
"""By format, the bytes of a message besides its key and value: 26 and 34."""


def message_set(
    magic: int,
    *,
    keys: Sequence[bytes | None] | None,
    values: Iterable[bytes | None],
    timestamps: Iterable[int],
) -> bytes:
    """Records as messages with offsets from 0 on, not compressed. Keys are None when no record has one."""
    rows = zip(keys if keys is not None else repeat(None), values, timestamps, strict=False)
    return b"".join(
        _message(magic, offset=offset, timestamp_ms=timestamp_ms, key=key, value=value)
        for offset, (key, value, timestamp_ms) in enumerate(rows)
    )


def wrapper(magic: int, packed: bytes, *, codec_id: int, count: int, max_timestamp: int) -> bytes:
    """The wrapper message of a compressed set of *count* messages."""
    return _message(
        magic,
        offset=count - 1,
        attributes=codec_id,
        timestamp_ms=max_timestamp,
        key=None,
        value=with_v0_checksum(packed) if (magic, codec_id) == (0, LZ4) else packed,
    )


def _message(
    magic: int, *, offset: int, timestamp_ms: int, key: bytes | None, value: bytes | None, attributes: int = 0
) -> bytes:
    head = HEADS[magic].pack(magic, attributes, *([timestamp_ms] if magic else []))
    checked = b"".join((head, *_sized(key), *_sized(value)))
    return PREFIX.pack(offset, SIZE.size + len(checked), crc32(checked)) + checked


def _sized(part: bytes | None) -> tuple[bytes, ...]:
    return (_NULL,) if part is None else (SIZE.pack(len(part)), part)
