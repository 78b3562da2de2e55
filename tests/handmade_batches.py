"""Record batches that are made by hand, so that each part of one can be wrong."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable

import attrs

from ottla.recordbatch.checksum import crc32c


def varint(value: int) -> bytes:
    """The zigzag varint of a number that is not negative."""
    value, found = value << 1, b""
    while value > 127:
        value, found = value >> 7, found + bytes([value & 127 | 128])
    return found + bytes([value])


def record(number: int, *, key: bytes | None = b"k", timestamp_delta: int = 0) -> bytes:
    """A record of a batch."""
    keyed = b"\x01" if key is None else varint(len(key)) + key
    body = b"\0" + varint(timestamp_delta) + varint(number) + keyed + varint(5) + b"value" + b"\0"
    return with_length(body)


def with_length(body: bytes) -> bytes:
    """The bytes of a record, after their number."""
    return varint(len(body)) + body


@attrs.frozen(kw_only=True)
class Batch:
    """A record batch, also a wrong one. `section` and `change` replace the bytes of its records."""

    producer_id: int = -1
    epoch: int = -1
    sequence: int = -1
    records: int = 1
    transactional: bool = False
    attributes: int = 0
    timestamp: int | None = None
    key: bytes | None = b"k"
    magic: int = 2
    count: int | None = None  # that the header has; None: as many as there are
    last_delta: int | None = None  # None: one less than the count
    first_delta: int = 0  # of the first record's offset
    base_offset: int = 0
    wrong_crc: bool = False
    size_error: int = 0  # added to the size in the header
    section: bytes | None = None
    change: Callable[[bytes], bytes] = bytes

    def encode(self) -> bytes:
        """The bytes."""
        timestamp = int(time.time() * 1000) if self.timestamp is None else self.timestamp
        section = b"".join(record(self.first_delta + number, key=self.key) for number in range(self.records))
        section = self.change(section if self.section is None else self.section)
        count = self.records if self.count is None else self.count
        last_delta = count - 1 if self.last_delta is None else self.last_delta
        checked = struct.pack(
            ">hiqqqhii",
            self.attributes | 0x10 * self.transactional,
            last_delta,
            timestamp,
            timestamp,
            self.producer_id,
            self.epoch,
            self.sequence,
            count,
        )
        checked += section
        crc = crc32c(checked) ^ self.wrong_crc
        size = 9 + len(checked) + self.size_error
        return struct.pack(">qiibI", self.base_offset, size, -1, self.magic, crc) + checked


def large(size: int) -> Batch:
    """A batch with one record of this many bytes."""
    return Batch(section=record(0, key=b"k" * size))
