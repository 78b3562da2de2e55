"""No record takes more on the wire than we said before it was queued."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.interfaces import Header
from ottla.recordbatch.objects import ObjectColumns
from ottla.recordbatch.record_limits import TIMESTAMP_MAX
from ottla.recordbatch.sealed_records import finish
from ottla.recordbatch.size_bounds import lone_record_bound, record_bound

pytestmark = pytest.mark.unmeasured

parts = st.none() | st.binary(max_size=200) | st.builds(bytes, st.sampled_from((63, 64, 8191, 8192, 1_048_576)))
headers = st.lists(st.tuples(st.text(max_size=90), st.none() | st.binary(max_size=90)), max_size=70)


def size(part: bytes | None) -> int:
    return -1 if part is None else len(part)


@pytest.mark.parametrize("magic", [0, 1, 2])
@given(key=parts, value=parts, headers=headers, timestamp_ms=st.integers(-1, TIMESTAMP_MAX))
@settings(deadline=None)
def test_a_single_record_is_never_larger_than_its_bound(
    magic: int, key: bytes | None, value: bytes | None, headers: list[Header], timestamp_ms: int
) -> None:
    headers = headers if magic == 2 else []
    columns = ObjectColumns(1)
    columns.append(key, value, headers, timestamp_ms)
    bound = lone_record_bound(magic, key_size=size(key), value_size=size(value), headers=headers)

    actual = finish(columns.encode(magic), magic=magic, compressor=None).wire_size

    assert actual <= bound <= actual + (21 if magic == 2 else 0)


@given(
    st.lists(
        st.tuples(st.none() | st.binary(max_size=70), parts, headers, st.integers(-1, TIMESTAMP_MAX - 1)), min_size=1
    )
)
@settings(deadline=None, max_examples=30)
def test_the_records_of_a_v2_batch_are_never_larger_than_their_bounds(
    rows: list[tuple[bytes | None, bytes | None, list[Header], int]],
) -> None:
    columns = ObjectColumns(1 << 30)
    for row in rows:
        columns.append(*row)

    bounds = [record_bound(key_size=size(key), value_size=size(value), headers=h) for key, value, h, _ in rows]

    assert finish(columns.encode(2), magic=2, compressor=None).size <= sum(bounds)


@pytest.mark.parametrize(
    ("magic", "compressed", "expected"),
    [(0, False, 12 + 14 + 8), (0, True, 12 + 14 + 14 + 8), (1, False, 12 + 22 + 8), (1, True, 12 + 22 + 22 + 8)],
)
def test_before_v2_the_bound_is_exact_and_includes_a_wrapper(magic: int, compressed: bool, expected: int) -> None:
    assert lone_record_bound(magic, key_size=3, value_size=5, compressed=compressed) == expected


@pytest.mark.parametrize("compressed", [False, True])
def test_in_v2_the_bound_is_that_of_java(compressed: bool) -> None:
    headers: list[Header] = [("name", b"xy"), ("ü", None)]
    named, null = 1 + 4 + 1 + 2, 1 + 2 + 1

    assert lone_record_bound(2, key_size=3, value_size=100, headers=headers, compressed=compressed) == (
        61 + 21 + (1 + 3) + (2 + 100) + 1 + named + null
    )
    assert lone_record_bound(2, key_size=-1, value_size=-1, compressed=compressed) == 61 + 21 + 1 + 1 + 1


def test_a_header_name_that_will_be_refused_has_a_bound_too() -> None:
    assert record_bound(key_size=-1, value_size=-1, headers=[("\ud800", None)]) == 21 + 1 + 1 + 1 + (1 + 3) + 1
