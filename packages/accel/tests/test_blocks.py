"""The memory of batches: it grows and shrinks with their records, is counted, and goes back to the system."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from ottla.recordbatch.objects import ObjectColumns
from ottla_accel.columns import CALLBACK_SIZE, NativeColumns

NOW = 1_700_000_000_000
MIB = 1 << 20
SIZES = (0, 1, 100, 5_000, 16_300, 40_000, 131_000, 131_072, 700_000)
"""Of values, so that the memory grows from each kind of block to each other."""


def value(number: int, size: int) -> bytes:
    return b"%09d" % number * (size // 9 + 1)


@pytest.mark.parametrize("first", SIZES)
@pytest.mark.parametrize("second", SIZES)
def test_records_are_the_same_whatever_blocks_they_move_through(first: int, second: int) -> None:
    columns, reference = NativeColumns(0), ObjectColumns(16 * MIB)

    for number, size in enumerate((first, second, 50, second, first, 1)):
        columns.allow(columns.memory() + size + 100)  # it just suffices
        assert columns.append(None, value(number, size), [], NOW) == number
        reference.append(None, value(number, size), [], NOW)

    assert b"".join(columns.encode(2).chunks) == b"".join(reference.encode(2).chunks)


def test_a_batch_takes_records_until_its_limit_whatever_their_sizes() -> None:
    columns = NativeColumns(200_000)
    sizes = [size for number in range(2_000) for size in (number % 7, 300, 1_900)]

    placed = [columns.append(None, value(number, size), [], NOW) for number, size in enumerate(sizes)]

    count = len(columns)
    assert placed[:count] == list(range(count))
    assert 198_000 < columns.memory() <= 200_000


def test_callbacks_are_counted_as_memory() -> None:
    columns = NativeColumns(10_000)
    bare = NativeColumns(10_000)

    while columns.put(None, b"", (), NOW, print) is not None:
        bare.put(None, b"", (), NOW, None)

    assert len(columns) == len(bare)
    assert columns.memory() == bare.memory() + len(columns) * CALLBACK_SIZE
    assert columns.memory() <= 10_000


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has /proc")
@pytest.mark.skipif("asan" in os.environ.get("LD_PRELOAD", ""), reason="the sanitizer keeps memory")
def test_batches_of_many_sizes_leave_no_gaps_in_memory() -> None:
    # A process of its own: the C library decides by all blocks that were freed before.
    program = f"""
import os
from ottla_accel.columns import NativeColumns

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGESIZE")

def batch(records):
    columns = NativeColumns(1 << 24)
    for _ in range(records):
        columns.append(None, bytes(10_000), [], {NOW})
    return columns

before = resident()
for turn in range(10):  # with the heap of the C library, 93 MiB more than the records of the last turn take
    batches = [batch(13 + (7 * number + 5 * turn) % 90) for number in range(100)]
    del batches[::2]
print(resident() - before - 10_000 * sum(map(len, batches)))
"""
    beyond = int(subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True).stdout)

    assert beyond < 32 * MIB  # 16 MiB are kept for later batches
