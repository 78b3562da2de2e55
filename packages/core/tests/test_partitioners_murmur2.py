"""Keys go where Java's producer puts them."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.interfaces import TopicView
from ottla.partitioners import murmur2 as plugin
from ottla.partitioners.murmur2 import Murmur2Partitioner, murmur2, partition_for_key, positive
from ottla.partitioners.sticky import StickyChoice

CASES: list[dict[str, Any]] = json.loads((Path(__file__).parent / "vectors" / "murmur2.json").read_text())


def view(partitions: int = 10) -> TopicView:
    return TopicView(partitions=partitions, available=range(partitions), queued_bytes=[0] * partitions)


def partitioner(*, ignore_keys: bool = False) -> Murmur2Partitioner:
    choice = StickyChoice(batch_size=1000, adaptive=True, random=Random(1))
    return Murmur2Partitioner(choice, ignore_keys=ignore_keys)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["key"][:32] or "empty")
def test_a_key_has_javas_hash_and_partition(case: dict[str, Any]) -> None:
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
def test_the_fast_form_is_the_plain_one(key: bytes) -> None:
    assert javas(key) == murmur2(key)


def test_a_key_keeps_its_partition_whatever_is_available_and_however_often_it_is_asked() -> None:
    chosen = partitioner()
    crippled = TopicView(partitions=10, available=(1,), queued_bytes=[0] * 10, slow=frozenset({1}))

    for key in (b"", b"a", b"some key", b"k" * 65, b"k" * 300):
        expected = partition_for_key(key, 10)
        assert [expected] * 4 == [chosen.partition("t", key, each) for each in (view(), crippled, view(), crippled)]


def test_hashes_are_remembered_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugin, "_REMEMBERED", 10)
    chosen = partitioner()

    for number in range(100):
        key = b"%d" % (number % 37)
        assert partition_for_key(key, 10) == chosen.partition("t", key, view())
    chosen.partition("t", b"k" * 65, view())

    assert len(chosen._hashes) <= 10
    assert b"k" * 65 not in chosen._hashes


def test_many_more_keys_than_are_remembered_keep_their_partitions_whatever_their_number() -> None:
    chosen = partitioner()
    keys = [b"key %d" % number for number in range(40_000)]

    for partitions in (10, 7):
        expected = [partition_for_key(key, partitions) for key in keys]
        same = view(partitions)
        assert expected == [chosen.partition("t", key, same) for key in keys]


def test_threads_that_share_remembered_hashes_always_get_the_right_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugin, "_REMEMBERED", 50)
    chosen = partitioner()
    keys = [b"%d" % number for number in range(300)]
    wrong: list[tuple[bytes, int]] = []

    def work(partitions: int) -> None:
        same = view(partitions)
        expected = {key: partition_for_key(key, partitions) for key in keys}
        for _ in range(10):
            wrong.extend((key, partitions) for key in keys if chosen.partition("t", key, same) != expected[key])

    threads = [threading.Thread(target=work, args=(partitions,)) for partitions in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert not wrong


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
        "partitioner.ignore.keys": False,
        "partitioner.adaptive.partitioning.enable": True,
    }
    assert isinstance(made, Murmur2Partitioner)
    same = view()
    assert made.partition("t", b"a", same) == made.partition("t", b"b", same)


@pytest.mark.parametrize(("raw", "value"), [("true", True), (" False", False), (True, True), ("TRUE", True)])
def test_switches_may_be_words(raw: object, value: bool) -> None:
    assert plugin.IGNORE_KEYS.type(raw) is value


@pytest.mark.parametrize(("key", "raw"), [(plugin.ADAPTIVE, "yes"), (plugin.BATCH_SIZE, -1), (plugin.BATCH_SIZE, "x")])
def test_wrong_values_are_refused(key: Any, raw: object) -> None:
    with pytest.raises(ValueError, match=r"must be|invalid literal"):
        key.type(raw)
