"""The checks of a Produce request's records that need no state of producers: Kafka's, in its order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import attrs

from ottla.errors import CorruptBatchError, ErrorCode
from ottla.interfaces import Buffer, Compressor
from ottla.recordbatch.batch_header import BatchHeader, announced_size
from ottla.recordbatch.checksum import crc32c
from ottla.recordbatch.codecs import CODEC_MASK, ZSTD, unpack
from ottla.recordbatch.header_v2 import CHECKED_FROM, COUNTED_FROM, HEADER_SIZE, MAGIC, MAGIC_OFFSET
from ottla.recordbatch.parse import UNPACKED_LIMIT, Record, RecordBatch, parse_batches
from ottla_testkit.simulation.topics import SimulatedTopic

FIRST_WITH_BATCHES: Final = 3
"""From this version on, Produce has exactly one batch of format v2 for each partition."""

FIRST_WITH_ZSTD: Final = 7

REJECTED: Final = "One or more records have been rejected"
UNKEYED: Final = "Compacted topic cannot accept message without key."
OUT_OF_RANGE: Final = "The timestamp of the message is out of range."
NOT_BY_CLIENT: Final = "Producer should not set timestamp type to LogAppendTime."
NO_TIMESTAMP: Final = -1

SMALLEST: Final = 14
"""A batch of fewer bytes has a wrong size: the header of the oldest format is longer."""

_CODEC_AT: Final = CHECKED_FROM + 1


@attrs.frozen(kw_only=True)
class CheckedRecords:
    """The batches of a partition, or the code with which all of them are refused."""

    code: ErrorCode = ErrorCode.NONE
    batches: Sequence[RecordBatch] = ()
    refused: Mapping[int, str] = attrs.field(factory=dict)
    """The indices of records that the topic refuses, and the reasons."""
    corrupt: CorruptBatchError | None = None
    """Why the bytes are not a batch."""
    at_log: bool = False
    """Whether it is the partition's log that refuses them: the response then contains the log's first offset."""
    message: str | None = None


def check_records(
    records: Buffer, *, version: int, topic: SimulatedTopic, now_ms: int, compressors: Mapping[int, Compressor]
) -> CheckedRecords:
    """Read the batches of a request, and check them as a broker does before it appends them to this topic."""
    view = memoryview(records)
    if version >= FIRST_WITH_BATCHES:
        refused = _refuse_form(view, version)
        if refused is not None:
            return refused
        view = view[: announced_size(view)]
    try:
        batches = list(parse_batches(view, compressors=compressors))
    except CorruptBatchError as error:
        code = ErrorCode.CORRUPT_MESSAGE if version < FIRST_WITH_BATCHES else _code_of_content(view, compressors)
        return CheckedRecords(code=code, corrupt=error, at_log=True)
    if version >= FIRST_WITH_BATCHES and any(map(_invalid, batches)):
        return CheckedRecords(code=ErrorCode.INVALID_RECORD, at_log=True)
    unkeyed = {index: UNKEYED for index, _batch, record in _numbered(batches) if topic.compacted and record.key is None}
    untimely = {
        index: why
        for index, batch, record in _numbered(batches)
        if index not in unkeyed and (why := _refuse_timestamp(topic, batch, record, now_ms)) is not None
    }
    if unkeyed or untimely:
        code = ErrorCode.INVALID_TIMESTAMP if untimely else ErrorCode.INVALID_RECORD
        reasons = dict(sorted({**unkeyed, **untimely}.items()))
        return CheckedRecords(code=code, refused=reasons, at_log=True, message=REJECTED)
    return CheckedRecords(batches=batches)


def transaction_owner(records: Buffer) -> tuple[int, int] | None:
    """Return the producer's id and epoch of a transactional batch, as its header says; None for any other bytes."""
    view = memoryview(records)
    if len(view) < HEADER_SIZE or view[MAGIC_OFFSET] != MAGIC or not HEADER_SIZE <= announced_size(view) <= len(view):
        return None
    header = BatchHeader.read(view)
    return (header.producer_id, header.epoch) if header.transactional else None


def _numbered(batches: Sequence[RecordBatch]) -> Iterator[tuple[int, RecordBatch, Record]]:
    """The records, each with its place in its batch."""
    for batch in batches:
        for index, record in enumerate(batch.records):
            yield index, batch, record


def _refuse_timestamp(topic: SimulatedTopic, batch: RecordBatch, record: Record, now_ms: int) -> str | None:
    """Return why a topic refuses a record's timestamp, None if it does not."""
    if not topic.append_time and record.timestamp_ms != NO_TIMESTAMP:
        age = now_ms - record.timestamp_ms
        early = topic.timestamp_before_max_ms is not None and age > topic.timestamp_before_max_ms
        late = topic.timestamp_after_max_ms is not None and -age > topic.timestamp_after_max_ms
        return OUT_OF_RANGE if early or late else None
    return NOT_BY_CLIENT if batch.log_append_time else None


def _refuse_form(view: memoryview, version: int) -> CheckedRecords | None:
    """Return the refusal of bytes that are not one batch with a correct checksum; None if they are."""
    if len(view) <= MAGIC_OFFSET:
        return CheckedRecords(code=ErrorCode.INVALID_RECORD)
    size = announced_size(view)
    if size < COUNTED_FROM + SMALLEST or (size <= len(view) and view[MAGIC_OFFSET] > MAGIC):
        return CheckedRecords(code=ErrorCode.CORRUPT_MESSAGE, message="the header is wrong")
    if size > len(view) or view[MAGIC_OFFSET] < MAGIC or _is_whole(view[size:]):
        return CheckedRecords(code=ErrorCode.INVALID_RECORD)
    if version < FIRST_WITH_ZSTD and view[_CODEC_AT] & CODEC_MASK == ZSTD:
        return CheckedRecords(code=ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
    if size < HEADER_SIZE or crc32c(view[CHECKED_FROM:size]) != BatchHeader.read(view).crc:
        return CheckedRecords(code=ErrorCode.CORRUPT_MESSAGE, corrupt=CorruptBatchError("the checksum is wrong"))
    return None


def _is_whole(view: memoryview) -> bool:
    """Return whether these bytes begin with another batch; an incomplete one counts for nothing."""
    return len(view) > MAGIC_OFFSET and announced_size(view) <= len(view)


def _code_of_content(view: memoryview, compressors: Mapping[int, Compressor]) -> ErrorCode:
    """Return the code for a batch whose records cannot be read."""
    try:
        unpack(view[HEADER_SIZE:], codec_id=view[_CODEC_AT] & CODEC_MASK, compressors=compressors, limit=UNPACKED_LIMIT)
    except CorruptBatchError:
        return ErrorCode.UNKNOWN_SERVER_ERROR
    return ErrorCode.INVALID_RECORD


def _invalid(batch: RecordBatch) -> bool:
    """Return whether a batch contains what only brokers write, wrong offsets, or a producer but no sequence number."""
    return (
        batch.control
        or not batch.records
        or (batch.base_offset, batch.last_offset) != (0, len(batch.records) - 1)
        or (batch.producer_id >= 0 and batch.sequence < 0)
    )
