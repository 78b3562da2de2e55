"""Our record batches are those of the Java client, and we read its batches as it does, in every format."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import cramjam
import lz4.frame
import pytest
import zstandard

from ottla.interfaces import Compressor, Encoded
from ottla.plugins.compressors.gzip import Gzip
from ottla.plugins.compressors.lz4 import Lz4
from ottla.plugins.compressors.snappy import Snappy
from ottla.plugins.compressors.zstd import Zstd
from ottla.recordbatch.header_v2 import HEADER_SIZE
from ottla.recordbatch.lz4_in_v0 import with_right_checksum
from ottla.recordbatch.message_sets import OVERHEADS
from ottla.recordbatch.objects import ObjectColumns
from ottla.recordbatch.parse import ControlMarker, Record, RecordBatch, parse_batches
from ottla.recordbatch.sealed_records import finish

Case = dict[str, Any]

VECTORS = Path(__file__).parent / "vectors"
CASES: list[Case] = json.loads((VECTORS / "batches.json").read_text())
COMPRESSORS: dict[int, Compressor] = {
    1: Gzip(-1),
    2: Snappy(cramjam),
    3: Lz4(lz4.frame, 9),
    4: Zstd(zstandard, 3),
}
CODEC_IDS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
ONLY_FROM_BROKERS = ("v2/control/", "v2/empty-after-compaction", "v2/none/offset-gaps")
V2_OUTSIDE_THE_CHECKSUM = slice(0, 8), slice(12, 16)
"""Base offset and partition leader epoch: a broker's, who writes them into the producer's batch."""


def from_a_producer(case: Case) -> bool:
    return "logAppendTime" not in case["name"] and not case["name"].startswith(ONLY_FROM_BROKERS)


def compressed(case: Case) -> bool:
    return str(case["batches"][0]["compression"]) != "none"


PLAIN = [case for case in CASES if from_a_producer(case) and not compressed(case)]
COMPRESSED = [case for case in CASES if from_a_producer(case) and compressed(case)]


def each(cases: list[Case]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", [pytest.param(case, id=case["name"]) for case in cases])


def content(described: Any) -> bytes | None:
    if isinstance(described, dict):
        return bytes.fromhex(described["repeat"]) * int(described["times"])
    return None if described is None else bytes.fromhex(described)


def record(described: dict[str, Any]) -> Record:
    return Record(
        offset=described["offset"],
        timestamp_ms=described["timestamp"],
        key=content(described["key"]),
        value=content(described["value"]),
        headers=tuple((name, content(value)) for name, value in described.get("headers", ())),
    )


def javas(case: Case) -> bytes:
    """Java's bytes; for the big cases, of which only a checksum is kept, ours that have it."""
    if "hex" in case:
        return bytes.fromhex(case["hex"])
    written = ours(case)
    assert hashlib.sha256(written).hexdigest() == case["sha256"]
    assert len(written) == case["size"]
    return written


def read(buffer: bytes) -> list[RecordBatch]:
    return list(parse_batches(buffer, compressors=COMPRESSORS))


def columns(case: Case) -> ObjectColumns:
    """The records that Java reads, put into columns of ours."""
    filled = ObjectColumns(1 << 20)
    for batch in case["batches"]:
        for each in map(record, batch["records"]):
            assert filled.append(each.key, each.value, each.headers, each.timestamp_ms) is not None
    return filled


def encoded(case: Case) -> Encoded:
    return columns(case).encode(case["batches"][0]["magic"])


def ours(case: Case) -> bytes:
    """The same records as our bytes, with Java's producer id, epoch and sequence."""
    described = case["batches"][0]
    codec_id = CODEC_IDS[described["compression"]]
    sealed = finish(encoded(case), magic=described["magic"], compressor=COMPRESSORS.get(codec_id))
    chunks = sealed.wire_chunks(
        producer_id=described["producerId"],
        epoch=described["producerEpoch"],
        sequence=described["baseSequence"],
        transactional=described["isTransactional"],
    )
    return b"".join(chunks)


def messages(plain: bytes) -> Iterator[tuple[int, bytes]]:
    """The offsets of messages of v0 and v1, which no checksum covers, and all that follows each."""
    while plain:
        offset, length = struct.unpack_from(">qi", plain)
        yield offset, plain[8 : 12 + length]
        plain = plain[12 + length :]


def test_every_case_is_written_or_comes_from_brokers_only() -> None:
    others = [case["name"] for case in CASES if case not in PLAIN and case not in COMPRESSED]

    assert len(CASES) == len(PLAIN) + len(COMPRESSED) + len(others) == 91
    assert all("logAppendTime" in name or name.startswith(ONLY_FROM_BROKERS) for name in others)
    assert {(batch["magic"], batch["compression"]) for case in CASES for batch in case["batches"]} == {
        (magic, codec) for magic in (0, 1, 2) for codec in CODEC_IDS if magic == 2 or codec != "zstd"
    }


@each(CASES)
def test_every_batch_is_read_as_by_java(case: Case) -> None:
    batches = read(javas(case))

    for batch, described in zip(batches, case["batches"], strict=True):
        assert tuple(map(record, described["records"])) == batch.records
        assert described == {**described, **facts(batch, described)}


def facts(batch: RecordBatch, described: dict[str, Any]) -> dict[str, Any]:
    """The fields of a batch that Java prints besides its records; fewer for v0 and v1."""
    create_time = "CreateTime" if batch.magic else "NoTimestampType"
    reported = {
        "magic": batch.magic,
        "compression": next(codec for codec, codec_id in CODEC_IDS.items() if codec_id == batch.codec_id),
        "baseOffset": batch.base_offset,
        "lastOffset": batch.last_offset,
        "sizeInBytes": batch.size,
        "timestampType": "LogAppendTime" if batch.log_append_time else create_time,
        "maxTimestamp": batch.max_timestamp,
        "baseTimestamp": batch.first_timestamp if batch.records else -1,
        "isControl": batch.control,
        "isTransactional": batch.transactional,
        "producerId": batch.producer_id,
        "producerEpoch": batch.epoch,
        "baseSequence": batch.sequence,
        "partitionLeaderEpoch": batch.leader_epoch,
        "count": len(batch.records),
    }
    return reported if batch.magic == 2 else {name: fact for name, fact in reported.items() if name in described}


@each([case for case in PLAIN if case["batches"][0]["magic"] == 2])
def test_every_uncompressed_batch_is_written_byte_for_byte_as_by_java(case: Case) -> None:
    expected, written = javas(case), bytearray(ours(case))

    assert written[:8] == bytes(8)
    assert written[12:16] == b"\xff" * 4
    for place in V2_OUTSIDE_THE_CHECKSUM:
        written[place] = expected[place]
    assert bytes(written) == expected


@each([case for case in PLAIN if case["batches"][0]["magic"] < 2])
def test_every_plain_message_is_written_byte_for_byte_as_by_java(case: Case) -> None:
    base = case["batches"][0]["baseOffset"]

    assert [(base + offset, rest) for offset, rest in messages(ours(case))] == list(messages(javas(case)))


@each(COMPRESSED)
def test_the_compressed_input_is_byte_for_byte_that_of_java(case: Case) -> None:
    described = case["batches"][0]
    magic, codec_id = described["magic"], CODEC_IDS[described["compression"]]
    packed = javas(case)[HEADER_SIZE if magic == 2 else OVERHEADS[magic] :]
    if (magic, codec_id) == (0, 3):
        packed = bytes(with_right_checksum(packed))

    plain = COMPRESSORS[codec_id].decompress(packed, limit=1 << 20)

    [chunk] = encoded(case).chunks
    if magic == 0:  # the offsets inside are the log's own
        assert [(described["baseOffset"] + offset, rest) for offset, rest in messages(bytes(chunk))] == list(
            messages(plain)
        )
    else:
        assert chunk == plain


@each(COMPRESSED)
def test_compressed_batches_are_read_the_same_as_those_of_java(case: Case) -> None:
    [mine], [theirs] = read(ours(case)), read(javas(case))

    base = theirs.base_offset
    assert [attrs.evolve(each, offset=each.offset - base) for each in theirs.records] == list(mine.records)
    assert mine == attrs.evolve(
        theirs, base_offset=0, last_offset=theirs.last_offset - base, leader_epoch=-1, size=mine.size,
        records=mine.records,
    )  # fmt: skip


def test_a_wrapper_starts_as_in_java_up_to_the_compressed_bytes() -> None:
    for case in COMPRESSED:
        magic, codec_id = case["batches"][0]["magic"], CODEC_IDS[case["batches"][0]["compression"]]
        if magic < 2:
            mine, theirs = ours(case), javas(case)
            assert mine[16 : OVERHEADS[magic] - 4] == theirs[16 : OVERHEADS[magic] - 4]
        if (magic, codec_id) == (0, 3):
            assert mine[OVERHEADS[0] :][:7] == theirs[OVERHEADS[0] :][:7] == bytes.fromhex("04224d1860401a")


def test_batches_of_mixed_formats_in_one_buffer_are_read_in_order() -> None:
    joined = b"".join(map(javas, CASES))

    batches = read(joined)

    expected = [(batch["magic"], batch["baseOffset"]) for case in CASES for batch in case["batches"]]
    assert [(batch.magic, batch.base_offset) for batch in batches] == expected


@pytest.mark.parametrize(("name", "marker"), [("COMMIT", ControlMarker.COMMIT), ("ABORT", ControlMarker.ABORT)])
def test_a_control_batch_says_how_the_transaction_ended(name: str, marker: ControlMarker) -> None:
    [case] = [case for case in CASES if case["name"] == f"v2/control/{name}"]

    [batch] = read(javas(case))

    assert batch.marker is marker


def test_only_a_control_batch_has_a_marker() -> None:
    markers = [batch.marker for case in CASES if "control" not in case["name"] for batch in read(javas(case))]

    assert set(markers) == {None}
