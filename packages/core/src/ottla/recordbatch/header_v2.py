"""The 61 bytes before the records section of format v2: the batch header.

The checksum covers everything after the first 21 bytes. So a new producer id, epoch or sequence needs a new header
before the same chunks: nothing is encoded, compressed or copied again.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Sequence
from typing import Final

from ottla.interfaces import Buffer
from ottla.recordbatch.checksum import crc32c

MAGIC: Final = 2
HEADER_SIZE: Final = 61
LENGTH_OFFSET: Final = 8
"""The position of the length, after the base offset."""
COUNTED_FROM: Final = 12
"""The length counts the bytes after it."""
CHECKED_FROM: Final = 21
"""The checksum covers the bytes after it."""
MAGIC_OFFSET: Final = 16
"""Every format begins with offset and length, and has the magic byte at the same place."""
NO_LEADER_EPOCH: Final = -1

UNCHECKED: Final = struct.Struct(">qiibI")
"""Base offset, length, partition leader epoch, magic, CRC-32C."""
CHECKED: Final = struct.Struct(">hiqqqhii")
"""Attributes, last offset delta, first and max timestamp, producer id, epoch, first sequence, record count."""


class Attributes(enum.IntFlag):
    """The flags above the codec id, which is in the three lowest bits."""

    LOG_APPEND_TIME = 0x08
    TRANSACTIONAL = 0x10
    CONTROL = 0x20


def batch_header(
    chunks: Sequence[Buffer],
    *,
    codec_id: int,
    first_timestamp: int,
    max_timestamp: int,
    count: int,
    producer_id: int = -1,
    epoch: int = -1,
    sequence: int = -1,
    transactional: bool = False,
) -> bytes:
    """The header of a batch whose records section is the concatenated *chunks*, already compressed with *codec_id*."""
    checked = CHECKED.pack(
        codec_id | (Attributes.TRANSACTIONAL.value if transactional else 0),
        count - 1,
        first_timestamp,
        max_timestamp,
        producer_id,
        epoch,
        sequence,
        count,
    )
    crc = crc32c(checked)
    length = HEADER_SIZE - COUNTED_FROM
    for chunk in chunks:
        crc = crc32c(chunk, crc)
        length += len(chunk)
    return UNCHECKED.pack(0, length, NO_LEADER_EPOCH, MAGIC, crc) + checked
