"""Whatever bytes claim to be record batches of v2: they are read, or a CorruptBatchError says why not."""

from __future__ import annotations

import random
import struct

import cramjam
import lz4.frame
import pytest
import zstandard
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.errors import CorruptBatchError
from ottla.interfaces import Buffer, Compressor
from ottla.plugins.compressors.gzip import Gzip
from ottla.plugins.compressors.lz4 import Lz4
from ottla.plugins.compressors.snappy import Snappy
from ottla.plugins.compressors.zstd import Zstd
from ottla.protocol.primitives import varint
from ottla.recordbatch.header_v2 import batch_header
from ottla.recordbatch.objects import ObjectColumns
from ottla.recordbatch.parse import RecordBatch, parse_batches

pytestmark = pytest.mark.unmeasured


@pytest.fixture(scope="module")
def compressors() -> dict[int, Compressor]:
    made: tuple[Compressor, ...] = (Gzip(-1), Snappy(cramjam), Lz4(lz4.frame, 9), Zstd(zstandard, 3))
    return {compressor.codec_id: compressor for compressor in made}


def batch(section: bytes, *, count: int, codec_id: int = 0) -> bytes:
    chunks: list[Buffer] = [section]
    header = batch_header(chunks, codec_id=codec_id, first_timestamp=0, max_timestamp=0, count=count)
    return header + section


def section(count: int = 3) -> bytes:
    columns = ObjectColumns(1 << 20)
    for index in range(count):
        columns.append(b"key", b"value" * 5, [("name", b"x"), ("null", None)], 1000 - index)
    return bytes(columns.encode(2).chunks[0])


def read(buffer: Buffer, compressors: dict[int, Compressor] | None = None) -> list[RecordBatch]:
    return list(parse_batches(buffer, compressors=compressors or {}, limit=1 << 20))


def with_right_checksum(broken: bytearray) -> bytes:
    broken[17:21] = struct.pack(">I", crc32c(broken[21:]))
    return bytes(broken)


@pytest.mark.parametrize("codec_id", range(5))
def test_a_batch_cut_anywhere_is_corrupt(codec_id: int, compressors: dict[int, Compressor]) -> None:
    packed = compressors[codec_id].compress([section()], level=None) if codec_id else section()
    whole = batch(packed, count=3, codec_id=codec_id)

    for size in range(1, len(whole)):
        with pytest.raises(CorruptBatchError, match="cut off"):
            read(whole[:size], compressors)


@pytest.mark.parametrize("codec_id", range(5))
def test_a_records_section_cut_anywhere_is_corrupt(codec_id: int, compressors: dict[int, Compressor]) -> None:
    packed = compressors[codec_id].compress([section()], level=None) if codec_id else section()

    for size in range(len(packed)):
        with pytest.raises(CorruptBatchError):
            read(batch(packed[:size], count=3, codec_id=codec_id), compressors)


def test_every_flipped_bit_after_the_checksum_is_found() -> None:
    whole = batch(section(), count=3)

    for position in range(17, len(whole)):
        for bit in range(8):
            flipped = bytearray(whole)
            flipped[position] ^= 1 << bit
            with pytest.raises(CorruptBatchError):
                read(flipped)


@pytest.mark.parametrize("codec_id", range(5))
def test_flipped_bits_under_a_valid_checksum_are_read_or_corrupt(
    codec_id: int, compressors: dict[int, Compressor]
) -> None:
    packed = compressors[codec_id].compress([section()], level=None) if codec_id else section()
    whole = batch(packed, count=3, codec_id=codec_id)
    corrupt = 0
    for position in range(21, len(whole)):
        for bit in range(8):
            flipped = bytearray(whole)
            flipped[position] ^= 1 << bit
            try:
                read(with_right_checksum(flipped), compressors)
            except CorruptBatchError:
                corrupt += 1

    assert corrupt > len(whole)


@given(st.binary(max_size=200))
def test_random_bytes_are_read_or_corrupt(noise: bytes) -> None:
    try:
        read(noise)
    except CorruptBatchError:
        assert noise


@given(st.binary(max_size=100), st.integers(-(2**31), 2**31 - 1), st.integers(0, 7))
@settings(deadline=None)
def test_random_sections_are_read_or_corrupt(noise: bytes, count: int, codec_id: int) -> None:
    whole = bytearray(batch(noise, count=1, codec_id=codec_id))
    whole[57:61] = struct.pack(">i", count)
    try:
        batches = read(with_right_checksum(whole))
    except CorruptBatchError:
        return
    assert len(batches[0].records) == count


def test_two_thousand_random_changes_give_a_batch_or_a_corrupt_error(compressors: dict[int, Compressor]) -> None:
    rng = random.Random(20)
    whole = batch(section(), count=3)
    for _ in range(2000):
        changed = bytearray(whole)
        for _ in range(rng.randrange(1, 5)):
            changed[rng.randrange(21, len(changed))] = rng.randrange(256)
        try:
            read(with_right_checksum(changed), compressors)
        except CorruptBatchError:
            continue


def record(*, offset: int = 0, key: bytes = b"\1", value: bytes = b"\1", headers: bytes = b"\0") -> bytes:
    body = b"\0\0" + varint(offset) + key + value + headers
    return varint(len(body)) + body


@pytest.mark.parametrize(
    ("broken", "count", "said"),
    [
        pytest.param(record(), 2, "variable-length", id="fewer records than claimed"),
        pytest.param(record() * 2, 1, "bytes follow the last", id="more records than claimed"),
        pytest.param(record() * 2, 2, "out of order", id="an offset twice"),
        pytest.param(record(offset=-1), 1, "out of order", id="an offset before the first"),
        pytest.param(record(offset=1), 1, "or after its", id="an offset behind the last"),
        pytest.param(varint(-1), 1, "does not end within", id="a record of negative length"),
        pytest.param(varint(100), 1, "does not end within", id="a record behind the end"),
        pytest.param(record(key=varint(-2)), 1, "do not end within", id="a key of negative length"),
        pytest.param(record(value=varint(2**31 - 1)), 1, "do not end within", id="a huge value"),
        pytest.param(record(headers=b"\0\0"), 1, "behind its headers", id="bytes behind the headers"),
        pytest.param(record(headers=varint(-1)), 1, "headers", id="a negative number of headers"),
        pytest.param(record(headers=b"\2\1\1"), 1, "no name", id="a header without a name"),
        pytest.param(record(headers=b"\2\2\xff\1"), 1, "not UTF-8", id="a header name that is no text"),
    ],
)
def test_the_error_names_a_wrong_record(broken: bytes, count: int, said: str) -> None:
    with pytest.raises(CorruptBatchError, match=said):
        read(batch(broken, count=count))


@pytest.mark.parametrize("magic", [3, 127, 255])
def test_an_unknown_format_is_refused_by_its_number(magic: int) -> None:
    with pytest.raises(CorruptBatchError, match=rf"format v{magic} is not supported"):
        read(bytes(8) + struct.pack(">iiB", 60, 0, magic) + bytes(60))


def test_a_length_below_the_header_is_refused() -> None:
    whole = bytearray(batch(section(), count=3))
    whole[8:12] = struct.pack(">i", -1)

    with pytest.raises(CorruptBatchError, match="shorter than its header"):
        read(whole)


def test_an_unknown_codec_is_refused() -> None:
    with pytest.raises(CorruptBatchError, match="no compressor for codec 5"):
        read(batch(section(), count=3, codec_id=5))


def test_the_batches_before_an_incomplete_one_are_read() -> None:
    whole = batch(section(), count=3)

    for size in range(1, len(whole)):
        batches = parse_batches(whole + whole[:size], compressors={})
        assert len(next(batches).records) == 3
        with pytest.raises(CorruptBatchError, match="cut off"):
            next(batches)


def test_a_section_that_decompresses_to_too_much_is_corrupt(compressors: dict[int, Compressor]) -> None:
    for codec_id, compressor in compressors.items():
        bomb = compressor.compress([bytes(4 << 20)], level=None)
        with pytest.raises(CorruptBatchError, match="more than the 1048576 bytes"):
            read(batch(bomb, count=1, codec_id=codec_id), compressors)
