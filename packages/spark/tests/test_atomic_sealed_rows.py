"""Sealed rows: each goes to its owner, into the partition that Java chooses; none is lost or changed; order is kept."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs
import pyarrow as pa
import pytest

from ottla.interfaces import Header
from ottla.plugins.partitioners.murmur2_hash import murmur2
from ottla.recordbatch.parse import Record, parse_batches
from ottla.tables import sealed
from ottla_spark.atomic import sealed_rows
from ottla_spark.atomic.partition_assignment import PartitionAssignment
from ottla_spark.atomic.sealed_rows import SCHEMA, SEALED_BATCH_BYTES, SPARK_SCHEMA, RowSealing, sealed_batches
from ottla_spark.errors import WriteError
from ottla_spark.options.options import read_options
from ottla_spark.sink import refused_rows, row_buffer
from simulated_producer import BrokenCodec, choosing

TOPICS = {"a": 3, "b": 5}
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
ENCODERS = pytest.mark.parametrize("encoder", ["python", "native"])


def packing(
    columns: Sequence[str], options: Mapping[str, str] | None = None, *, owners: int, most: int = SEALED_BATCH_BYTES
) -> RowSealing:
    problems: list[str] = []
    read = read_options({"kafka.bootstrap.servers": "127.0.0.1:1", **(options or {})}, problems=problems)
    assert problems == []
    topics = TOPICS if read.topic is None else {read.topic: TOPICS[read.topic]}
    return RowSealing(
        settings=frozenset(read.producer.items()),
        assignment=PartitionAssignment.of(topics, tasks=owners),
        options=read,
        columns={name: at for at, name in enumerate(columns)},
        max_bytes=most,
    )


def seal_rows(packing: RowSealing, batches: Sequence[pa.RecordBatch], *, task: str = "t") -> list[pa.RecordBatch]:
    packed = list(packing.seal(iter(batches), task=task))
    assert all(batch.schema == SCHEMA for batch in packed)
    return packed


def records(
    packed: Sequence[pa.RecordBatch], assignment: PartitionAssignment
) -> Iterator[tuple[int, str, int, Record]]:
    """Owner, topic and partition of each record; the batches are read as brokers would read them."""
    for some in packed:
        owners = some.column("owner").to_pylist()
        for owner, batch in zip(owners, sealed_batches(some, assignment), strict=True):
            [found] = parse_batches(b"".join(batch.sealed.wire_chunks()), compressors={})
            assert len(found.records) == batch.sealed.count
            for record in found.records:
                yield owner, batch.topic, batch.partition, record


@ENCODERS
@pytest.mark.parametrize("owners", [1, 3, 8])
@pytest.mark.parametrize("most", [1, 400, SEALED_BATCH_BYTES])
def test_every_row_reaches_its_owner_once_and_complete(
    owners: int, most: int, encoder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_buffer, "TABLE_BYTES", 20 * most)
    rng = random.Random(7)
    rows = [
        {
            "topic": rng.choice("ab"),
            "key": rng.choice([b"%d" % number, b""]),
            "value": rng.choice([None, b"v" * rng.randrange(40)]),
            "headers": rng.choice([[], [{"key": "h", "value": None}, {"key": "i", "value": b"%d" % number}]]),
        }
        for number in range(300)
    ]
    types = [("topic", pa.string()), ("key", pa.binary()), ("value", pa.binary()), ("headers", HEADERS)]
    whole = pa.RecordBatch.from_pylist(rows, pa.schema(types))
    pieces = [whole.slice(start, 50) for start in range(0, 300, 50)]
    pieces.insert(2, whole.slice(0, 0))
    packs = packing(whole.schema.names, {"kafka.record.encoder": encoder}, owners=owners, most=most)
    found = list(records(seal_rows(packs, pieces), packs.assignment))

    def partition(row: Mapping[str, Any]) -> int:
        return (murmur2(row["key"]) & 0x7FFFFFFF) % TOPICS[row["topic"]]

    for owner, topic, number, _record in found:
        assert number in packs.assignment.owned_by(owner)[topic]
    for topic, count in TOPICS.items():
        for number in range(count):
            there = [_row(record) for _owner, *place, record in found if place == [topic, number]]
            wanted = [row for row in rows if (row["topic"], partition(row)) == (topic, number)]
            assert there == [{name: row[name] for name in ("key", "value", "headers")} for row in wanted]


def _row(record: Record) -> dict[str, Any]:
    headers: Sequence[Header] = record.headers
    return {
        "key": record.key,
        "value": record.value,
        "headers": [{"key": name, "value": content} for name, content in headers],
    }


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_sealed_rows_are_compressed_like_records_and_keep_the_limit(codec: str) -> None:
    rows = pa.RecordBatch.from_pydict({"value": [b"%090d" % number for number in range(2_000)]})
    packs = packing(["value"], {"topic": "a", "kafka.compression.type": codec}, owners=1, most=20_000)
    [some] = seal_rows(packs, [rows])
    sealed = [batch.sealed for batch in sealed_batches(some, packs.assignment)]
    ids = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}

    assert {each.codec_id for each in sealed} == {ids[codec]}
    assert sum(each.count for each in sealed) == 2_000
    assert len(sealed) > 8
    assert all(10_000 < each.plain_size <= 20_000 for each in sealed[:-1])
    assert all((each.size < each.plain_size) is (codec != "none") for each in sealed)


def test_timestamps_are_those_of_the_rows_or_the_current_time() -> None:
    times = [5_000, None, 7_000_000]
    rows = pa.RecordBatch.from_pydict(
        {"value": ["a", "b", "c"], "timestamp": pa.array(times, pa.timestamp("us", "UTC"))}
    )
    packs = packing(["value", "timestamp"], {"topic": "a"}, owners=1)
    before = time.time_ns() // 1_000_000
    packed = seal_rows(packs, [rows])
    after = time.time_ns() // 1_000_000
    found = [record.timestamp_ms for *_place, record in records(packed, packs.assignment)]
    [batch] = sealed_batches(packed[0], packs.assignment)

    assert (found[0], found[2]) == (5, 7_000)
    assert before <= found[1] <= after
    assert (batch.sealed.first_timestamp, batch.sealed.max_timestamp) == (5, found[1])


def test_sealed_rows_are_returned_while_more_rows_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_buffer, "TABLE_BYTES", 100)
    read = []

    def batches() -> Iterator[pa.RecordBatch]:
        for number in range(3):
            read.append(number)
            yield pa.RecordBatch.from_pydict({"value": [bytes(100)]})

    leaving = packing(["value"], {"topic": "a"}, owners=1).seal(batches(), task="t")
    next(leaving)

    assert read == [0]
    assert len(list(leaving)) == 2


def test_dead_letters_are_returned_while_more_rows_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refused_rows, "LETTERS_BYTES", 1)
    read = []

    def batches() -> Iterator[pa.RecordBatch]:
        for number in range(3):
            read.append(number)
            yield pa.RecordBatch.from_pydict({"value": [b"x"], "partition": pa.array([-1], pa.int32())})

    tolerant = {"topic": "a", "errors.tolerance": "all", "errors.deadletterqueue.topic.name": "b"}
    packs = packing(["value", "partition"], tolerant, owners=1)
    packs = attrs.evolve(packs, assignment=PartitionAssignment.of(TOPICS, tasks=1))
    leaving = packs.seal(batches(), task="t")
    next(leaving)

    assert read == [0]
    assert len(list(leaving)) == 2


def test_refused_rows_are_sealed_as_dead_letters() -> None:
    rows = pa.RecordBatch.from_pydict(
        {"key": [b"1", b"2", b"3"], "value": ["a", "b", "c"], "partition": pa.array([0, -1, 9], pa.int32())}
    )
    options = {"topic": "a", "errors.tolerance": "all", "errors.deadletterqueue.topic.name": "b"}
    packs = packing(rows.schema.names, options, owners=1)
    packs = attrs.evolve(packs, assignment=PartitionAssignment.of(TOPICS, tasks=1))
    found = list(records(seal_rows(packs, [rows]), packs.assignment))

    assert [record.key for _owner, topic, _number, record in found if topic == "a"] == [b"1"]
    letters = {
        record.key: dict(record.headers)["__ottla.errors.exception.message"]
        for _owner, topic, _number, record in found
        if topic == "b"
    }
    assert letters.keys() == {b"2", b"3"}
    assert b"is negative" in (letters[b"2"] or b"")
    assert b"it is for partition 9 of topic 'a'" in (letters[b"3"] or b"")


def test_a_codec_error_fails_the_task_and_loses_no_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealed, "choose_plugins", choosing({"compressor": BrokenCodec()}))
    packs = packing(["value"], {"topic": "a", "kafka.client.id": "with a broken codec"}, owners=1)
    with pytest.raises(WriteError, match=r"^row 1 of t: 2 rows .* were not queued: it could not be encoded: .*: no;"):
        seal_rows(packs, [pa.RecordBatch.from_pydict({"value": ["v", "w"]})])


def test_a_task_whose_batches_lack_some_of_its_rows_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    class Losing(sealed.TableSealer):
        def seal(self, *arguments: Any, **columns: Any) -> sealed.SealedTable:
            made = super().seal(*arguments, **columns)
            return attrs.evolve(made, batches=made.batches[1:])

    monkeypatch.setattr(sealed_rows, "TableSealer", Losing)
    packs = packing(["value"], {"topic": "a", "kafka.client.id": "with a sealer that loses"}, owners=1, most=100)
    with pytest.raises(WriteError, match=r"^t: 30 rows were read, but the sealed batches have \d+ records"):
        seal_rows(packs, [pa.RecordBatch.from_pydict({"value": [bytes(20)] * 30})])


def test_a_batch_keeps_no_memory_of_the_others_sealed_with_it() -> None:
    rows = pa.RecordBatch.from_pydict({"value": [bytes(100)] * 100})
    packs = packing(["value"], {"topic": "a"}, owners=1, most=1_000)
    [some] = seal_rows(packs, [rows])
    first, *_others = sealed_batches(some, packs.assignment)

    assert [type(chunk) for chunk in first.sealed.chunks] == [bytes]


def test_settings_are_not_in_the_repr() -> None:
    assert "hunter2" not in repr(packing(["value"], {"topic": "a", "kafka.sasl.password": "hunter2"}, owners=1))


def test_rows_without_a_key_are_distributed_and_explicit_partitions_kept() -> None:
    types = pa.schema([("value", pa.string()), ("partition", pa.int32())])
    rows = [{"value": f"{number}", "partition": number % 5 if number % 2 else None} for number in range(100)]
    packs = packing(types.names, {"topic": "b"}, owners=2)
    found = list(records(seal_rows(packs, [pa.RecordBatch.from_pylist(rows, types)]), packs.assignment))
    places = {record.value: number for _owner, _topic, number, record in found}

    assert len(found) == len(places) == 100
    assert all(places[b"%d" % number] == number % 5 for number in range(1, 100, 2))


def test_values_are_built_before_the_shuffle_and_only_they_are_moved() -> None:
    batch = pa.RecordBatch.from_pydict({"key": ["k"], "n": pa.array([7]), "m": pa.array([True])})
    packs = packing(["key"], {"topic": "a", "value.format": "json"}, owners=1)
    [(_owner, _topic, _partition, record)] = records(seal_rows(packs, [batch]), packs.assignment)

    assert (record.key, record.value) == (b"k", b'{"n":7,"m":true}')


def test_a_row_that_cannot_be_sent_is_reported_by_its_position() -> None:
    good, bad = (pa.RecordBatch.from_pydict({"value": ["v", "w"], "topic": ["a", last]}) for last in ("b", None))
    with pytest.raises(WriteError, match=r"row 4 of Spark partition 3 was refused: column 'topic' is null"):
        seal_rows(packing(["value", "topic"], owners=2), [good, bad], task="Spark partition 3")


def test_a_row_that_is_too_large_is_reported_with_its_size() -> None:
    batch = pa.RecordBatch.from_pydict({"value": [b"v", bytes(3_000)]})
    packs = packing(["value"], {"topic": "a", "kafka.max.request.size": "2000"}, owners=1)
    with pytest.raises(WriteError, match=r"row 2 of t was refused: .* \(column 'value': 3000 bytes\)"):
        seal_rows(packs, [batch])


def test_a_missing_partition_is_reported_with_its_row() -> None:
    batch = pa.RecordBatch.from_pydict({"value": ["v", "w"], "partition": pa.array([2, 3], pa.int32())})
    with pytest.raises(WriteError, match=r"row 2 of t was refused: it is for partition 3 of topic 'a', which has 3"):
        seal_rows(packing(["value", "partition"], {"topic": "a"}, owners=1), [batch])


def test_a_topic_that_was_not_declared_is_refused() -> None:
    batch = pa.RecordBatch.from_pydict({"value": ["v"], "topic": ["c"]})
    with pytest.raises(WriteError, match="'c', but topics= names only 'a', 'b'; name every topic there"):
        seal_rows(packing(["value", "topic"], owners=1), [batch])


def test_an_empty_frame_gives_no_sealed_rows() -> None:
    assert seal_rows(packing(["value"], {"topic": "a"}, owners=2), []) == []


def test_spark_and_pyarrow_get_the_same_schema() -> None:
    names = {"int": pa.int32(), "bigint": pa.int64(), "tinyint": pa.int8(), "binary": pa.binary()}
    reported = [column.split() for column in SPARK_SCHEMA.split(", ")]

    assert [(name, names[kind]) for name, kind in reported] == [(field.name, field.type) for field in SCHEMA]
