"""Batches of each record format, codec and level are read by Kafka's own code, which finds them valid.

No broker stores these: we write the segment files, and DumpLogSegments prints what it makes of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TypeAlias
from zlib import crc32

import attrs
import cramjam
import lz4.frame
import pytest
import zstandard

from ottla.interfaces import Buffer, Compressor, Header
from ottla.plugins.compressors.gzip import Gzip
from ottla.plugins.compressors.lz4 import Lz4
from ottla.plugins.compressors.snappy import Snappy
from ottla.plugins.compressors.zstd import Zstd
from ottla.recordbatch.down_conversion import down_converted
from ottla.recordbatch.objects import ObjectColumns
from ottla.recordbatch.sealed_records import SealedRecords, finish
from ottla_testkit.java.jars import kafka_jars
from ottla_testkit.java.runtime import java_command
from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.kafka_cluster.tools import dump_segments

pytestmark = pytest.mark.kafka

Row: TypeAlias = tuple[bytes | None, bytes | None, Sequence[Header], int]

NOW = 1_700_000_000_000
CODECS: Mapping[str, Compressor | None] = {
    "none": None,
    **{f"gzip {level}": Gzip(level) for level in (-1, 1, 9)},
    "snappy": Snappy(cramjam),
    **{f"lz4 {level}": Lz4(lz4.frame, level) for level in (1, 9, 17)},
    **{f"zstd {level}": Zstd(zstandard, level) for level in (-131072, 3, 22)},
}
CASES = [(magic, codec) for magic in (0, 1, 2) for codec in CODECS if magic == 2 or not codec.startswith("zstd")]

WORDS = b"".join(b"%x" % crc32(b"%d" % number) for number in range(25_000))
"""200 kB that compress to about half: several blocks of snappy's 32 kB and of lz4's 64 kB."""

ROWS: list[Row] = [
    (b"key", b"value", (), NOW),
    (None, b"no-key", (), NOW + 5),
    (b"tombstone", None, (), NOW - 5_000),
    (None, None, (), NOW),
    (b"", b"", (), -1),
    (b"large", WORDS, (), NOW + 1),
    *[(b"%d" % (index % 7), b"some-words-%d-" % index * 5, (), NOW + index) for index in range(100)],
]
WITH_HEADERS: list[Row] = [(b"k", b"v", [("name", b"x"), ("none", None), ("name", b"")], NOW), *ROWS]

BATCH = re.compile(
    r"(?:offset: (?P<offset>\d+)|baseOffset: (?P<base>\d+) lastOffset: (?P<last>\d+) count: (?P<count>\d+)"
    r" baseSequence: (?P<sequence>-?\d+) lastSequence: -?\d+ producerId: (?P<id>-?\d+) producerEpoch: (?P<epoch>-?\d+)"
    r" .*isTransactional: (?P<transactional>\w+) .*) position: (?P<position>\d+) (?P<time>\w+): (?P<timestamp>-?\d+)"
    r" size: (?P<size>\d+) magic: (?P<magic>\d) compresscodec: (?P<codec>\w+) crc: \d+ isvalid: (?P<valid>\w+)"
)
RECORD = re.compile(
    r"\| offset: (?P<offset>\d+) \w+: (?P<timestamp>-?\d+) keySize: (?P<key_size>-?\d+)"
    r" valueSize: (?P<value_size>-?\d+)(?: isValid: (?P<valid>\w+) crc: \d+)?"
    r"(?: sequence: (?P<sequence>-?\d+) headerKeys: \[(?P<headers>[^]]*)\])?"
    r"(?: key: (?P<key>\S*))?(?: payload: (?P<value>\S*))?"
)


@attrs.frozen(kw_only=True)
class Dump:
    """Java's output for one segment: batches and records in its notation."""

    batches: list[re.Match[str]]
    records: list[re.Match[str]]

    def rows(self) -> list[tuple[int, bytes | None, bytes | None, int]]:
        return [
            (
                int(record["offset"]),
                None if record["key_size"] == "-1" else record["key"].encode(),
                None if record["value_size"] == "-1" else record["value"].encode(),
                int(record["timestamp"]),
            )
            for record in self.records
        ]


def dump(printed: str) -> Dump:
    lines = printed.splitlines()
    batches = [BATCH.match(line) for line in lines if line.startswith(("offset:", "baseOffset:"))]
    records = [RECORD.fullmatch(line) for line in lines if line.startswith("|")]
    assert None not in batches, lines
    assert None not in records, lines
    return Dump(batches=[each for each in batches if each], records=[each for each in records if each])


def sealed(magic: int, codec: str, rows: Sequence[Row] = ROWS) -> SealedRecords:
    columns = ObjectColumns(1 << 20)
    for key, value, headers, timestamp_ms in rows:
        assert columns.append(key, value, headers, timestamp_ms) is not None
    return finish(columns.encode(magic), magic=magic, compressor=CODECS[codec])


def stored(chunks: Sequence[Buffer], offset: int) -> list[Buffer]:
    """A batch of v2, or a wrapper of v1, as a broker stores it: another offset, and nothing else."""
    return [offset.to_bytes(8, "big"), b"".join(chunks)[8:]]


@pytest.fixture(scope="module")
def dumps(kafka: KafkaCluster, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Dump]:
    """All that the tests read, in one run of the tool, because each run starts a JVM."""
    compressors = {codec.codec_id: codec for codec in CODECS.values() if codec is not None}
    newest = {name: sealed(2, name) for name in ("none", "gzip 9", "snappy", "lz4 9")}
    segments: dict[str, Sequence[Buffer]] = {
        **{f"v{magic} {codec}": sealed(magic, codec).wire_chunks() for magic, codec in CASES},
        **{
            f"v2 as v{magic} {codec}": down_converted(each, magic=magic, compressors=compressors).wire_chunks()
            for codec, each in newest.items()
            for magic in (0, 1)
        },
        "headers": sealed(2, "none", WITH_HEADERS).wire_chunks(),
        "numbered": newest["snappy"].wire_chunks(
            producer_id=2**63 - 1, epoch=32767, sequence=2**31 - 1, transactional=True
        ),
        "v1 stored": stored(sealed(1, "gzip 9").wire_chunks(), 1000 + len(ROWS) - 1),
        "v2 stored": stored(newest["gzip 9"].wire_chunks(), 1000),
        "all formats": [chunk for magic in (0, 1, 2) for chunk in sealed(magic, "lz4 9").wire_chunks()],
    }
    folder = tmp_path_factory.mktemp("segments")
    files = [folder / str(number) / f"{0:020}.log" for number in range(len(segments))]
    for file, chunks in zip(files, segments.values(), strict=True):
        file.parent.mkdir()
        file.write_bytes(b"".join(chunks))
    java = [java_command(), "-cp", f"{kafka_jars(kafka.version)}/*"]
    printed = dump_segments(java, files, version=kafka.version)
    parts = re.split(r"^Dumping .*\n", printed, flags=re.MULTILINE)[1:]
    return {name: dump(part) for name, part in zip(segments, parts, strict=True)}


def expected(magic: int, rows: Sequence[Row] = ROWS, *, base: int = 0) -> list[tuple[object, ...]]:
    return [
        (base + index, key, value, timestamp_ms if magic else -1)
        for index, (key, value, _headers, timestamp_ms) in enumerate(rows)
    ]


@pytest.mark.parametrize(("magic", "codec"), CASES)
def test_java_reads_our_records_in_every_format_codec_and_level(dumps: dict[str, Dump], magic: int, codec: str) -> None:
    seen = dumps[f"v{magic} {codec}"]

    assert seen.rows() == expected(magic)
    assert {batch["valid"] for batch in seen.batches} == {"true"}
    assert {record["valid"] for record in seen.records} == ({"true"} if magic < 2 else {None})
    assert {(batch["magic"], batch["codec"]) for batch in seen.batches} == {(str(magic), codec.split()[0])}
    assert {batch["time"] for batch in seen.batches} == {"CreateTime" if magic else "NoTimestampType"}


@pytest.mark.parametrize(("magic", "codec"), CASES)
def test_java_finds_our_batches_at_their_offsets_with_their_sizes(
    dumps: dict[str, Dump], magic: int, codec: str
) -> None:
    seen, ours = dumps[f"v{magic} {codec}"], sealed(magic, codec)

    sizes = [int(batch["size"]) for batch in seen.batches]
    assert [int(batch["position"]) for batch in seen.batches] == [sum(sizes[:nth]) for nth in range(len(sizes))]
    assert sum(sizes) == ours.wire_size
    assert len(sizes) == (len(ROWS) if magic < 2 and codec == "none" else 1)
    if magic == 2:
        [batch] = seen.batches
        assert (batch["base"], batch["last"], batch["count"]) == ("0", str(len(ROWS) - 1), str(len(ROWS)))
    elif codec != "none":
        assert [batch["offset"] for batch in seen.batches] == [str(len(ROWS) - 1)]
    assert max(int(batch["timestamp"]) for batch in seen.batches) == (NOW + 99 if magic else -1)


@pytest.mark.parametrize("codec", ["none", "gzip 9", "snappy", "lz4 9"])
@pytest.mark.parametrize("magic", [0, 1])
def test_java_reads_batches_converted_to_an_older_format(dumps: dict[str, Dump], magic: int, codec: str) -> None:
    seen = dumps[f"v2 as v{magic} {codec}"]

    assert seen.rows() == expected(magic)
    assert {batch["valid"] for batch in seen.batches} == {"true"}
    assert {(batch["magic"], batch["codec"]) for batch in seen.batches} == {(str(magic), codec.split()[0])}


@pytest.mark.parametrize("magic", [1, 2])
def test_java_counts_records_from_the_base_offset_of_the_broker(dumps: dict[str, Dump], magic: int) -> None:
    seen = dumps[f"v{magic} stored"]

    assert seen.rows() == expected(magic, base=1000)
    assert [batch["valid"] for batch in seen.batches] == ["true"]


def test_java_sees_which_headers_a_record_has(dumps: dict[str, Dump]) -> None:
    seen = dumps["headers"]

    assert seen.rows() == expected(2, WITH_HEADERS)
    assert seen.records[0]["headers"] == "name,none,name"
    assert {record["headers"] for record in seen.records[1:]} == {""}


def test_java_sees_producer_id_epoch_and_the_wrapping_sequence(dumps: dict[str, Dump]) -> None:
    seen = dumps["numbered"]

    [batch] = seen.batches
    assert (batch["id"], batch["epoch"], batch["sequence"]) == (str(2**63 - 1), "32767", str(2**31 - 1))
    assert (batch["transactional"], batch["valid"]) == ("true", "true")
    assert [int(record["sequence"]) for record in seen.records[:3]] == [2**31 - 1, 0, 1]


def test_java_reads_all_formats_from_one_segment(dumps: dict[str, Dump]) -> None:
    seen = dumps["all formats"]

    assert [batch["magic"] for batch in seen.batches] == ["0", "1", "2"]
    assert {batch["valid"] for batch in seen.batches} == {"true"}
    assert seen.rows() == expected(0) + expected(1) + expected(2)
