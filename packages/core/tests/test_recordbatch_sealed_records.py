"""Sealed batches are sent as they are: compressed, wrapped if the format requires it, and numbered late."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import cramjam
import lz4.frame
import pytest
import zstandard

from ottla.errors import UnsupportedVersionError
from ottla.interfaces import Buffer, Compressor, Encoded
from ottla.plugins.compressors.gzip import Gzip
from ottla.plugins.compressors.lz4 import Lz4
from ottla.plugins.compressors.snappy import Snappy
from ottla.plugins.compressors.zstd import Zstd
from ottla.recordbatch.header_v2 import HEADER_SIZE
from ottla.recordbatch.message_sets import OVERHEADS
from ottla.recordbatch.objects import ObjectColumns
from ottla.recordbatch.parse import parse_batches
from ottla.recordbatch.sealed_records import finish

COMPRESSORS: dict[int, Compressor] = {
    1: Gzip(-1),
    2: Snappy(cramjam),
    3: Lz4(lz4.frame, 9),
    4: Zstd(zstandard, 3),
}
FORMATS_AND_CODECS = [(magic, codec_id) for magic in (0, 1, 2) for codec_id in range(5 if magic == 2 else 4)]


def encoded(magic: int) -> Encoded:
    columns = ObjectColumns(1 << 20)
    for index in range(100):
        columns.append(b"key", b"value %d " % index * 10, (), 1000 - index)
    return columns.encode(magic)


@pytest.mark.parametrize(("magic", "codec_id"), FORMATS_AND_CODECS)
def test_sizes_are_those_of_the_encoded_bytes(magic: int, codec_id: int) -> None:
    plain = b"".join(encoded(magic).chunks)
    sealed = finish(encoded(magic), magic=magic, compressor=COMPRESSORS.get(codec_id))

    assert (sealed.magic, sealed.codec_id, sealed.count) == (magic, codec_id, 100)
    assert sealed.size == sum(map(len, sealed.chunks))
    assert sealed.wire_size == sum(map(len, sealed.wire_chunks()))
    assert sealed.plain_size == len(plain)


@pytest.mark.parametrize(("magic", "codec_id"), FORMATS_AND_CODECS)
def test_the_ratio_is_that_of_the_compressed_records(magic: int, codec_id: int) -> None:
    plain = b"".join(encoded(magic).chunks)
    sealed = finish(encoded(magic), magic=magic, compressor=COMPRESSORS.get(codec_id))

    packed = COMPRESSORS[codec_id].compress([plain], level=None) if codec_id else plain
    assert sealed.ratio == len(packed) / len(plain)
    assert sealed.wire_size - len(packed) == {0: OVERHEADS[0], 1: OVERHEADS[1], 2: HEADER_SIZE}[magic] * (
        magic == 2 or codec_id > 0
    )


@pytest.mark.parametrize("codec_id", range(5))
def test_in_v2_every_sequence_gets_a_new_header_over_the_same_chunks(codec_id: int) -> None:
    sealed = finish(encoded(2), magic=2, compressor=COMPRESSORS.get(codec_id))

    once = sealed.wire_chunks()
    again = sealed.wire_chunks(producer_id=7, epoch=3, sequence=2**31 - 1, transactional=True)

    assert all(first is second for first, second in zip(once[1:], again[1:], strict=True))
    [before], [after] = (parse_batches(b"".join(chunks), compressors=COMPRESSORS) for chunks in (once, again))
    assert before.records == after.records
    assert (before.producer_id, before.epoch, before.sequence, before.transactional) == (-1, -1, -1, False)
    assert (after.producer_id, after.epoch, after.sequence, after.transactional) == (7, 3, 2**31 - 1, True)


@pytest.mark.parametrize("magic", [0, 1])
def test_before_v2_a_sequence_is_refused_with_a_remedy(magic: int) -> None:
    sealed = finish(encoded(magic), magic=magic, compressor=COMPRESSORS[1])

    assert sealed.wire_chunks() == sealed.chunks
    with pytest.raises(
        UnsupportedVersionError, match=rf"v{magic} cannot carry transactions; leave transactional\.id unset"
    ):
        sealed.wire_chunks(producer_id=7, epoch=0, sequence=0, transactional=True)
    with pytest.raises(
        UnsupportedVersionError, match=rf"v{magic} cannot carry producer ids .*enable\.idempotence=false"
    ):
        sealed.wire_chunks(producer_id=0, epoch=0, sequence=0)


@pytest.mark.parametrize("magic", [0, 1])
def test_before_v2_zstd_is_refused_with_a_remedy(magic: int) -> None:
    with pytest.raises(UnsupportedVersionError, match=rf"v{magic} cannot carry zstd; choose another compression\.type"):
        finish(encoded(magic), magic=magic, compressor=COMPRESSORS[4])


@pytest.mark.parametrize(
    "kind", [bytearray, memoryview, lambda packed: memoryview(packed + bytes(-len(packed) % 4)).cast("i")]
)
def test_a_codec_may_return_any_bytes_like_object(kind: Callable[[bytes], Any]) -> None:
    class Other(Gzip):
        def compress(self, chunks: Sequence[Buffer], *, level: int | None = None) -> bytes:
            return cast(bytes, kind(super().compress(chunks, level=level)))

    sealed = finish(encoded(2), magic=2, compressor=Other(-1))

    assert sealed.size == sum(map(len, sealed.chunks)) == len(b"".join(sealed.chunks))
    [batch] = parse_batches(b"".join(sealed.wire_chunks()), compressors=COMPRESSORS)
    assert len(batch.records) == 100
