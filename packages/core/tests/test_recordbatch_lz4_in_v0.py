"""LZ4 in v0 is what brokers of that time insist on, and whatever its header's checksum is, it is read."""

from __future__ import annotations

from zlib import crc32

import lz4.frame
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import CorruptBatchError
from ottla.plugins.compressors.lz4 import Lz4
from ottla.recordbatch.lz4_in_v0 import with_right_checksum, with_v0_checksum
from ottla.recordbatch.message_sets import OVERHEADS, message_set, wrapper
from ottla.recordbatch.parse import parse_batches

CODEC = Lz4(lz4.frame, 9)


def frame(*, store_size: bool = False, block_size: int = lz4.frame.BLOCKSIZE_MAX64KB, linked: bool = False) -> bytes:
    packed: bytes = lz4.frame.compress(
        b"some text " * 50, store_size=store_size, block_size=block_size, block_linked=linked
    )
    return packed


def test_the_checksum_is_the_one_of_java_v0_frames() -> None:
    ours = with_v0_checksum(CODEC.compress([b"whatever"]))

    assert ours[:7].hex() == "04224d1860401a"
    assert bytes(with_right_checksum(ours))[:7].hex() == "04224d18604082"


@pytest.mark.parametrize("store_size", [False, True])
@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize("block_size", [4, 5, 6, 7])
def test_the_valid_checksum_is_restored_for_the_library(store_size: bool, linked: bool, block_size: int) -> None:
    right = frame(store_size=store_size, linked=linked, block_size=block_size)
    place = 14 if store_size else 6

    for wrong in range(256):
        broken = right[:place] + bytes((wrong,)) + right[place + 1 :]
        assert with_right_checksum(broken) == right


@pytest.mark.parametrize("store_size", [False, True])
def test_only_the_checksum_byte_changes(store_size: bool) -> None:
    right = frame(store_size=store_size)
    in_v0 = with_v0_checksum(right)

    assert [place for place in range(len(right)) if right[place] != in_v0[place]] == [14 if store_size else 6]
    with pytest.raises(CorruptBatchError):
        CODEC.decompress(in_v0, limit=1 << 20)


@given(st.binary(max_size=20) | st.binary(max_size=12).map(lambda rest: b"\x04\x22\x4d\x18" + rest))
def test_an_invalid_or_incomplete_frame_is_left_to_the_library(noise: bytes) -> None:
    mended = bytes(with_right_checksum(noise))

    assert len(mended) == len(noise)
    assert mended == noise or noise[:4] == b"\x04\x22\x4d\x18"


def read(whole: bytes) -> bytes | None:
    [batch] = parse_batches(whole, compressors={3: CODEC})
    return batch.records[0].value


def with_frame_checksum(whole: bytes, checksum: int, *, magic: int) -> bytes:
    changed = bytearray(whole)
    changed[OVERHEADS[magic] + 6] = checksum
    changed[12:16] = crc32(changed[16:]).to_bytes(4, "big")
    return bytes(changed)


def test_v0_is_read_with_any_checksum_and_v1_only_with_a_valid_one() -> None:
    v0, v1 = (
        wrapper(
            magic,
            CODEC.compress([message_set(magic, keys=None, values=[b"value"], timestamps=[5])]),
            codec_id=CODEC.codec_id,
            count=1,
            max_timestamp=5,
        )
        for magic in (0, 1)
    )

    assert (v0[OVERHEADS[0] + 6], v1[OVERHEADS[1] + 6]) == (0x1A, 0x82)
    for checksum in (0x1A, 0x82, 0x00):
        assert read(with_frame_checksum(v0, checksum, magic=0)) == b"value"
    assert read(v1) == b"value"
    with pytest.raises(CorruptBatchError, match="lz4"):
        read(with_frame_checksum(v1, 0x1A, magic=1))
