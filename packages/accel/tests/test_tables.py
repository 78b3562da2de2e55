"""Tables in C: what they make is what the core makes of the same columns, and what is no table of ours is refused."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.interfaces import Cut, TableRows
from ottla.recordbatch.arrow import cut_rows
from ottla.recordbatch.number_columns import Constant
from ottla_accel import tables
from ottla_accel.murmur2 import murmur2

pytestmark = pytest.mark.unmeasured

NOW = 1_700_000_000_000
ENOUGH_BYTES = 1 << 40
KINDS = [pa.binary(), pa.large_binary()]

column = st.lists(st.none() | st.binary(max_size=200), max_size=80)
kinds = st.sampled_from(KINDS)


def content(cut: Cut) -> tuple[object, ...]:
    encoded, facts = cut.columns.encode(2), cut.columns.facts()
    key_sizes = None if facts.key_sizes is None else list(facts.key_sizes)
    return (
        cut.partition,
        list(cut.rows),
        b"".join(encoded.chunks),
        (encoded.first_timestamp, encoded.max_timestamp, encoded.count),
        (list(facts.timestamps_ms), key_sizes, list(facts.value_sizes)),
    )


@given(
    values=column,
    kind=kinds,
    key_kind=kinds,
    draw=st.data(),
    max_bytes=st.integers(1, 4_000),
    start=st.integers(0, 9),
    without=st.sets(st.sampled_from(["values", "keys", "headers", "timestamps", "partitions"])),
)
def test_batches_equal_those_of_the_core(
    values: list[bytes | None],
    kind: Any,
    key_kind: Any,
    draw: st.DataObject,
    max_bytes: int,
    start: int,
    without: set[str],
) -> None:
    count = len(values)

    def drawn(elements: st.SearchStrategy[Any]) -> list[Any]:
        return draw.draw(st.lists(elements, min_size=count, max_size=count))

    columns = {
        "values": pa.array(values, kind),
        "keys": pa.array(drawn(st.none() | st.binary(max_size=90)), key_kind),
        "headers": pa.array(drawn(st.sampled_from([b"\0", b"\2\2a\2b"])), pa.binary()),
        "timestamps": pa.array(drawn(st.integers(0, 2**63 - 1)), pa.int64()),
        "partitions": pa.array(drawn(st.integers(0, 40)), pa.int32()),
    }
    columns = {name: None if name in without else made.slice(start) for name, made in columns.items()}
    partitions = columns.pop("partitions")
    rows = TableRows(count=max(count - start, 0), now_ms=NOW, **columns)

    cuts = list(tables.cut_rows(rows, partitions, max_bytes=max_bytes))
    whole, expected = (list(cut(rows, partitions, max_bytes=ENOUGH_BYTES)) for cut in (tables.cut_rows, cut_rows))

    assert [content(cut) for cut in whole] == [content(cut) for cut in expected]
    # Of batches that are cut in between only how far they go is left.
    assert [row for cut in cuts for row in cut.rows] == [row for cut in whole for row in cut.rows]
    assert all(cut.columns.size_estimate() <= max_bytes or len(cut.columns) == 1 for cut in cuts)


def test_fixed_size_values_of_tens_of_thousands_of_rows_are_read_back() -> None:
    seed = random.randrange(1 << 32)
    print("seed", seed)
    pick = random.Random(seed)
    values = [pick.randbytes(pick.choice((0, 1, 63, 64, 100, 5_000))) for _ in range(20_000)]
    keys = [b"%d" % pick.randrange(500) for _ in values]
    given = pa.array([pick.randrange(7) for _ in values], pa.int32())
    rows = TableRows(
        count=len(values), now_ms=NOW, values=pa.array(values, pa.binary()), keys=pa.array(keys, pa.binary())
    )

    ours = [content(cut) for cut in tables.cut_rows(rows, given, max_bytes=ENOUGH_BYTES)]

    assert ours == [content(cut) for cut in cut_rows(rows, given, max_bytes=ENOUGH_BYTES)]


@pytest.mark.parametrize(
    ("columns", "partitions", "words"),
    [
        ({"values": pa.array(["text"])}, None, "a column is string, not binary"),
        ({"keys": pa.array([1])}, None, "values to unpack"),
        ({"headers": pa.array([b"x"], pa.binary_view())}, None, "binary_view|unpack"),
        ({"timestamps": pa.array([1], pa.int32())}, None, "a column is int32, not int64"),
        ({}, pa.array([0], pa.int64()), "a column is int64, not int32"),
        ({}, pa.array([-1], pa.int32()), "no partition -1"),
        ({"values": pa.array([b"x", b"y"])}, None, "2 rows where there are 1"),
        ({"timestamps": pa.array([], pa.int64())}, None, "0 rows where there are 1"),
        ({}, pa.array([], pa.int32()), "0 rows where there are 1"),
    ],
)
def test_columns_of_another_layout_are_refused_and_not_read(
    columns: dict[str, Any], partitions: Any, words: str
) -> None:
    with pytest.raises((TypeError, ValueError), match=words):
        list(tables.cut_rows(TableRows(count=1, now_ms=NOW, **columns), partitions, max_bytes=100))


@given(keys=st.lists(st.binary(max_size=40)), partitions=st.integers(1, 2**31 - 1), kind=kinds, start=st.integers(0, 3))
def test_keys_of_a_column_get_the_same_partitions_as_single_keys(
    keys: list[bytes], partitions: int, kind: Any, start: int
) -> None:
    chosen: Sequence[int] = tables.murmur2_partitions(pa.array(keys, kind).slice(start), partitions)

    assert list(chosen) == [(murmur2(key) & 0x7FFFFFFF) % partitions for key in keys[start:]]


@pytest.mark.parametrize("partitions", [0, -1])
def test_zero_partitions_are_refused(partitions: int) -> None:
    with pytest.raises(ValueError, match="the number of partitions must be positive"):
        tables.murmur2_partitions(pa.array([b"k"]), partitions)


def test_sections_outlive_the_rows_and_columns_they_came_from() -> None:
    rows = TableRows(count=999, now_ms=NOW, values=pa.array([b"value %d" % number for number in range(999)]))
    expected = [content(cut)[2] for cut in cut_rows(rows, None, max_bytes=ENOUGH_BYTES)]

    [cut] = tables.cut_rows(rows, None, max_bytes=ENOUGH_BYTES)
    [section] = cut.columns.encode(2).chunks
    del cut, rows

    assert [bytes(section)] == expected


def test_a_constant_column_is_stored_once() -> None:
    [cut] = tables.cut_rows(TableRows(count=1_000, now_ms=NOW), None, max_bytes=ENOUGH_BYTES)
    facts = cut.columns.facts()

    assert isinstance(facts.timestamps_ms, Constant)
    assert (facts.timestamps_ms[999], facts.value_sizes[0], facts.key_sizes) == (NOW, -1, None)
    assert list(facts.value_sizes[990:]) == [-1] * 10
    with pytest.raises(IndexError):
        facts.timestamps_ms[1_000]


def test_memory_reused_for_a_batch_is_not_that_of_one_still_read() -> None:
    """Large batches, some of them kept for a while, as those are that wait for an answer."""
    size = 200_000
    kept: list[tuple[int, Any]] = []
    for number in range(200):
        values = pa.array([bytes([number % 251]) * size], pa.binary())
        [cut] = tables.cut_rows(TableRows(count=1, now_ms=NOW, values=values), None, max_bytes=size + 100)
        [section] = cut.columns.encode(2).chunks
        if number % 3:
            kept.append((number, section))
        if len(kept) > 9:
            del kept[number % 9]
        for before, content in kept:
            assert bytes(content[-size - 1 : -1]) == bytes([before % 251]) * size


def test_cached_memory_of_unused_sizes_is_released() -> None:
    """Otherwise what came first would be kept, and nothing used again."""
    resource = pytest.importorskip("resource")

    def cut(size: int, count: int) -> None:
        values = pa.array([bytes(size)] * count, pa.binary())
        list(tables.cut_rows(TableRows(count=count, now_ms=NOW, values=values), None, max_bytes=size + 100))

    def faults_of(size: int, count: int) -> int:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        cut(size, count)
        faults: int = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
        return faults

    cut(150_000, 40)
    cut(1_000_000, 15)
    pages = 15 * 1_000_000 // resource.getpagesize()
    assert min(faults_of(1_000_000, 15) for _round in range(5)) < pages // 2
    cut(150_000, 40)


WRITING_AND_FORGETTING = """
import psutil
import pyarrow as pa
from ottla.interfaces import TableRows
from ottla_accel import tables

rows = TableRows(count=64, now_ms=0, values=pa.array([bytes(1_000_000)] * 64, pa.binary()))

def write_and_forget():
    list(tables.cut_rows(rows, None, max_bytes=1_000_100))
    return psutil.Process().memory_info().rss

first = write_and_forget()
print(max(write_and_forget() for _round in range(5)) - first)
"""


def test_finished_batches_leave_a_bounded_amount_of_memory() -> None:
    """In a process of its own: what other tests leave behind is counted, too."""
    pytest.importorskip("psutil")
    ended = subprocess.run(
        [sys.executable, "-c", WRITING_AND_FORGETTING], check=True, capture_output=True, text=True, timeout=120
    )

    assert int(ended.stdout) < 8 * 1024 * 1024
