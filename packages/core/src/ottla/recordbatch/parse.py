"""Record batches v2 back from bytes: for read-back, for tests, and for whoever must take a batch apart.

The bytes may come from anywhere: every length is checked against what is left, and whatever is wrong is CorruptBatch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import attrs
from crc32c import crc32c

from ottla.errors import CorruptBatch, ProtocolError
from ottla.interfaces import Buffer, Compressor, Header
from ottla.protocol.primitives import read_varint, read_varlong
from ottla.recordbatch.v2 import (
    AFTER_CRC,
    BEFORE_CRC,
    CODEC_BITS,
    CONTROL_BIT,
    HEADER_SIZE,
    LENGTH_STARTS_AT,
    LOG_APPEND_TIME_BIT,
    MAGIC,
    TRANSACTIONAL_BIT,
)

LARGEST_RECORDS_SECTION: Final = 128 * 1024 * 1024
SMALLEST_RECORD: Final = 7  # a length, attributes, two deltas, two nulls and no headers


@attrs.frozen(kw_only=True)
class Record:
    """One record as the log holds it."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()


@attrs.frozen(kw_only=True)
class RecordBatch:
    """One batch as the log holds it. `last_offset` may lie behind the last record: compaction leaves gaps."""

    base_offset: int
    last_offset: int
    partition_leader_epoch: int
    codec_id: int
    log_append_time: bool
    transactional: bool
    control: bool
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    checksum: int
    records: tuple[Record, ...]


def parse_batches(
    buffer: Buffer, *, compressors: Mapping[int, Compressor], limit: int = LARGEST_RECORDS_SECTION
) -> list[RecordBatch]:
    """Every batch in a buffer, which must hold whole ones. A records section above *limit* bytes is refused.

    Raises CorruptBatch.
    """
    data = bytes(buffer)
    batches = []
    offset = 0
    while offset < len(data):
        batch, offset = _batch(data, offset, compressors, limit)
        batches.append(batch)
    return batches


def _batch(data: bytes, start: int, compressors: Mapping[int, Compressor], limit: int) -> tuple[RecordBatch, int]:
    if len(data) - start < HEADER_SIZE:
        raise CorruptBatch(f"{len(data) - start} bytes are no batch: its header alone takes {HEADER_SIZE}")
    base_offset, length, leader_epoch, magic, checksum = BEFORE_CRC.unpack_from(data, start)
    if magic != MAGIC:
        raise CorruptBatch(f"a batch of magic {magic} where {MAGIC} is read")
    end = start + LENGTH_STARTS_AT + length
    if not start + HEADER_SIZE <= end <= len(data):
        raise CorruptBatch(f"a batch of length {length} where {len(data) - start - LENGTH_STARTS_AT} bytes are left")
    content = memoryview(data)[start + BEFORE_CRC.size : end]
    if crc32c(content) != checksum:
        raise CorruptBatch(
            f"the batch at offset {base_offset} has checksum {crc32c(content):#010x}, not {checksum:#010x}"
        )
    attributes, last_delta, base_timestamp, max_timestamp, producer_id, epoch, sequence, count = AFTER_CRC.unpack_from(
        content
    )
    log_append_time = bool(attributes & LOG_APPEND_TIME_BIT)
    codec_id = attributes & CODEC_BITS
    section = _plain(content[AFTER_CRC.size :], codec_id, compressors, limit)
    if not 0 <= count <= len(section) // SMALLEST_RECORD:
        raise CorruptBatch(f"a batch of {count} records in {len(section)} bytes")
    records = _Records(
        section,
        base_offset=base_offset,
        base_timestamp=base_timestamp,
        append_time=max_timestamp if log_append_time else None,
    )
    batch = RecordBatch(
        base_offset=base_offset,
        last_offset=base_offset + last_delta,
        partition_leader_epoch=leader_epoch,
        codec_id=codec_id,
        log_append_time=log_append_time,
        transactional=bool(attributes & TRANSACTIONAL_BIT),
        control=bool(attributes & CONTROL_BIT),
        base_timestamp_ms=base_timestamp,
        max_timestamp_ms=max_timestamp,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        checksum=checksum,
        records=tuple(records.take(count)),
    )
    return batch, end


def _plain(section: memoryview, codec_id: int, compressors: Mapping[int, Compressor], limit: int) -> bytes:
    if codec_id == 0:
        return bytes(section)
    compressor = compressors.get(codec_id)
    if compressor is None:
        raise CorruptBatch(f"a batch in codec {codec_id}, for which there is no compressor")
    try:
        return compressor.decompress(section, limit=limit)
    except CorruptBatch:
        raise
    except ProtocolError as cause:
        raise CorruptBatch(f"the batch cannot be decompressed: {cause}") from cause


class _Records:
    """Reads records one after the other; knows where it is."""

    def __init__(self, section: bytes, *, base_offset: int, base_timestamp: int, append_time: int | None) -> None:
        self._section = section
        self._base_offset = base_offset
        self._base_timestamp = base_timestamp
        self._append_time = append_time
        self._at = 0

    def take(self, count: int) -> Iterator[Record]:
        """Exactly *count* records, with nothing left behind them."""
        try:
            for _ in range(count):
                yield self._record()
        except CorruptBatch:
            raise
        except (ProtocolError, UnicodeDecodeError) as cause:
            raise CorruptBatch(f"a record cannot be read at byte {self._at}: {cause}") from cause
        if self._at != len(self._section):
            raise CorruptBatch(f"{len(self._section) - self._at} bytes are left behind the last record")

    def _record(self) -> Record:
        length = self._varint()
        end = self._at + length
        if length < 0 or end > len(self._section):
            raise CorruptBatch(f"a record of {length} bytes where {len(self._section) - self._at} are left")
        self._at += 1  # attributes, unused
        delta, self._at = read_varlong(self._section, self._at)
        offset_delta = self._varint()
        key = self._bytes()
        value = self._bytes()
        count = self._varint()
        if not 0 <= count <= end - self._at:
            raise CorruptBatch(f"a record with {count} headers in {end - self._at} bytes")
        headers = tuple(self._header() for _ in range(count))
        if self._at != end:
            raise CorruptBatch(f"a record says that it has {length} bytes and has {self._at - end + length}")
        timestamp = self._append_time if self._append_time is not None else self._base_timestamp + delta
        return Record(
            offset=self._base_offset + offset_delta,
            timestamp_ms=timestamp,
            key=key,
            value=value,
            headers=headers,
        )

    def _header(self) -> Header:
        name = self._bytes()
        if name is None:
            raise CorruptBatch("a header without a name")
        return name.decode(), self._bytes()

    def _varint(self) -> int:
        value, self._at = read_varint(self._section, self._at)
        return value

    def _bytes(self) -> bytes | None:
        size = self._varint()
        if size == -1:
            return None
        end = self._at + size
        if size < 0 or end > len(self._section):
            raise CorruptBatch(f"{size} bytes where {len(self._section) - self._at} are left")
        data = self._section[self._at : end]
        self._at = end
        return data
