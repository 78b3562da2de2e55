"""CRC-32C in C: the checksum that the package crc32c computes, with the processor's instruction and without it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import TypeAlias

import crc32c as other
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ottla.recordbatch import checksum
from ottla_accel.crc32c import crc32c, crc32c_by_tables, hardware_based

Checksum: TypeAlias = Callable[..., int]

both = pytest.mark.parametrize("ours", [crc32c, crc32c_by_tables])
BLOCKS = [3 * part * blocks + more for part in (256, 4096) for blocks in (1, 2) for more in (-1, 0, 1, 7, 8, 9)]
"""Sizes around those at which one way of computing gives way to another."""

numbers = st.integers(0, 2**32 - 1)


@both
@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", 0),
        (b"123456789", 0xE3069283),
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (bytes(range(31, -1, -1)), 0x113FDB5C),
    ],
)
def test_the_checksums_of_rfc_3720_are_computed(ours: Checksum, data: bytes, expected: int) -> None:
    assert ours(data) == expected


@both
@given(data=st.binary(max_size=4_000), before=numbers)
@example(data=b"", before=2**32 - 1)
def test_any_bytes_have_the_checksum_of_the_other_package(ours: Checksum, data: bytes, before: int) -> None:
    assert ours(data) == other.crc32c(data)
    assert ours(data, before) == other.crc32c(data, before)


@both
@pytest.mark.parametrize("size", [*BLOCKS, 100_003, 3_000_001])
def test_large_data_has_the_checksum_of_the_other_package(ours: Checksum, size: int) -> None:
    data = os.urandom(size + 8)
    for start in (0, 1, 7):
        view = memoryview(data)[start : start + size]
        assert ours(view) == other.crc32c(view)


@both
@given(parts=st.lists(st.binary(max_size=900), max_size=5))
def test_a_checksum_continued_over_parts_is_that_of_the_whole(ours: Checksum, parts: list[bytes]) -> None:
    found = 0
    for part in parts:
        found = ours(part, found)

    assert found == ours(b"".join(parts))


@both
def test_any_contiguous_buffer_is_read(ours: Checksum) -> None:
    assert ours(bytearray(b"123456789")) == ours(memoryview(b"123456789")) == 0xE3069283
    assert ours(memoryview(b"-123456789-")[1:-1]) == 0xE3069283


@both
@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("text",), TypeError),
        ((None,), TypeError),
        ((memoryview(b"1234")[::2],), BufferError),
        ((b"", -1), OverflowError),
        ((b"", 2**32), OverflowError),
    ],
)
def test_wrong_types_of_data_and_checksums_are_refused(
    ours: Checksum, arguments: tuple[object, ...], error: type[Exception]
) -> None:
    with pytest.raises(error):
        ours(*arguments)


@both
def test_data_that_changes_while_it_is_read_is_not_written_to(ours: Checksum) -> None:
    data = bytearray(2_000_000)
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            data[:] = os.urandom(1) * len(data)

    attacker = threading.Thread(target=write)
    attacker.start()
    try:
        assert all(0 <= ours(data) < 2**32 for _ in range(50))
    finally:
        stop.set()
        attacker.join()


def test_the_cpu_instruction_is_used_where_the_other_package_uses_it() -> None:
    assert hardware_based == bool(other.hardware_based)


def test_the_core_uses_the_package_if_it_is_installed() -> None:
    assert checksum.crc32c is crc32c
