"""Parser of record batches of format v2. The bytes are not trusted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

import attrs

from ottla.errors import CorruptBatchError, ProtocolError, counted
from ottla.interfaces import Compressor, Header
from ottla.protocol.primitives import read_varint, read_varlong
from ottla.recordbatch.batch_header import BatchHeader, announced_size
from ottla.recordbatch.checksum import crc32c
from ottla.recordbatch.codecs import unpack
from ottla.recordbatch.header_v2 import CHECKED_FROM, HEADER_SIZE, MAGIC
from ottla.recordbatch.parsed_batches import Record, RecordBatch


def read_batch(view: memoryview, *, compressors: Mapping[int, Compressor], limit: int) -> RecordBatch:
    """The single batch in *view*; its records may unpack to *limit* bytes."""
    header = BatchHeader.read(view)
    base_offset = header.base_offset
    if crc32c(view[CHECKED_FROM:]) != header.crc:
        raise CorruptBatchError(f"the checksum of the batch at offset {base_offset} is wrong")
    try:
        section = unpack(view[HEADER_SIZE:], codec_id=header.codec_id, compressors=compressors, limit=limit)
        records = tuple(_records(section, header.count, base_offset, header.first_timestamp))
    except ProtocolError as error:
        raise CorruptBatchError(f"the batch at offset {base_offset}: {error}") from error
    _check_offsets(records, base_offset, header.last_offset_delta)
    if header.log_append_time:
        records = tuple(attrs.evolve(record, timestamp_ms=header.max_timestamp) for record in records)
    return RecordBatch(
        magic=MAGIC,
        base_offset=base_offset,
        last_offset=base_offset + header.last_offset_delta,
        leader_epoch=header.leader_epoch,
        codec_id=header.codec_id,
        log_append_time=header.log_append_time,
        transactional=header.transactional,
        control=header.control,
        first_timestamp=header.first_timestamp,
        max_timestamp=header.max_timestamp,
        producer_id=header.producer_id,
        epoch=header.epoch,
        sequence=header.sequence,
        size=len(view),
        records=records,
    )


def _check_offsets(records: Sequence[Record], base_offset: int, last_delta: int) -> None:
    offsets = (base_offset - 1, *(record.offset for record in records), base_offset + last_delta + 1)
    if last_delta < 0 or any(offset >= after for offset, after in pairwise(offsets)):
        raise CorruptBatchError(
            f"the batch at offset {base_offset} has records whose offsets are out of order or after its last offset"
        )


def batch_size(view: memoryview) -> int:
    """The size of the first batch in *view*, by its length field; the view includes its magic."""
    size = announced_size(view)
    if size < HEADER_SIZE:
        raise CorruptBatchError(f"a batch of {size} bytes is shorter than its header")
    return size


def _records(section: memoryview, count: int, base_offset: int, first_timestamp: int) -> Iterator[Record]:
    if count < 0:
        raise CorruptBatchError(f"its header counts {counted(count, 'record')}")
    position = 0
    for _ in range(count):
        length, start = read_varint(section, position)
        position = start + length
        if length < 0 or position > len(section):
            raise CorruptBatchError(f"a record of {length} bytes does not end within the batch")
        yield _record(section[start:position], base_offset, first_timestamp)
    if position != len(section):
        raise CorruptBatchError(f"{len(section) - position} bytes follow the last of {counted(count, 'record')}")


def _record(view: memoryview, base_offset: int, first_timestamp: int) -> Record:
    timestamp_delta, position = read_varlong(view, 1)  # no attribute of a record is in use
    offset_delta, position = read_varint(view, position)
    key, position = _read_bytes(view, position)
    value, position = _read_bytes(view, position)
    count, position = read_varint(view, position)
    if count < 0:
        raise CorruptBatchError(f"a record claims {count} headers")
    headers: list[Header] = []
    for _ in range(count):
        name, position = _read_bytes(view, position)
        content, position = _read_bytes(view, position)
        headers.append((_text(name), content))
    if position != len(view):
        raise CorruptBatchError(f"a record has {len(view) - position} bytes behind its headers")
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
        raise CorruptBatchError(f"{size} bytes of a key, value or header do not end within the record")
    return bytes(view[start:end]), end


def _text(name: bytes | None) -> str:
    if name is None:
        raise CorruptBatchError("a header has no name")
    try:
        return name.decode()
    except UnicodeDecodeError as error:
        raise CorruptBatchError(f"a header's name is not UTF-8: {error}") from error
