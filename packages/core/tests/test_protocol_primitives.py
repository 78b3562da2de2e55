"""Integers of variable length, against Kafka's own and against themselves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import ProtocolError
from ottla.protocol.primitives import (
    UVARINT,
    VARINT,
    read_uvarint,
    read_varint,
    read_varlong,
    skip_tagged_fields,
    uvarint,
    varint,
    varint_size,
)

CASES: list[Any] = json.loads((Path(__file__).parent / "vectors" / "varint.json").read_text())

READERS = {
    "varint": (varint, read_varint),
    "varlong": (varint, read_varlong),
    "unsignedVarint": (uvarint, read_uvarint),
}


@pytest.mark.parametrize("kind", READERS)
def test_integers_are_written_and_read_as_by_java(kind: str) -> None:
    write, read = READERS[kind]
    cases = [(case["value"], bytes.fromhex(case[kind])) for case in CASES if kind in case]

    assert cases
    for value, expected in cases:
        assert expected == write(value)
        assert (value, len(expected)) == read(expected, 0)


def test_the_tables_equal_the_results_of_the_functions() -> None:
    assert [uvarint(n) for n in range(len(UVARINT))] == list(UVARINT)
    assert [uvarint(n << 1) for n in range(0x2000)] == list(VARINT)


@given(st.integers(-(1 << 63), (1 << 63) - 1), st.binary(max_size=3))
def test_64_bit_integers_survive_between_other_bytes(value: int, around: bytes) -> None:
    written = varint(value)

    assert varint_size(value) == len(written)
    assert (value, len(around) + len(written)) == read_varlong(around + written + around, len(around))


@given(st.integers(-(1 << 31), (1 << 31) - 1))
def test_32_bit_integers_survive(value: int) -> None:
    assert (value, varint_size(value)) == read_varint(memoryview(varint(value)), 0)


@given(st.integers(0, (1 << 32) - 1))
def test_unsigned_32_bit_integers_survive(value: int) -> None:
    assert (value, len(uvarint(value))) == read_uvarint(uvarint(value), 0)


@pytest.mark.parametrize(
    ("read", "longest", "too_long"),
    [
        (read_uvarint, "ffffffff0f", "ffffffff8f00"),
        (read_varint, "ffffffff0f", "ffffffff8f00"),
        (read_varlong, "ffffffffffffffffff01", "ffffffffffffffffff8100"),
    ],
)
def test_an_integer_has_at_most_its_bytes_and_its_bits(read: Any, longest: str, too_long: str) -> None:
    allowed = bytes.fromhex(longest)
    read(allowed, 0)

    with pytest.raises(ProtocolError, match=f"continues after {len(allowed)} bytes"):
        read(bytes.fromhex(too_long), 0)
    with pytest.raises(ProtocolError, match="does not fit in"):
        read(allowed[:-1] + bytes([allowed[-1] * 2]), 0)
    for length in range(len(allowed)):
        with pytest.raises(ProtocolError, match="the bytes end inside"):
            read(allowed[:length], 0)


def test_tagged_fields_are_skipped_by_their_sizes() -> None:
    assert skip_tagged_fields(b"\0\x01", 0) == 1
    assert skip_tagged_fields(bytes.fromhex("ff 02 00 01 ff 914e 01 ff 77"), 1) == 9


@pytest.mark.parametrize("block", ["", "01", "0100", "010002ff", "ffffffff0f", "0100ffffffff0f"])
def test_tagged_fields_may_not_extend_beyond_the_buffer(block: str) -> None:
    with pytest.raises(ProtocolError):
        skip_tagged_fields(bytes.fromhex(block), 0)
