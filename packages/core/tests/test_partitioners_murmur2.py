"""Keys go where Java's producer puts them."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.interfaces import TopicView
from ottla.plugins.partitioners import murmur2 as plugin
from ottla.plugins.partitioners import sticky_keys
from ottla.plugins.partitioners.murmur2 import Murmur2Partitioner, partition_for_key, positive
from ottla.plugins.partitioners.murmur2_arrow import murmur2_partitions
from ottla.plugins.partitioners.murmur2_column import murmur2_column
from ottla.plugins.partitioners.murmur2_hash import murmur2
from ottla.plugins.partitioners.sticky import StickyChoice
from ottla_testkit.manual_clock import ManualClock

CASES: list[dict[str, Any]] = json.loads((Path(__file__).parent / "vectors" / "murmur2.json").read_text())


def view(partitions: int = 10) -> TopicView:
    return TopicView(partitions=partitions, available=range(partitions), queued_bytes=[0] * partitions)


def partitioner(*, ignore_keys: bool = False) -> Murmur2Partitioner:
    choice = StickyChoice(batch_size=1000, adaptive=True, random=Random(1))
    return Murmur2Partitioner(choice, ignore_keys=ignore_keys)


@pytest.mark.rule("partitioner.keyed")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["key"][:32] or "empty")
def test_a_key_has_the_hash_and_partition_of_java(case: dict[str, Any]) -> None:
    key = bytes.fromhex(case["key"])

    assert case["murmur2"] & 0xFFFFFFFF == murmur2(key)
    assert case["positive"] == positive(murmur2(key))
    assert case["partition"] == {count: partition_for_key(key, int(count)) for count in case["partition"]}


def javas(data: bytes) -> int:
    """Kafka's `Utils.murmur2`, line by line."""
    mask, magic = 0xFFFFFFFF, 0x5BD1E995
    hashed = 0x9747B28C ^ len(data)
    for start in range(0, len(data) & ~3, 4):
        word = int.from_bytes(data[start : start + 4], "little") * magic & mask
        word ^= word >> 24
        word = word * magic & mask
        hashed = hashed * magic & mask
        hashed ^= word
    tail = data[len(data) & ~3 :]
    if tail:
        hashed ^= int.from_bytes(tail, "little")
        hashed = hashed * magic & mask
    hashed ^= hashed >> 13
    hashed = hashed * magic & mask
    return hashed ^ hashed >> 15


@given(st.binary(max_size=300))
def test_the_fast_form_equals_the_plain_one(key: bytes) -> None:
    assert javas(key) == murmur2(key)


@pytest.mark.rule("partitioner.keyed")
def test_a_key_keeps_its_partition_whatever_is_available() -> None:
    chosen = partitioner()
    partly_led = TopicView(partitions=10, available=(1,), queued_bytes=[0] * 10, slow=frozenset({1}))

    for key in (b"", b"a", b"some key", b"k" * 65, b"k" * 300):
        expected = partition_for_key(key, 10)
        assert [expected] * 4 == [chosen.partition("t", key, each) for each in (view(), partly_led, view(), partly_led)]


@given(st.lists(st.binary(max_size=40), min_size=1, max_size=200))
def test_many_keys_have_the_same_hashes_as_single_keys(keys: list[bytes]) -> None:
    assert list(murmur2_column(keys)) == [murmur2(key) for key in keys]


@given(st.integers(0, 70), st.integers(1, 300), st.randoms(use_true_random=False))
def test_many_keys_of_one_size_have_the_same_hashes_as_single_keys(size: int, count: int, random: Random) -> None:
    keys = [random.randbytes(size) for _ in range(count)]

    assert list(murmur2_column(keys)) == [murmur2(key) for key in keys]


@pytest.mark.parametrize("sizes", [(16,), (16, 3)])
@pytest.mark.parametrize("count", [2_047, 2_048, 2_049, 4_097])
def test_any_number_of_keys_have_the_same_hashes_as_single_keys(count: int, sizes: tuple[int, ...]) -> None:
    keys = [(b"%016d" % number)[-sizes[number % len(sizes)] :] for number in range(count)]

    assert list(murmur2_column(keys)) == [murmur2(key) for key in keys]


short_or_long = st.binary(max_size=40) | st.builds(lambda size: b"k" * size, st.integers(0, 3_000))


@given(
    keys=st.lists(short_or_long, min_size=1, max_size=200)
    | st.integers(0, 70).flatmap(lambda size: st.lists(st.binary(min_size=size, max_size=size), min_size=1)),
    copies=st.sampled_from((1, 50)),
    partitions=st.integers(1, 2**31 - 1),
    kind=st.sampled_from((pa.binary(), pa.large_binary())),
    start=st.integers(0, 3),
)
def test_an_arrow_column_of_keys_gets_the_partitions_of_single_keys(
    keys: list[bytes], copies: int, partitions: int, kind: pa.DataType, start: int
) -> None:
    column = pa.array(keys * copies, kind).slice(start)

    chosen = memoryview(murmur2_partitions(column, partitions)).cast("i").tolist()

    assert chosen == [partition_for_key(key, partitions) for key in column.to_pylist()]


def test_zero_partitions_for_a_column_are_refused() -> None:
    with pytest.raises(ValueError, match="the number of partitions must be positive, not 0"):
        murmur2_partitions(pa.array([b"k"]), 0)


def test_a_column_of_java_keys_has_java_hashes() -> None:
    keys = [bytes.fromhex(case["key"]) for case in CASES] * 20

    assert list(murmur2_column(keys)) == [case["murmur2"] & 0xFFFFFFFF for case in CASES] * 20


def test_a_column_gets_the_same_partitions_as_its_keys_one_by_one() -> None:
    chosen = partitioner()
    keys = [b"key %d" % number for number in range(5_000)]

    for partitions in (10, 7):
        expected = [chosen.partition("t", key, view(partitions)) for key in keys]
        assert list(chosen.partition_column("t", keys, view(partitions))) == expected


@pytest.mark.rule("partitioner.ignore-keys")
def test_keys_can_be_ignored() -> None:
    chosen = partitioner(ignore_keys=True)
    same = view()

    assert len({chosen.partition("t", b"%d" % number, same) for number in range(50)}) == 1


def test_the_plugin_is_made_from_its_keys() -> None:
    keys = {key.name: key for key in plugin.ottla_config_keys()}
    config = {name: key.default for name, key in keys.items()}

    made = plugin.ottla_partitioner({**config, "partitioner.ignore.keys": True})

    assert config == {
        "batch.size": 16384,
        "linger.ms": 5.0,
        "batch.growth.enable": True,
        "partitioner.ignore.keys": False,
        "partitioner.adaptive.partitioning.enable": True,
        "partitioner.rack.aware": False,
        "client.rack": "",
    }
    assert isinstance(made, Murmur2Partitioner)
    same = view()
    assert made.partition("t", b"a", same) == made.partition("t", b"b", same)


@pytest.mark.parametrize(("growth", "batches"), [(True, 64), (False, 1)])
def test_a_sticky_partition_lasts_several_batches_only_with_growth(
    growth: bool, batches: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sticky_keys, "StickyChoice", partial(StickyChoice, clock=ManualClock()))
    config = {key.name: key.default for key in plugin.ottla_config_keys()}
    made = plugin.ottla_partitioner({**config, "linger.ms": 1e9, "batch.growth.enable": growth})
    assert isinstance(made, Murmur2Partitioner)
    same, stays = view(1000), 0
    first = made.partition("t", None, same)
    while made.partition("t", None, same) == first:
        made.appended("t", first, config["batch.size"])
        stays += 1

    assert stays == batches


@pytest.mark.parametrize(("raw", "value"), [("true", True), (" False", False), (True, True), ("TRUE", True)])
def test_switches_may_be_strings(raw: object, value: bool) -> None:
    assert sticky_keys.IGNORE_KEYS.type(raw) is value


@pytest.mark.parametrize(
    ("key", "raw"),
    [
        (sticky_keys.ADAPTIVE, "yes"),
        (sticky_keys.BATCH_SIZE, -1),
        (sticky_keys.BATCH_SIZE, "x"),
        (sticky_keys.LINGER, -1),
    ],
)
def test_wrong_values_are_refused(key: Any, raw: object) -> None:
    with pytest.raises(ValueError, match=r"is not one of|must be|invalid literal"):
        key.type(raw)


@pytest.mark.rule("partitioner.rack")
def test_space_around_the_rack_of_the_client_does_not_count() -> None:
    [rack] = [key for key in plugin.ottla_config_keys() if key.name == "client.rack"]

    assert rack.type(" zone-a\n") == "zone-a"


@pytest.mark.rule("partitioner.rack")
@pytest.mark.parametrize(("aware", "chosen"), [(True, {1, 3}), (False, {0, 1, 2, 3})])
def test_the_plugin_prefers_the_rack_of_the_client_only_if_asked(aware: bool, chosen: set[int]) -> None:
    config = {key.name: key.default for key in plugin.ottla_config_keys()}
    made = plugin.ottla_partitioner(
        {**config, "partitioner.rack.aware": aware, "client.rack": "b", "batch.growth.enable": False}
    )
    assert isinstance(made, Murmur2Partitioner)
    racks = TopicView(
        partitions=4, available=range(4), queued_bytes=[0] * 4, leaders=(1, 2, 1, 2), racks={1: "a", 2: "b"}
    )

    unkeyed = set()
    for _ in range(100):
        unkeyed.add(made.partition("t", None, racks))
        made.appended("t", made.partition("t", None, racks), 1 << 21)
    keyed = {made.partition("t", b"%d" % number, racks) for number in range(50)}

    assert unkeyed == chosen
    assert keyed == {0, 1, 2, 3}
