"""The header of a batch can be written again without its records."""

from __future__ import annotations

import cramjam
import lz4.frame
import pytest
import zstandard

from ottla.interfaces import Buffer, Compressor
from ottla.plugins.compressors.gzip import Gzip
from ottla.plugins.compressors.lz4 import Lz4
from ottla.plugins.compressors.snappy import Snappy
from ottla.plugins.compressors.zstd import Zstd
from ottla.recordbatch.header_v2 import HEADER_SIZE, batch_header
from ottla.recordbatch.objects import ObjectColumns
from ottla.recordbatch.parse import RecordBatch, parse_batches


@pytest.fixture(scope="module")
def compressors() -> dict[int, Compressor]:
    made: tuple[Compressor, ...] = (Gzip(-1), Snappy(cramjam), Lz4(lz4.frame, 9), Zstd(zstandard, 3))
    return {compressor.codec_id: compressor for compressor in made}


def header_of(chunks: list[Buffer], *, codec_id: int = 0, producer_id: int = -1, epoch: int = -1) -> bytes:
    return batch_header(
        chunks,
        codec_id=codec_id,
        first_timestamp=5,
        max_timestamp=5,
        count=2,
        producer_id=producer_id,
        epoch=epoch,
        sequence=2**31 - 1,
        transactional=True,
    )


def read(header: bytes, chunks: list[Buffer], compressors: dict[int, Compressor]) -> RecordBatch:
    [batch] = parse_batches(header + b"".join(chunks), compressors=compressors)
    return batch


@pytest.fixture
def section() -> bytes:
    columns = ObjectColumns(1000)
    columns.append(None, b"one", (), 5)
    columns.append(b"key", b"two", (), 5)
    return bytes(columns.encode(2).chunks[0])


def test_a_new_sequence_is_a_new_header_over_the_same_chunks(section: bytes) -> None:
    chunks: list[Buffer] = [section]

    before = read(header_of(chunks, producer_id=7, epoch=1), chunks, {})
    after = read(header_of(chunks, producer_id=2**63 - 1, epoch=32767), chunks, {})

    assert before.records == after.records
    assert (before.producer_id, before.epoch, before.sequence) == (7, 1, 2**31 - 1)
    assert (after.producer_id, after.epoch, after.sequence) == (2**63 - 1, 32767, 2**31 - 1)
    assert after.transactional
    assert not after.control


def test_the_header_does_not_depend_on_the_cut_into_chunks(section: bytes) -> None:
    pieces: list[Buffer] = [memoryview(section)[:3], bytearray(section[3:9]), section[9:]]

    assert header_of([section]) == header_of(pieces)
    assert len(header_of(pieces)) == HEADER_SIZE


def test_the_header_names_the_codec(section: bytes, compressors: dict[int, Compressor]) -> None:
    for codec_id, compressor in compressors.items():
        chunks: list[Buffer] = [compressor.compress([section], level=None)]

        batch = read(header_of(chunks, codec_id=codec_id), chunks, compressors)

        assert codec_id == batch.codec_id
        assert [record.value for record in batch.records] == [b"one", b"two"]
