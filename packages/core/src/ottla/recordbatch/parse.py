"""Record batches of format v2 read back: for tests, for the command line, and to split a batch.

Nothing in the bytes is trusted: whatever is wrong with them is a CorruptBatch, and what they unpack to is bounded.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Final

import attrs
from crc32c import crc32c

from ottla.errors import CorruptBatch, ProtocolError
from ottla.interfaces import Buffer, Compressor, Header
from ottla.protocol.primitives import read_varint, read_varlong
from ottla.recordbatch.v2 import (
    CHECKED,
    CHECKED_FROM,
    CODEC_MASK,
    COUNTED_FROM,
    HEADER_SIZE,
    LENGTH_OFFSET,
    MAGIC,
    UNCHECKED,
    Attributes,
)

UNPACKED_LIMIT: Final = 128 * 1024 * 1024
"""What the records section of one batch may unpack to, unless the caller says otherwise."""


@attrs.frozen(kw_only=True)
class Record:
    """One record as the log holds it; `timestamp_ms` is the broker's when the batch has LogAppendTime."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()


class ControlMarker(enum.Enum):
    """What a control batch ends a transaction with."""

    ABORT = 0
    COMMIT = 1


@attrs.frozen(kw_only=True)
class RecordBatch:
    """One batch with its records. After compaction it may have fewer than its offsets, or none."""

    base_offset: int
    last_offset: int
    leader_epoch: int
    codec_id: int
    log_append_time: bool
    transactional: bool
    control: bool
    first_timestamp: int
    max_timestamp: int
    producer_id: int
    epoch: int
    sequence: int
    size: int
    records: tuple[Record, ...]

    @property
    def marker(self) -> ControlMarker | None:
        """How the transaction ended, if this is a control batch that we understand."""
        key = self.records[0].key if self.control and self.records else None
        if key is None or len(key) < 4 or key[:2] != b"\0\0":
            return None
        kind = int.from_bytes(key[2:4], "big", signed=True)
        return ControlMarker(kind) if kind in (0, 1) else None


def parse_batches(
    buffer: Buffer,
    *,
    compressors: Mapping[int, Compressor],
    limit: int = UNPACKED_LIMIT,
    partial_tail: bool = False,
) -> Iterator[RecordBatch]:
    """The batches of *buffer*, one after the other; *compressors* by codec id.

    With *partial_tail* an incomplete last batch is left out: brokers cut what they answer to a Fetch.
    """
    view = memoryview(buffer)
    while view:
        size = _complete_size(view)
        if size is None:
            if partial_tail:
                return
            raise CorruptBatch(f"the last batch is cut off: only {len(view)} bytes of it are here")
        yield _batch(view[:size], compressors, limit)
        view = view[size:]


def _complete_size(view: memoryview) -> int | None:
    """The size of the first batch, None if its end is missing."""
    if len(view) < COUNTED_FROM:
        return None
    size = COUNTED_FROM + int.from_bytes(view[LENGTH_OFFSET:COUNTED_FROM], "big", signed=True)
    if len(view) > UNCHECKED.size and view[16] != MAGIC:
        raise CorruptBatch(f"format v{view[16]} is not read here, only v{MAGIC}")
    if size < HEADER_SIZE:
        raise CorruptBatch(f"a batch of {size} bytes is shorter than its header")
    return size if size <= len(view) else None


def _batch(view: memoryview, compressors: Mapping[int, Compressor], limit: int) -> RecordBatch:
    base_offset, _length, leader_epoch, _magic, crc = UNCHECKED.unpack_from(view)
    if crc32c(view[CHECKED_FROM:]) != crc:
        raise CorruptBatch(f"the checksum of the batch at offset {base_offset} is wrong")
    checked = CHECKED.unpack_from(view, CHECKED_FROM)
    bits, last_delta, first_timestamp, max_timestamp, producer_id, epoch, sequence, count = checked
    codec_id = bits & CODEC_MASK
    log_append_time = bool(bits & Attributes.LOG_APPEND_TIME)
    try:
        section = _plain(view[HEADER_SIZE:], codec_id, compressors, limit)
        records = tuple(_records(section, count, base_offset, first_timestamp))
    except ProtocolError as error:
        raise CorruptBatch(f"the batch at offset {base_offset}: {error}") from error
    offsets = (base_offset - 1, *(record.offset for record in records), base_offset + last_delta + 1)
    if last_delta < 0 or any(offset >= after for offset, after in pairwise(offsets)):
        raise CorruptBatch(f"the batch at offset {base_offset} has records out of order or behind its end")
    if log_append_time:
        records = tuple(attrs.evolve(record, timestamp_ms=max_timestamp) for record in records)
    return RecordBatch(
        base_offset=base_offset,
        last_offset=base_offset + last_delta,
        leader_epoch=leader_epoch,
        codec_id=codec_id,
        log_append_time=log_append_time,
        transactional=bool(bits & Attributes.TRANSACTIONAL),
        control=bool(bits & Attributes.CONTROL),
        first_timestamp=first_timestamp,
        max_timestamp=max_timestamp,
        producer_id=producer_id,
        epoch=epoch,
        sequence=sequence,
        size=len(view),
        records=records,
    )


def _plain(section: memoryview, codec_id: int, compressors: Mapping[int, Compressor], limit: int) -> memoryview:
    if not codec_id:
        return section
    compressor = compressors.get(codec_id)
    if compressor is None:
        raise CorruptBatch(f"there is no compressor for codec {codec_id} (here: {sorted(compressors) or 'none'})")
    return memoryview(compressor.decompress(section, limit=limit))


def _records(section: memoryview, count: int, base_offset: int, first_timestamp: int) -> Iterator[Record]:
    if count < 0:
        raise CorruptBatch(f"it claims {count} records")
    position = 0
    for _ in range(count):
        length, start = read_varint(section, position)
        position = start + length
        if length < 0 or position > len(section):
            raise CorruptBatch(f"a record of {length} bytes does not end within the batch")
        yield _record(section[start:position], base_offset, first_timestamp)
    if position != len(section):
        raise CorruptBatch(f"{len(section) - position} bytes follow the last of {count} records")


def _record(view: memoryview, base_offset: int, first_timestamp: int) -> Record:
    timestamp_delta, position = read_varlong(view, 1)  # no attribute of a record is in use
    offset_delta, position = read_varint(view, position)
    key, position = _read_bytes(view, position)
    value, position = _read_bytes(view, position)
    count, position = read_varint(view, position)
    if count < 0:
        raise CorruptBatch(f"a record claims {count} headers")
    headers: list[Header] = []
    for _ in range(count):
        name, position = _read_bytes(view, position)
        content, position = _read_bytes(view, position)
        headers.append((_text(name), content))
    if position != len(view):
        raise CorruptBatch(f"a record has {len(view) - position} bytes behind its headers")
    return Record(
        offset=base_offset + offset_delta,
        timestamp_ms=first_timestamp + timestamp_delta,
        key=key,
        value=value,
        headers=tuple(headers),
    )


def _read_bytes(view: memoryview, position: int) -> tuple[bytes | None, int]:
    size, start = read_varint(view, position)
    if size == -1:
        return None, start
    end = start + size
    if size < 0 or end > len(view):
        raise CorruptBatch(f"{size} bytes of a key, value or header do not end within the record")
    return bytes(view[start:end]), end


def _text(name: bytes | None) -> str:
    if name is None:
        raise CorruptBatch("a header has no name")
    try:
        return name.decode()
    except UnicodeDecodeError as error:
        raise CorruptBatch(f"a header's name is not UTF-8: {error}") from error
