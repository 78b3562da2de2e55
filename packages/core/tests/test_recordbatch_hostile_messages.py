"""Whatever bytes claim to be messages of v0 or v1: they are read, or a CorruptBatchError says why not."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from zlib import crc32

import cramjam
import lz4.frame
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.errors import CorruptBatchError, ProtocolError
from ottla.interfaces import Buffer, Compressor
from ottla.plugins.compressors.gzip import Gzip
from ottla.plugins.compressors.lz4 import Lz4
from ottla.plugins.compressors.snappy import Snappy
from ottla.plugins.compressors.zstd import Zstd
from ottla.recordbatch.objects import ObjectColumns
from ottla.recordbatch.parse import RecordBatch, parse_batches
from ottla.recordbatch.sealed_records import finish

pytestmark = pytest.mark.unmeasured

COMPRESSORS: dict[int, Compressor] = {
    1: Gzip(-1),
    2: Snappy(cramjam),
    3: Lz4(lz4.frame, 9),
    4: Zstd(zstandard, 3),
}
LIMIT = 1 << 20

formats = pytest.mark.parametrize("magic", [0, 1])
codecs = pytest.mark.parametrize("codec_id", range(4))
wrapping = pytest.mark.parametrize("codec_id", range(1, 4))


def raw(magic: int, rest: bytes, *, offset: int = 0) -> bytes:
    """A message with a right length and checksum around whatever follows the magic byte."""
    checked = bytes((magic,)) + rest
    return struct.pack(">qiI", offset, len(checked) + 4, crc32(checked)) + checked


def message(
    magic: int, *, value: bytes | None, offset: int = 0, attributes: int = 0, tail: bytes = b"", size: int | None = None
) -> bytes:
    """Without a key. *size* is what it says of its value."""
    declared = size if size is not None else -1 if value is None else len(value)
    head = struct.pack(">B", attributes) + (struct.pack(">q", 7) if magic else b"")
    return raw(magic, head + struct.pack(">ii", -1, declared) + (value or b"") + tail, offset=offset)


def gzipped(magic: int, inside: bytes, *, offset: int = 0) -> bytes:
    packed = COMPRESSORS[1].compress([inside], level=None)
    return message(magic, value=packed, offset=offset, attributes=1)


def whole(magic: int, codec_id: int = 0) -> bytes:
    """A wrapper of three, or a plain message."""
    columns = ObjectColumns(1 << 20)
    for index in range(3 if codec_id else 1):
        columns.append(b"key", b"value" * 5, (), 1000 - index)
    return b"".join(finish(columns.encode(magic), magic=magic, compressor=COMPRESSORS.get(codec_id)).chunks)


def read(buffer: Buffer) -> list[RecordBatch]:
    return list(parse_batches(buffer, compressors=COMPRESSORS, limit=LIMIT))


def with_right_checksum(broken: bytearray) -> bytes:
    broken[12:16] = struct.pack(">I", crc32(broken[16:]))
    return bytes(broken)


@formats
@codecs
def test_a_message_cut_anywhere_is_corrupt(magic: int, codec_id: int) -> None:
    entire = whole(magic, codec_id)

    for size in range(1, len(entire)):
        with pytest.raises(CorruptBatchError, match="cut off"):
            read(entire[:size])


@formats
@wrapping
def test_wrapped_messages_cut_anywhere_are_corrupt(magic: int, codec_id: int) -> None:
    columns = ObjectColumns(1 << 20)
    for index in range(3):
        columns.append(b"key", b"value" * 5, (), 1000 - index)
    plain = b"".join(columns.encode(magic).chunks)
    ends = [len(plain) * nth // 3 for nth in range(1, 4)]

    for size in range(len(plain) + 1):
        packed = COMPRESSORS[codec_id].compress([plain[:size]], level=None)
        cut = message(magic, value=packed, offset=2, attributes=codec_id)
        if size in ends:
            assert len(read(cut)[0].records) == ends.index(size) + 1
        else:
            with pytest.raises(CorruptBatchError):
                read(cut)


@formats
@codecs
def test_every_flipped_bit_covered_by_the_checksum_is_found(magic: int, codec_id: int) -> None:
    entire = whole(magic, codec_id)

    for position in range(12, len(entire)):
        for bit in range(8):
            flipped = bytearray(entire)
            flipped[position] ^= 1 << bit
            with pytest.raises(CorruptBatchError):
                read(flipped)


@formats
@codecs
def test_flipped_bits_under_a_valid_checksum_are_read_or_corrupt(magic: int, codec_id: int) -> None:
    entire = whole(magic, codec_id)
    corrupt = 0
    for position in range(16, len(entire)):
        for bit in range(8):
            flipped = bytearray(entire)
            flipped[position] ^= 1 << bit
            try:
                read(with_right_checksum(flipped))
            except CorruptBatchError:
                corrupt += 1

    assert corrupt > 8


@given(st.binary(max_size=100), st.integers(0, 1), st.integers(0, 255), st.integers(-(2**63), 2**63 - 1))
@settings(deadline=None)
def test_random_wrappers_are_read_or_corrupt(noise: bytes, magic: int, attributes: int, offset: int) -> None:
    for packed in (noise, *(codec.compress([noise], level=None) for codec in COMPRESSORS.values())):
        try:
            [batch] = read(message(magic, value=packed, attributes=attributes, offset=offset))
        except CorruptBatchError:
            assert attributes & 7
        else:
            assert not attributes & 7
            assert (batch.records[0].value, batch.records[0].offset) == (packed, offset)


@formats
def test_random_changes_in_a_wrapper_give_a_batch_or_a_corrupt_error(magic: int) -> None:
    rng = random.Random(20)
    inside = b"".join(message(magic, value=b"value", offset=index) for index in range(3))
    for _ in range(2000):
        changed = bytearray(inside)
        for _ in range(rng.randrange(1, 5)):
            changed[rng.randrange(len(changed))] = rng.randrange(256)
        try:
            read(gzipped(magic, bytes(changed), offset=2))
        except CorruptBatchError:
            continue


@formats
@pytest.mark.parametrize(
    ("broken", "said"),
    [
        pytest.param({"value": b"v", "size": 2}, "do not end within", id="a value behind the end"),
        pytest.param({"value": None, "size": -2}, "do not end within", id="a value of negative size"),
        pytest.param({"value": b"v", "size": 2**31 - 1}, "do not end within", id="a huge value"),
        pytest.param({"value": b"v", "tail": b"!"}, "1 bytes behind its value", id="bytes behind the value"),
        pytest.param({"value": None, "attributes": 1}, "its value is null", id="a wrapper of nothing"),
        pytest.param({"value": b"", "attributes": 1}, "malformed gzip", id="a wrapper of no bytes"),
        pytest.param({"value": b"", "attributes": 4}, "has no zstd", id="zstd"),
        pytest.param({"value": b"", "attributes": 7}, "no compressor for codec 7", id="an unknown codec"),
    ],
)
def test_the_error_names_a_wrong_message(magic: int, broken: dict[str, object], said: str) -> None:
    with pytest.raises(CorruptBatchError, match=said):
        read(message(magic, **broken))  # type: ignore[arg-type]


@formats
def test_a_message_that_ends_inside_a_length_is_corrupt(magic: int) -> None:
    key_up_to_the_value = b"\0" + bytes(8 if magic else 0) + struct.pack(">i", 2) + b"ke"

    with pytest.raises(CorruptBatchError, match="ends inside the size"):
        read(raw(magic, key_up_to_the_value + b"\0\0"))


@formats
@pytest.mark.parametrize("length", [-(2**31), -1, 0, 13])
def test_a_length_too_small_for_any_message_is_refused(magic: int, length: int) -> None:
    entire = bytearray(whole(magic))
    entire[8:12] = struct.pack(">i", length)

    with pytest.raises(CorruptBatchError, match=r"shorter than one without key and value"):
        read(entire)


@formats
@pytest.mark.parametrize(
    ("offsets", "outer", "said"),
    [
        ([0, 0], 5, "out of order"),
        ([1, 0], 5, "out of order"),
        ([-1, 0], 5, "out of order"),
        ([-(2**63), 0], 5, "out of order"),
        ([0, 6], 5, "or after its"),
        ([0, 2**63 - 1], 5, "or after its"),
        ([0, 1], -1, "or after its"),
    ],
)
def test_impossible_offsets_are_refused(magic: int, offsets: Sequence[int], outer: int, said: str) -> None:
    inside = b"".join(message(magic, value=b"v", offset=offset) for offset in offsets)

    with pytest.raises(CorruptBatchError, match=said):
        read(gzipped(magic, inside, offset=outer))


@formats
def test_a_wrapper_inside_a_wrapper_is_refused_before_decompression(magic: int) -> None:
    innermost = gzipped(magic, message(magic, value=b"v"))

    with pytest.raises(CorruptBatchError, match="a wrapper inside"):
        read(gzipped(magic, innermost))
    with pytest.raises(CorruptBatchError, match="a wrapper inside"):
        read(gzipped(magic, message(magic, value=b"not gzip at all", attributes=1)))


@formats
def test_only_messages_of_its_own_format_are_read_from_a_wrapper(magic: int) -> None:
    for other in {0, 1, 2} - {magic}:
        with pytest.raises(CorruptBatchError, match=rf"format v{magic} has a message of format v{other} inside"):
            read(gzipped(magic, message(other, value=b"a value") + bytes(40)))


@formats
def test_a_wrong_checksum_inside_a_wrapper_is_found(magic: int) -> None:
    inside = bytearray(message(magic, value=b"v"))
    inside[-1] ^= 1

    with pytest.raises(CorruptBatchError, match=r"the message at offset 9: the checksum of the message at offset 0"):
        read(gzipped(magic, bytes(inside), offset=9))


@formats
@pytest.mark.parametrize(("inside", "said"), [(b"", "no messages inside"), (bytes(20), "20 bytes follow the last")])
def test_a_wrapper_without_complete_messages_is_refused(magic: int, inside: bytes, said: str) -> None:
    with pytest.raises(CorruptBatchError, match=said):
        read(gzipped(magic, inside))


@formats
@wrapping
def test_a_wrapper_that_decompresses_to_too_much_is_corrupt(magic: int, codec_id: int) -> None:
    bomb = COMPRESSORS[codec_id].compress([message(magic, value=bytes(4 * LIMIT))], level=None)

    with pytest.raises(CorruptBatchError, match=f"more than the {LIMIT} bytes"):
        read(message(magic, value=bomb, attributes=codec_id))


class Breaking:
    """A third-party codec, which raises any error."""

    codec_id = 1

    def __init__(self, error: Exception) -> None:
        self._error = error

    def compress(self, chunks: Sequence[Buffer], *, level: int | None) -> bytes:
        raise self._error

    def decompress(self, buffer: Buffer, *, limit: int) -> bytes:
        raise self._error


@formats
@pytest.mark.parametrize("error", [ProtocolError("reported"), ZeroDivisionError("reported"), MemoryError("reported")])
def test_any_error_of_a_codec_makes_the_batch_corrupt(magic: int, error: Exception) -> None:
    with pytest.raises(CorruptBatchError, match="reported") as raised:
        list(parse_batches(gzipped(magic, b""), compressors={1: Breaking(error)}))

    causes, cause = [], raised.value.__cause__
    while cause is not None:
        causes.append(cause)
        cause = cause.__cause__
    assert error in causes
