"""Rows in parcels: each at the owner of its partition, none lost or changed, in order within a partition."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest

from ottla.partitioners.murmur2_hash import murmur2
from ottla_spark.atomic import parcels
from ottla_spark.atomic.ownership import Ownership, Placement
from ottla_spark.atomic.parcels import SLOT, Packing, unpacked
from ottla_spark.errors import WriteFailed
from ottla_spark.options import read_options

TOPICS = {"a": 3, "b": 5}
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def packing(columns: Sequence[str], *, owners: int, **options: str) -> Packing:
    problems: list[str] = []
    read = read_options({"kafka.bootstrap.servers": "127.0.0.1:1"} | options, problems=problems)
    assert problems == []
    topics = TOPICS if read.topic is None else {read.topic: TOPICS[read.topic]}
    ownership = Ownership.of(topics, tasks=owners)
    placement = Placement(settings=frozenset({("bootstrap.servers", "127.0.0.1:1")}), ownership=ownership)
    return Packing.of(placement, options=read, columns={name: at for at, name in enumerate(columns)})


def delivered(packed: Iterator[pa.RecordBatch]) -> Mapping[int, list[dict[str, Any]]]:
    """The rows of each owner."""
    found: dict[int, list[dict[str, Any]]] = {}
    for batch in packed:
        assert batch.schema.names == ["owner", "rows"]
        for row in range(batch.num_rows):
            rows = [row for part in unpacked(batch.slice(row, 1)) for row in part.to_pylist()]
            found.setdefault(batch.column(0)[row].as_py(), []).extend(rows)
    return found


@pytest.mark.parametrize("owners", [1, 3, 8])
@pytest.mark.parametrize("most", [1, 2_000, 1 << 23])
def test_every_row_is_at_its_owner_once_and_whole(owners: int, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parcels, "PACKED_BYTES", most)
    rng = random.Random(7)
    rows = [
        {
            "topic": rng.choice("ab"),
            "key": rng.choice([b"%d" % number, b""]),
            "value": rng.choice([None, b"v" * rng.randrange(40)]),
            "headers": rng.choice([None, [{"key": "h", "value": None}, {"key": "i", "value": b"%d" % number}]]),
        }
        for number in range(300)
    ]
    types = [("topic", pa.string()), ("key", pa.binary()), ("value", pa.binary()), ("headers", HEADERS)]
    whole = pa.RecordBatch.from_pylist(rows, pa.schema(types))
    pieces = [whole.slice(start, 50) for start in range(0, 300, 50)]
    pieces.insert(2, whole.slice(0, 0))
    found = delivered(packing(whole.schema.names, owners=owners).pack(iter(pieces), task="t"))

    def slot(row: Mapping[str, Any]) -> int:
        first = {"a": 0, "b": 3}[row["topic"]]
        return first + (murmur2(row["key"]) & 0x7FFFFFFF) % TOPICS[row["topic"]]

    for owner, theirs in found.items():
        assert {row[SLOT] % owners for row in theirs} == {owner}
    for place in range(8):
        of_it = [row for theirs in found.values() for row in theirs if row[SLOT] == place]
        assert of_it == [{**row, SLOT: place} for row in rows if slot(row) == place]


def test_rows_without_a_key_are_somewhere_and_those_that_name_a_partition_there() -> None:
    types = pa.schema([("value", pa.string()), ("partition", pa.int32())])
    rows = [{"value": f"{number}", "partition": number % 5 if number % 2 else None} for number in range(100)]
    batch = pa.RecordBatch.from_pylist(rows, types)
    found = delivered(packing(types.names, owners=2, topic="b").pack(iter([batch]), task="t"))
    places = {row["value"]: row[SLOT] for theirs in found.values() for row in theirs}

    assert Counter(places.keys()) == Counter(row["value"] for row in rows)
    assert all(places[row["value"]] == row["partition"] for row in rows if row["partition"] is not None)
    assert {place for place in places.values() if not 0 <= place < 5} == set()


def test_values_are_made_before_the_shuffle_and_only_they_are_moved() -> None:
    batch = pa.RecordBatch.from_pydict({"key": ["k"], "n": pa.array([7]), "m": pa.array([True])})
    found = delivered(packing(["key"], owners=1, topic="a", **{"value.format": "json"}).pack(iter([batch]), task="t"))

    assert [row["value"] for row in found[0]] == ['{"n":7,"m":true}']
    assert set(found[0][0]) == {"key", "value", SLOT}


def test_a_row_that_cannot_be_sent_is_named_by_its_place_in_the_frame() -> None:
    good, bad = (pa.RecordBatch.from_pydict({"value": ["v", "w"], "topic": ["a", last]}) for last in ("b", None))
    with pytest.raises(WriteFailed, match=r"row 4 of Spark partition 3 was refused: column 'topic' is null"):
        delivered(packing(["value", "topic"], owners=2).pack(iter([good, bad]), task="Spark partition 3"))


def test_no_rows_are_no_parcels() -> None:
    assert delivered(packing(["value"], owners=2, topic="a").pack(iter([]), task="t")) == {}
