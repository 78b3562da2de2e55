"""Each Kafka partition has one owner, and each row gets to the owner of its partition, where Java would put it."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.partitioners.murmur2_hash import murmur2
from ottla_spark.atomic.ownership import Ownership, Placement
from ottla_spark.errors import WriteFailed

COUNTS = st.dictionaries(st.text("abc", min_size=1, max_size=3), st.integers(1, 20), min_size=1, max_size=4)
NO_SETTINGS = frozenset({("bootstrap.servers", "127.0.0.1:1")})


def placement(**counts: int) -> Placement:
    return Placement(settings=NO_SETTINGS, ownership=Ownership.of(counts, tasks=2))


@given(counts=COUNTS, tasks=st.integers(1, 12))
def test_every_partition_has_one_owner_and_no_owner_has_none(counts: dict[str, int], tasks: int) -> None:
    ownership = Ownership.of(counts, tasks=tasks)
    owned = [ownership.owned_by(owner) for owner in range(ownership.owners)]
    dealt = [(topic, partition) for each in owned for topic, numbers in each.items() for partition in numbers]

    assert sorted(dealt) == sorted((topic, partition) for topic, count in counts.items() for partition in range(count))
    assert all(owned)
    assert ownership.owners <= tasks


@given(counts=COUNTS, tasks=st.integers(1, 12))
def test_a_slot_and_its_owner_are_of_the_same_partition(counts: dict[str, int], tasks: int) -> None:
    ownership = Ownership.of(counts, tasks=tasks)
    for topic, count in counts.items():
        for partition in range(count):
            slot = ownership.first_slot(topic) + partition
            assert partition in ownership.owned_by(slot % ownership.owners)[topic]


def test_keys_go_where_java_puts_them() -> None:
    keys = [b"%d" % number for number in range(200)]
    slots = placement(t=7).slots(keys=pa.array(keys, pa.binary()), given=pa.nulls(200, pa.int32()), topics="t")

    assert slots.to_pylist() == [(murmur2(key) & 0x7FFFFFFF) % 7 for key in keys]
    assert slots.type == pa.int32()


def test_rows_without_a_key_go_anywhere_and_those_with_a_partition_go_there() -> None:
    given = pa.array([3, None, 0, None], pa.int32())
    slots = placement(t=7).slots(keys=pa.nulls(4, pa.binary()), given=given, topics="t").to_pylist()

    assert (slots[0], slots[2]) == (3, 0)
    assert all(0 <= slot < 7 for slot in slots)


def test_rows_of_several_topics_find_the_slots_of_their_own() -> None:
    found = placement(a=3, b=5)
    rng = random.Random(5)
    topics = [rng.choice("ab") for _ in range(100)]
    keys = [b"%d" % number for number in range(100)]
    slots = found.slots(keys=pa.array(keys), given=pa.nulls(100, pa.int32()), topics=pa.array(topics)).to_pylist()
    wanted = [
        {"a": 0, "b": 3}[topic] + (murmur2(key) & 0x7FFFFFFF) % {"a": 3, "b": 5}[topic]
        for topic, key in zip(topics, keys, strict=True)
    ]

    assert slots == wanted


@pytest.mark.parametrize(("partition", "says"), [(7, "has 7, and topic 't' has 7 partitions"), (-1, "has -1")])
def test_a_partition_that_does_not_exist_is_refused(partition: int, says: str) -> None:
    with pytest.raises(WriteFailed, match=says):
        placement(t=7).slots(keys=pa.nulls(1, pa.binary()), given=pa.array([partition], pa.int32()), topics="t")


def test_a_topic_that_was_not_named_before_is_refused_and_so_is_none() -> None:
    nothing = {"keys": pa.nulls(1, pa.binary()), "given": pa.nulls(1, pa.int32())}
    with pytest.raises(WriteFailed, match=r"'c', and 'a', 'b' were said to be written; name all of them in topics="):
        placement(a=1, b=1).slots(**nothing, topics=pa.array(["c"]))
    with pytest.raises(WriteFailed, match="column 'topic' is null"):
        placement(a=1, b=1).slots(**nothing, topics=pa.array([None], pa.string()))


def test_a_batch_of_no_rows_has_no_slots() -> None:
    nothing = {"keys": pa.nulls(0, pa.binary()), "given": pa.nulls(0, pa.int32())}

    assert placement(t=7).slots(**nothing, topics="t").to_pylist() == []
    assert placement(t=7).slots(**nothing, topics=pa.array([], pa.string())).to_pylist() == []
