"""The fast ways to write records write what the general one does."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.protocol.primitives import varint
from ottla.recordbatch import records_v2
from ottla.recordbatch.number_columns import Timestamps
from ottla.recordbatch.records_v2 import encode_records

pytestmark = pytest.mark.unmeasured

SIZES = (0, 1, 55, 56, 63, 64, 4095, 8100, 8140, 8191)

small = st.binary(max_size=30)
sized = st.builds(bytes, st.sampled_from(SIZES))
parts = small | sized
nullable = st.none() | small
deltas = st.sampled_from((0, 0, 1, -1, 63, 64, -64, -65, 4095, -4096, 4096, -4097, 2**40))


Keys = Sequence[bytes | None] | None
Values = Sequence[bytes | None]
Headers = Sequence[bytes] | None


def fast(keys: Keys, values: Values, timestamps: Sequence[int], headers: Headers = None) -> bytes:
    return encode_records(
        keys=keys,
        values=values,
        headers=headers,
        timestamps=Timestamps.of(timestamps),
        key_sizes=None if keys is None else [-1 if key is None else len(key) for key in keys],
        value_sizes=[-1 if value is None else len(value) for value in values],
        nulls=None in values or (keys is not None and None in keys),
    )


def general(keys: Keys, values: Values, timestamps: Sequence[int], headers: Headers = None) -> bytes:
    deltas = [b"\0" + varint(timestamp - timestamps[0]) for timestamp in timestamps]
    offsets = [varint(index) for index in range(len(values))]
    return b"".join(records_v2._any(keys, values, headers, deltas, offsets))


def same(rows: Sequence[tuple[bytes | None, bytes | None, int]], *, keyed: bool, headers: Headers = None) -> None:
    keys = [key for key, _, _ in rows] if keyed else None
    values = [value for _, value, _ in rows]
    timestamps = [10_000 + delta for _, _, delta in rows]

    assert general(keys, values, timestamps, headers) == fast(keys, values, timestamps, headers)


@given(st.lists(st.tuples(st.none(), parts, deltas), min_size=1, max_size=150))
@settings(deadline=None)
def test_records_without_keys_equal_those_of_the_general_encoder(rows: list[tuple[None, bytes, int]]) -> None:
    same(rows, keyed=False)


@given(st.lists(st.tuples(small, parts, deltas), min_size=1, max_size=150))
@settings(deadline=None)
def test_records_with_keys_equal_those_of_the_general_encoder(rows: list[tuple[bytes, bytes, int]]) -> None:
    same(rows, keyed=True)


@pytest.mark.parametrize("keyed", [False, True])
@given(st.lists(st.tuples(st.tuples(small, parts, deltas), parts), min_size=1, max_size=150))
@settings(deadline=None)
def test_records_with_headers_equal_those_of_the_general_encoder(
    keyed: bool, rows: list[tuple[tuple[bytes, bytes, int], bytes]]
) -> None:
    same([row for row, _headers in rows], keyed=keyed, headers=[headers for _row, headers in rows])


@given(st.lists(st.tuples(nullable, nullable, deltas), min_size=1, max_size=150))
@settings(deadline=None)
def test_records_with_nulls_equal_those_of_the_general_encoder(
    rows: list[tuple[bytes | None, bytes | None, int]],
) -> None:
    same(rows, keyed=True)


@pytest.mark.parametrize("headers", [None, [b"\0", b"\2\2a\2b"]])
@pytest.mark.parametrize("key", [None, b"", b"key", bytes(64)])
def test_sizes_around_a_longer_varint_equal_the_general_encoder(key: bytes | None, headers: Headers) -> None:
    for size in (*range(8100, 8200), *range(40, 66)):
        same([(key, bytes(size), 0), (key, b"", 1)], keyed=key is not None, headers=headers)


@pytest.mark.parametrize("size", range(8100, 8200))
def test_headers_around_a_longer_varint_equal_the_general_encoder(size: int) -> None:
    same([(b"key", b"value", 0)] * 2, keyed=True, headers=[b"\0", bytes(size)])


@pytest.mark.parametrize("header", [None, b"\0", b"\2\2a\2b"])
@pytest.mark.parametrize("key", [None, b"key"])
@pytest.mark.parametrize("count", [1, 64, 65, 8192, 8193])
def test_offsets_around_a_longer_varint_equal_the_general_encoder(
    count: int, key: bytes | None, header: bytes | None
) -> None:
    rows = [(key, b"v", index % 3) for index in range(count)]

    same(rows, keyed=key is not None, headers=None if header is None else [header] * count)


@pytest.mark.parametrize("keys", [None, [b"k", b"l"]])
@pytest.mark.parametrize("headers", [None, [b"\0", b"\2\2a\2b"]])
def test_small_records_without_nulls_use_the_fast_encoders(
    monkeypatch: pytest.MonkeyPatch, keys: Keys, headers: Headers
) -> None:
    expected = general(keys, [b"v", b"w"], [5, 5], headers)
    monkeypatch.delattr(records_v2, "_any")

    assert fast(keys, [b"v", b"w"], [5, 5], headers) == expected
