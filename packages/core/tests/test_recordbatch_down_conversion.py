"""A batch for a new broker becomes one for an older broker, and says so when something would be lost."""

from __future__ import annotations

import cramjam
import lz4.frame
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.errors import CorruptBatchError, UnsupportedVersionError
from ottla.interfaces import Compressor, Header
from ottla.plugins.compressors.gzip import Gzip
from ottla.plugins.compressors.lz4 import Lz4
from ottla.plugins.compressors.snappy import Snappy
from ottla.plugins.compressors.zstd import Zstd
from ottla.recordbatch.down_conversion import down_converted, rewritten
from ottla.recordbatch.objects import ObjectColumns
from ottla.recordbatch.parse import RecordBatch, parse_batches
from ottla.recordbatch.sealed_records import SealedRecords, finish

COMPRESSORS: dict[int, Compressor] = {
    1: Gzip(-1),
    2: Snappy(cramjam),
    3: Lz4(lz4.frame, 9),
    4: Zstd(zstandard, 3),
}
STEPS = [(2, 1), (2, 0), (1, 0)]
ROWS: list[tuple[bytes | None, bytes | None, int]] = [(b"k", b"v" * 500, 30), (None, b"", -1), (b"", None, 10)]

parts = st.none() | st.binary(max_size=100)
rows = st.lists(st.tuples(parts, parts, st.integers(-1, 2**60)), min_size=1, max_size=30)


def sealed(
    rows: list[tuple[bytes | None, bytes | None, int]],
    *,
    magic: int = 2,
    codec_id: int = 0,
    headers: list[Header] | None = None,
) -> SealedRecords:
    """*headers* go with the last of the *rows*."""
    columns = ObjectColumns(1 << 20)
    for key, value, timestamp_ms in rows[:-1]:
        columns.append(key, value, (), timestamp_ms)
    key, value, timestamp_ms = rows[-1]
    columns.append(key, value, headers or (), timestamp_ms)
    return finish(columns.encode(magic), magic=magic, compressor=COMPRESSORS.get(codec_id))


def read(wanted: SealedRecords) -> list[RecordBatch]:
    return list(parse_batches(b"".join(wanted.wire_chunks()), compressors=COMPRESSORS))


def content(batches: list[RecordBatch]) -> list[tuple[int, int, bytes | None, bytes | None]]:
    return [(each.offset, each.timestamp_ms, each.key, each.value) for batch in batches for each in batch.records]


@pytest.mark.parametrize(("before", "after"), STEPS)
@pytest.mark.parametrize("codec_id", range(4))
@given(rows=rows)
@settings(deadline=None, max_examples=25)
def test_a_converted_section_equals_one_made_for_the_older_broker(
    before: int, after: int, codec_id: int, rows: list[tuple[bytes | None, bytes | None, int]]
) -> None:
    converted = down_converted(sealed(rows, magic=before, codec_id=codec_id), magic=after, compressors=COMPRESSORS)

    assert converted == sealed(rows, magic=after, codec_id=codec_id)
    assert {(batch.magic, batch.codec_id) for batch in read(converted)} == {(after, codec_id)}
    assert content(read(converted)) == [
        (index, timestamp_ms if after else -1, key, value) for index, (key, value, timestamp_ms) in enumerate(rows)
    ]


@pytest.mark.parametrize("codec_id", range(4))
def test_conversion_to_v0_directly_or_through_v1_is_the_same(codec_id: int) -> None:
    newest = sealed(ROWS, codec_id=codec_id)
    between = down_converted(newest, magic=1, compressors=COMPRESSORS)

    assert down_converted(between, magic=0, compressors=COMPRESSORS) == down_converted(
        newest, magic=0, compressors=COMPRESSORS
    )


@pytest.mark.parametrize(("before", "after"), [(1, 1), (0, 1), (0, 0)])
def test_a_section_that_is_old_enough_is_returned_unchanged(before: int, after: int) -> None:
    old = sealed(ROWS, magic=before, codec_id=1)

    assert down_converted(old, magic=after, compressors={}) is old


def test_a_batch_from_anywhere_is_rewritten_with_offsets_from_0() -> None:
    whole = bytearray(b"".join(sealed(ROWS, codec_id=1).wire_chunks(producer_id=7, epoch=0, sequence=5)))
    whole[:8] = (5000).to_bytes(8, "big")

    converted = rewritten(parse_batches(whole, compressors=COMPRESSORS), magic=1, compressors=COMPRESSORS)

    assert converted == sealed(ROWS, magic=1, codec_id=1)


@pytest.mark.parametrize("magic", [0, 1])
def test_headers_are_refused_with_the_record_that_has_them(magic: int) -> None:
    with pytest.raises(
        UnsupportedVersionError, match=rf"v{magic} cannot carry headers, and record 2 .*send it without"
    ):
        down_converted(sealed(ROWS, headers=[("name", b"x")]), magic=magic, compressors={})


@pytest.mark.parametrize("magic", [0, 1])
def test_zstd_is_refused_before_decompression(magic: int) -> None:
    with pytest.raises(UnsupportedVersionError, match=rf"v{magic} cannot carry zstd"):
        down_converted(sealed(ROWS, codec_id=4), magic=magic, compressors={})


@pytest.mark.parametrize("magic", [0, 1])
def test_transactional_batches_are_refused(magic: int) -> None:
    chunks = sealed(ROWS).wire_chunks(producer_id=7, epoch=0, sequence=5, transactional=True)

    with pytest.raises(UnsupportedVersionError, match=rf"v{magic} cannot carry transactions"):
        rewritten(parse_batches(b"".join(chunks), compressors={}), magic=magic, compressors={})


def test_a_transaction_marker_is_refused() -> None:
    commit = bytes.fromhex(
        "000000000000004d000000420000000302ab6840d60030000000000000018bcfe568000000018bcfe568000000000000000fa00007"
        "ffffffff000000012000000008000000010c00000000000b00"
    )

    with pytest.raises(UnsupportedVersionError, match="transactions"):
        rewritten(parse_batches(commit, compressors={}), magic=1, compressors={})


def test_only_batches_of_one_codec_make_one_batch() -> None:
    mixed = read(sealed(ROWS, magic=1)) + read(sealed(ROWS, magic=1, codec_id=1))

    for batches in (mixed, []):
        with pytest.raises(CorruptBatchError, match="cannot be converted"):
            rewritten(batches, magic=0, compressors=COMPRESSORS)


def test_a_large_batch_of_our_own_is_not_a_decompression_bomb() -> None:
    large = sealed([(None, bytes(900_000), 5)], codec_id=1)

    assert large.size < 2000
    assert content(read(down_converted(large, magic=0, compressors=COMPRESSORS))) == [(0, -1, None, bytes(900_000))]
