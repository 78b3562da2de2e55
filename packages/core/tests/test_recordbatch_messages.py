"""Messages of v0 and v1: where a wrapper says its records are, and whose time they have."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from zlib import crc32

import pytest

from ottla.plugins.compressors.gzip import Gzip
from ottla.recordbatch.message_sets import OVERHEADS, message_set, wrapper
from ottla.recordbatch.parse import RecordBatch, parse_batches

GZIP = Gzip(-1)
LOG_APPEND_TIME = 0x08

formats = pytest.mark.parametrize("magic", [0, 1])


def inside(magic: int, offsets: Sequence[int], *, timestamps: Sequence[int] = ()) -> bytes:
    """Messages whose offsets are not ours to choose: a broker's, or another client's."""
    values = [b"%d" % index for index in range(len(offsets))]
    plain = message_set(magic, keys=None, values=values, timestamps=timestamps or [5] * len(offsets))
    size = len(plain) // len(offsets)
    pieces = [plain[start + 8 : start + size] for start in range(0, len(plain), size)]
    return b"".join(struct.pack(">q", offset) + piece for offset, piece in zip(offsets, pieces, strict=True))


def wrapped(
    magic: int, plain: bytes, *, offset: int, attributes: int = GZIP.codec_id, timestamp_ms: int = 5
) -> RecordBatch:
    packed = GZIP.compress([plain])
    whole = bytearray(wrapper(magic, packed, codec_id=attributes, count=offset + 1, max_timestamp=timestamp_ms))
    [batch] = parse_batches(whole, compressors={1: GZIP})
    return batch


def offsets(batch: RecordBatch) -> list[int]:
    return [record.offset for record in batch.records]


def test_v1_inner_offsets_are_relative_to_the_wrapper() -> None:
    batch = wrapped(1, inside(1, [0, 1, 2]), offset=1002)

    assert offsets(batch) == [1000, 1001, 1002]
    assert (batch.base_offset, batch.last_offset) == (1000, 1002)


def test_v1_absolute_inner_offsets_are_read_too() -> None:
    assert offsets(wrapped(1, inside(1, [1000, 1001]), offset=1001)) == [1000, 1001]


@pytest.mark.parametrize("outer", [1002, 1005])
def test_v0_inner_offsets_are_those_of_the_log(outer: int) -> None:
    batch = wrapped(0, inside(0, [1000, 1001, 1002]), offset=outer)

    assert offsets(batch) == [1000, 1001, 1002]
    assert (batch.base_offset, batch.last_offset) == (1000, outer)


@formats
def test_compaction_leaves_gaps_in_offsets(magic: int) -> None:
    batch = wrapped(magic, inside(magic, [1, 3, 7]), offset=7)

    assert offsets(batch) == [1, 3, 7]
    assert (batch.base_offset, batch.last_offset) == (1, 7)


@formats
def test_a_wrapper_with_offset_0_has_the_offsets_inside(magic: int) -> None:
    batch = wrapped(magic, inside(magic, [0, 1, 2]), offset=0)

    assert offsets(batch) == [0, 1, 2]
    assert (batch.base_offset, batch.last_offset) == (0, 2)


def test_with_create_time_wrapped_records_have_their_own_timestamps() -> None:
    batch = wrapped(1, inside(1, [0, 1, 2], timestamps=[30, -1, 10]), offset=2, timestamp_ms=30)

    assert [record.timestamp_ms for record in batch.records] == [30, -1, 10]
    assert (batch.first_timestamp, batch.max_timestamp, batch.log_append_time) == (30, 30, False)


def test_with_log_append_time_wrapped_records_have_that_of_the_broker() -> None:
    batch = wrapped(
        1, inside(1, [0, 1], timestamps=[30, 10]), offset=1, attributes=GZIP.codec_id | LOG_APPEND_TIME, timestamp_ms=99
    )

    assert [record.timestamp_ms for record in batch.records] == [99, 99]
    assert batch.log_append_time


def test_v0_has_neither_timestamps_nor_a_timestamp_type() -> None:
    batch = wrapped(0, inside(0, [0, 1]), offset=1, attributes=GZIP.codec_id | LOG_APPEND_TIME)

    assert [record.timestamp_ms for record in batch.records] == [-1, -1]
    assert (batch.max_timestamp, batch.log_append_time) == (-1, False)


@formats
def test_an_uncompressed_message_is_a_batch_of_one_record(magic: int) -> None:
    whole = inside(magic, [70, 71], timestamps=[8, 9])

    batches = list(parse_batches(whole, compressors={}))

    assert [(batch.base_offset, batch.last_offset) for batch in batches] == [(70, 70), (71, 71)]
    assert [batch.max_timestamp for batch in batches] == ([8, 9] if magic else [-1, -1])
    assert {(batch.magic, batch.codec_id, batch.size) for batch in batches} == {(magic, 0, OVERHEADS[magic] + 1)}
    assert {(batch.producer_id, batch.epoch, batch.sequence, batch.leader_epoch) for batch in batches} == {
        (-1, -1, -1, -1)
    }


@formats
def test_the_checksum_is_crc32_from_the_magic_byte_on(magic: int) -> None:
    [whole] = [message_set(magic, keys=[b"key"], values=[b"value"], timestamps=[5])]

    assert struct.unpack_from(">I", whole, 12) == (crc32(whole[16:]),)
    assert len(whole) == OVERHEADS[magic] + 8


def test_the_overhead_of_a_message_is_known() -> None:
    assert OVERHEADS == (26, 34)
