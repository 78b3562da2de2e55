"""Whatever the format, the codec and the producer's fields, the records that go into a batch come out of it."""

from __future__ import annotations

import cramjam
import lz4.frame
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.interfaces import Compressor, Encoded, Header
from ottla.plugins.compressors.gzip import Gzip
from ottla.plugins.compressors.lz4 import Lz4
from ottla.plugins.compressors.snappy import Snappy
from ottla.plugins.compressors.zstd import Zstd
from ottla.recordbatch.header_v2 import batch_header
from ottla.recordbatch.objects import ObjectColumns
from ottla.recordbatch.parse import Record, RecordBatch, parse_batches
from ottla.recordbatch.record_limits import TIMESTAMP_MAX
from ottla.recordbatch.sealed_records import finish

pytestmark = pytest.mark.unmeasured

CODECS: tuple[Compressor, ...] = (Gzip(-1), Snappy(cramjam), Lz4(lz4.frame, 9), Zstd(zstandard, 3))
COMPRESSORS = {compressor.codec_id: compressor for compressor in CODECS}

Row = tuple[bytes | None, bytes | None, list[Header], int]

Message = tuple[bytes | None, bytes | None, int]

contents = st.none() | st.binary(max_size=50) | st.builds(bytes, st.integers(0, 100_000))
headers = st.lists(st.tuples(st.text(max_size=10), st.none() | st.binary(max_size=20)), max_size=4)
rows = st.lists(st.tuples(contents, contents, headers, st.integers(-1, TIMESTAMP_MAX - 1)), min_size=1, max_size=20)
messages = st.lists(st.tuples(contents, contents, st.integers(-1, TIMESTAMP_MAX - 1)), min_size=1, max_size=20)
producers = st.tuples(st.integers(-1, 2**63 - 1), st.integers(-1, 2**15 - 1), st.integers(-1, 2**31 - 1), st.booleans())


def encoded(rows: list[Row]) -> Encoded:
    columns = ObjectColumns(1 << 24)
    for row in rows:
        assert columns.append(*row) is not None
    return columns.encode(2)


def expected(rows: list[Row]) -> tuple[Record, ...]:
    return tuple(
        Record(offset=index, timestamp_ms=timestamp_ms, key=key, value=value, headers=tuple(headers))
        for index, (key, value, headers, timestamp_ms) in enumerate(rows)
    )


def header(section: Encoded, packed: bytes, codec_id: int, fields: tuple[int, int, int, bool]) -> bytes:
    producer_id, epoch, sequence, transactional = fields
    return batch_header(
        [packed],
        codec_id=codec_id,
        first_timestamp=section.first_timestamp,
        max_timestamp=section.max_timestamp,
        count=section.count,
        producer_id=producer_id,
        epoch=epoch,
        sequence=sequence,
        transactional=transactional,
    )


def read(batch: bytes) -> RecordBatch:
    [parsed] = parse_batches(batch, compressors=COMPRESSORS)
    return parsed


@pytest.mark.parametrize("codec_id", range(5))
@given(rows=rows, fields=producers)
@settings(deadline=None, max_examples=40)
def test_records_and_sequences_survive_every_codec(
    codec_id: int, rows: list[Row], fields: tuple[int, int, int, bool]
) -> None:
    section = encoded(rows)
    packed = b"".join(section.chunks)
    if codec_id:
        packed = COMPRESSORS[codec_id].compress(section.chunks, level=None)

    batch = read(header(section, packed, codec_id, fields) + packed)

    assert expected(rows) == batch.records
    assert fields == (batch.producer_id, batch.epoch, batch.sequence, batch.transactional)
    assert (codec_id, max(row[3] for row in rows)) == (batch.codec_id, batch.max_timestamp)
    assert (0, len(rows) - 1) == (batch.base_offset, batch.last_offset)


@pytest.mark.parametrize("codec_id", range(1, 5))
@given(rows=rows, first=producers, second=producers)
@settings(deadline=None, max_examples=20)
def test_a_retry_with_another_sequence_sends_the_same_compressed_bytes(
    codec_id: int, rows: list[Row], first: tuple[int, int, int, bool], second: tuple[int, int, int, bool]
) -> None:
    section = encoded(rows)
    packed = COMPRESSORS[codec_id].compress(section.chunks, level=None)

    once, again = (read(header(section, packed, codec_id, fields) + packed) for fields in (first, second))

    assert once.records == again.records == expected(rows)
    assert second == (again.producer_id, again.epoch, again.sequence, again.transactional)


@pytest.mark.parametrize("codec_id", range(4))
@pytest.mark.parametrize("magic", [0, 1])
@given(rows=messages)
@settings(deadline=None, max_examples=40)
def test_messages_of_v0_and_v1_survive_every_supported_codec(magic: int, codec_id: int, rows: list[Message]) -> None:
    columns = ObjectColumns(1 << 24)
    for key, value, timestamp_ms in rows:
        assert columns.append(key, value, (), timestamp_ms) is not None
    sealed = finish(columns.encode(magic), magic=magic, compressor=COMPRESSORS.get(codec_id))

    batches = list(parse_batches(b"".join(sealed.wire_chunks()), compressors=COMPRESSORS))

    times = [row[2] if magic else -1 for row in rows]
    assert [record for batch in batches for record in batch.records] == [
        Record(offset=index, timestamp_ms=times[index], key=key, value=value)
        for index, (key, value, _) in enumerate(rows)
    ]
    assert {(batch.magic, batch.codec_id) for batch in batches} == {(magic, codec_id)}
    assert max(batch.max_timestamp for batch in batches) == sealed.max_timestamp == max(times)
    assert len(batches) == (1 if codec_id else len(rows))
