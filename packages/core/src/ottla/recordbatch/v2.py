"""Record batch format v2 (magic 2): the 61 bytes before the records section.

The checksum (CRC-32C) covers everything from the attributes on, so a batch that is stamped anew needs a new header,
never a new encoding.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from crc32c import crc32c

from ottla.interfaces import Buffer

MAGIC: Final = 2
HEADER_SIZE: Final = 61

BEFORE_CRC: Final = struct.Struct(">qiibI")
"""Base offset, length of what follows it, partition leader epoch, magic, CRC."""

AFTER_CRC: Final = struct.Struct(">hiqqqhii")
"""Attributes, last offset delta, base timestamp, max timestamp, producer id, epoch, base sequence, record count."""

LENGTH_STARTS_AT: Final = 12
CODEC_BITS: Final = 0x07
LOG_APPEND_TIME_BIT: Final = 0x08
TRANSACTIONAL_BIT: Final = 0x10
CONTROL_BIT: Final = 0x20
NO_PRODUCER: Final = -1


def batch_header(
    chunks: Sequence[Buffer],
    *,
    codec_id: int,
    first_timestamp: int,
    max_timestamp: int,
    count: int,
    producer_id: int = NO_PRODUCER,
    epoch: int = NO_PRODUCER,
    sequence: int = NO_PRODUCER,
    transactional: bool = False,
) -> bytes:
    """The header for a records section, which stays where it is. Offsets start at 0: the broker moves them."""
    after = AFTER_CRC.pack(
        codec_id | (TRANSACTIONAL_BIT if transactional else 0),
        count - 1,
        first_timestamp,
        max_timestamp,
        producer_id,
        epoch,
        sequence,
        count,
    )
    checksum = crc32c(after)
    size = HEADER_SIZE - LENGTH_STARTS_AT
    for chunk in chunks:
        checksum = crc32c(chunk, checksum)
        size += len(chunk)
    return BEFORE_CRC.pack(0, size, -1, MAGIC, checksum) + after
