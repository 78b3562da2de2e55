"""Our record batches are those of the Java client, and we read its batches as it does."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
import cramjam
import lz4.frame
import pytest
import zstandard

from ottla.compressors.gzip import Gzip
from ottla.compressors.lz4 import Lz4
from ottla.compressors.snappy import Snappy
from ottla.compressors.zstd import Zstd
from ottla.interfaces import Buffer, Compressor, Encoded
from ottla.recordbatch.objects import ObjectColumns
from ottla.recordbatch.parse import ControlMarker, Record, parse_batches
from ottla.recordbatch.v2 import HEADER_SIZE, batch_header

VECTORS = Path(__file__).parent / "vectors"
CASES: list[dict[str, Any]] = json.loads((VECTORS / "batches.json").read_text())
CODEC_IDS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
NOT_FROM_PRODUCERS = ("v2/control", "v2/empty-after-compaction", "v2/none/offset-gaps")
OUTSIDE_THE_CHECKSUM = slice(0, 8), slice(12, 16)
"""Base offset and partition leader epoch: a broker's, who writes them into the producer's batch."""


@pytest.fixture(scope="module")
def compressors() -> dict[int, Compressor]:
    made: tuple[Compressor, ...] = (Gzip(-1), Snappy(cramjam), Lz4(lz4.frame, 9), Zstd(zstandard, 3))
    return {compressor.codec_id: compressor for compressor in made}


def cases(*, written: bool = False, compressed: bool = False) -> list[Any]:
    chosen = CASES
    if written:
        chosen = [
            case
            for case in CASES
            if (case["batches"][0]["compression"] != "none") is compressed
            and case["batches"][0]["timestampType"] == "CreateTime"
            and not case["name"].startswith(NOT_FROM_PRODUCERS)
        ]
    return [pytest.param(bytes.fromhex(case["hex"]), case["batches"][0], id=case["name"]) for case in chosen]


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


@pytest.mark.parametrize(("encoded", "described"), cases())
def test_we_read_every_batch_as_java_does(
    encoded: bytes, described: dict[str, Any], compressors: dict[int, Compressor]
) -> None:
    [batch] = parse_batches(encoded, compressors=compressors)

    assert tuple(map(record, described["records"])) == batch.records
    assert described == {
        **described,
        "baseOffset": batch.base_offset,
        "lastOffset": batch.last_offset,
        "sizeInBytes": batch.size,
        "timestampType": "LogAppendTime" if batch.log_append_time else "CreateTime",
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


def rewritten(described: dict[str, Any]) -> Encoded:
    """The records that Java reads, put into columns of ours."""
    columns = ObjectColumns(1 << 20)
    for each in map(record, described["records"]):
        assert columns.append(each.key, each.value, each.headers, each.timestamp_ms) is not None
    return columns.encode(2)


def stamped(section: Encoded, chunks: Sequence[Buffer], described: dict[str, Any]) -> bytes:
    """The whole batch, with the stamp of Java's."""
    header = batch_header(
        chunks,
        codec_id=CODEC_IDS[described["compression"]],
        first_timestamp=section.first_timestamp,
        max_timestamp=section.max_timestamp,
        count=section.count,
        producer_id=described["producerId"],
        epoch=described["producerEpoch"],
        sequence=described["baseSequence"],
        transactional=described["isTransactional"],
    )
    return header + b"".join(chunks)


@pytest.mark.parametrize(("encoded", "described"), cases(written=True))
def test_we_write_every_uncompressed_batch_byte_for_byte_as_java_does(
    encoded: bytes, described: dict[str, Any]
) -> None:
    section = rewritten(described)

    written = bytearray(stamped(section, section.chunks, described))
    assert written[:8] == bytes(8)
    assert written[12:16] == b"\xff" * 4
    for place in OUTSIDE_THE_CHECKSUM:
        written[place] = encoded[place]
    assert encoded == bytes(written)


@pytest.mark.parametrize(("encoded", "described"), cases(written=True, compressed=True))
def test_what_we_compress_is_byte_for_byte_what_java_compresses(
    encoded: bytes, described: dict[str, Any], compressors: dict[int, Compressor]
) -> None:
    compressor = compressors[CODEC_IDS[described["compression"]]]

    javas = compressor.decompress(memoryview(encoded)[HEADER_SIZE:], limit=1 << 20)

    assert javas == b"".join(rewritten(described).chunks)


@pytest.mark.parametrize(("encoded", "described"), cases(written=True, compressed=True))
def test_our_compressed_batches_read_as_javas_do(
    encoded: bytes, described: dict[str, Any], compressors: dict[int, Compressor]
) -> None:
    section = rewritten(described)
    packed = compressors[CODEC_IDS[described["compression"]]].compress(section.chunks, level=None)

    [ours] = parse_batches(stamped(section, [packed], described), compressors=compressors)
    [javas] = parse_batches(encoded, compressors=compressors)

    assert [attrs.evolve(each, offset=each.offset - javas.base_offset) for each in javas.records] == list(ours.records)
    assert (
        attrs.evolve(
            javas,
            base_offset=0,
            last_offset=javas.last_offset - javas.base_offset,
            leader_epoch=-1,
            size=ours.size,
            records=ours.records,
        )
        == ours
    )


def test_the_batches_of_one_buffer_are_read_in_order(compressors: dict[int, Compressor]) -> None:
    joined = b"".join(bytes.fromhex(case["hex"]) for case in CASES)

    offsets = [batch.base_offset for batch in parse_batches(joined, compressors=compressors)]

    assert [case["batches"][0]["baseOffset"] for case in CASES] == offsets


@pytest.mark.parametrize(("name", "marker"), [("COMMIT", ControlMarker.COMMIT), ("ABORT", ControlMarker.ABORT)])
def test_a_control_batch_says_how_the_transaction_ended(name: str, marker: ControlMarker) -> None:
    [case] = [case for case in CASES if case["name"] == f"v2/control/{name}"]

    [batch] = parse_batches(bytes.fromhex(case["hex"]), compressors={})

    assert batch.marker is marker


def test_only_a_control_batch_has_a_marker() -> None:
    [batch] = parse_batches(bytes.fromhex(CASES[0]["hex"]), compressors={1: Gzip(-1)})

    assert batch.marker is None
