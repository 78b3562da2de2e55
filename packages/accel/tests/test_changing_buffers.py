"""Arrow's buffers that others write to while rows are read: nothing outside of them is read, and batches stay whole.

OTTLA_ATTACK_SECONDS is how long each attack lasts; `tox run -e sanitized` sets it to 60.
"""

from __future__ import annotations

import json
import mmap
import os
import random
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest

from ottla.errors import TableReadError
from ottla.interfaces import Cut, TableRows
from ottla.recordbatch.parse import parse_batches
from ottla.recordbatch.sealed_records import finish
from ottla.tables.sealed import TableSealer
from ottla_accel import tables
from ottla_accel.json_rows import objects

pytestmark = pytest.mark.unmeasured

SECONDS: Final = float(os.environ.get("OTTLA_ATTACK_SECONDS", "0.5"))
NOW: Final = 1_700_000_000_000
OUTSIDE: Final = 1_000_000_000
OFFSETS: Final = [(pa.binary(), "i"), (pa.large_binary(), "q")]


def records(cut: Cut) -> list[tuple[bytes | None, bytes | None]]:
    """The records of a batch as a broker reads it."""
    sealed = finish(cut.columns.encode(2), magic=2, compressor=None)
    [batch] = parse_batches(b"".join(sealed.wire_chunks()), compressors={})
    assert len(cut.rows) == len(batch.records)
    return [(record.key, record.value) for record in batch.records]


@contextmanager
def attacked(buffer: bytearray, *contents: bytes) -> Iterator[None]:
    """A thread writes one content after the other into a buffer, over and over."""
    stop = threading.Event()

    def write() -> None:
        view = memoryview(buffer)
        while not stop.is_set():
            for content in contents:
                view[:] = content

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    attacker = threading.Thread(target=write)
    attacker.start()
    try:
        yield
    finally:
        stop.set()
        attacker.join()
        sys.setswitchinterval(before)


@contextmanager
def changes_allowed() -> Iterator[None]:
    """A block that may raise the error for a column that changed."""
    try:
        yield
    except ValueError as error:
        if "outside of its data" not in str(error):
            raise


def for_the_time(attempt: Callable[[], object]) -> None:
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        attempt()


# What changes between two batches of one table, or while columns are opened: every time, without threads


@pytest.mark.parametrize(("kind", "code"), OFFSETS)
@pytest.mark.parametrize("part", ["values", "keys", "headers"])
@pytest.mark.parametrize("changed", [(0, OUTSIDE), (-OUTSIDE, 0), (9, 3), (OUTSIDE, OUTSIDE + 9)])
def test_offsets_moved_out_of_their_data_after_a_batch_are_an_error(
    kind: Any, code: str, part: str, changed: tuple[int, int]
) -> None:
    buffer = bytearray(struct.pack(f"<10{code}", *range(10)))
    column = pa.Array.from_buffers(kind, 9, [None, pa.py_buffer(buffer), pa.py_buffer(b"\0" * 9)])
    others = {"values": pa.array([b"v"] * 9), part: column}
    cuts = tables.cut_rows(TableRows(count=9, now_ms=NOW, **others), None, max_bytes=1)
    next(cuts)

    struct.pack_into(f"<2{code}", buffer, struct.calcsize(code), *changed)

    with pytest.raises(ValueError, match="outside of its data"):
        list(cuts)


@pytest.mark.parametrize(("kind", "code"), OFFSETS)
def test_rows_that_grow_after_the_first_batch_stay_within_their_buffer(kind: Any, code: str) -> None:
    """Each row reads all of the data, within its bounds: far more than the rows took when they were added up."""
    data, count = bytes(range(250)) * 40, 200
    buffer = bytearray(struct.pack(f"<{count + 1}{code}", *range(count + 1)))
    column = pa.Array.from_buffers(kind, count, [None, pa.py_buffer(buffer), pa.py_buffer(data)])
    rows = TableRows(count=count, now_ms=NOW, values=column, keys=pa.array([b"k"] * count))
    cuts = tables.cut_rows(rows, None, max_bytes=100)
    first = records(next(cuts))

    buffer[:] = struct.pack(f"<{count + 1}{code}", *(len(data) * (row % 2) for row in range(count + 1)))

    assert [len(value or b"") for _key, value in first] == [1] * len(first)
    if len(first) % 2:  # every second row ends before it begins
        with pytest.raises(ValueError, match="outside of its data"):
            next(cuts)
    else:
        assert records(next(cuts)) == [(b"k", data)]
        with pytest.raises(ValueError, match="outside of its data"):
            next(cuts)


def test_partitions_and_timestamps_are_those_at_the_start() -> None:
    partitions, times = (bytearray(struct.pack(f"<9{code}", *range(9))) for code in "iq")
    rows = TableRows(
        count=9,
        now_ms=NOW,
        values=pa.array([b"v"] * 9),
        timestamps=pa.Array.from_buffers(pa.int64(), 9, [None, pa.py_buffer(times)]),
    )
    given = pa.Array.from_buffers(pa.int32(), 9, [None, pa.py_buffer(partitions)])
    cuts = tables.cut_rows(rows, given, max_bytes=1_000)
    found = [next(cuts)]

    partitions[:] = struct.pack("<9i", *[2**31 - 1] * 9)
    times[:] = struct.pack("<9q", *[-(2**63), 2**63 - 1, 0] * 3)
    found += cuts

    assert [cut.partition for cut in found] == list(range(9))
    assert [list(cut.columns.facts().timestamps_ms) for cut in found] == [[time] for time in range(9)]


@pytest.mark.parametrize(("kind", "code"), OFFSETS)
def test_keys_with_offsets_outside_of_their_data_have_no_partition(kind: Any, code: str) -> None:
    buffer = bytearray(struct.pack(f"<4{code}", 0, 1, 2, 3))
    keys = pa.Array.from_buffers(kind, 3, [None, pa.py_buffer(buffer), pa.py_buffer(b"abc")])
    struct.pack_into(f"<{code}", buffer, 2 * struct.calcsize(code), OUTSIDE)

    with pytest.raises(ValueError, match="outside of its data"):
        tables.murmur2_partitions(keys, 7)


def written(columns: dict[str, Any], change: Callable[[], object]) -> list[dict[str, Any]]:
    """The rows as JSON, where *change* happens after these columns were opened and before they are read."""
    count = len(next(iter(columns.values())))

    def text(column: Any) -> tuple[Any, str]:
        change()
        return pa.array(["x"] * len(column)), '"'

    unknown = pa.array([1.5] * count, pa.float32())
    offsets, content = objects([*columns, "last"], [*columns.values(), unknown], count=count, text=text)
    made = pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(content))
    return [json.loads(row) for row in made.to_pylist()]


@pytest.mark.parametrize("changed", [(0, OUTSIDE), (-9, 1), (3, 1), (0, 2**31 - 1)])
def test_json_texts_with_offsets_outside_of_their_data_are_an_error(changed: tuple[int, int]) -> None:
    buffer = bytearray(struct.pack("<4i", 0, 1, 2, 3))
    column = pa.Array.from_buffers(pa.string(), 3, [None, pa.py_buffer(buffer), pa.py_buffer(b"abc")])

    with pytest.raises(ValueError, match="outside of its data"):
        written({"c": column}, lambda: struct.pack_into("<2i", buffer, 4, *changed))


def test_json_texts_that_grow_while_they_are_read_fit() -> None:
    data = b"\x01" * 5_000
    buffer = bytearray(struct.pack("<3i", 0, 1, 2))
    column = pa.Array.from_buffers(pa.string(), 2, [None, pa.py_buffer(buffer), pa.py_buffer(data)])

    rows = written({"c": column}, lambda: struct.pack_into("<3i", buffer, 0, 0, 5_000, 5_000))

    assert [row["c"] for row in rows] == [data.decode(), ""]


@pytest.mark.parametrize("changed", [2**63 - 1, -(2**63), 9_000_000_000_000_000_000, -9_000_000_000_000_000_000])
@pytest.mark.parametrize("kind", [pa.timestamp("us"), pa.timestamp("us", "UTC")])
def test_timestamps_changed_while_they_are_read_keep_4_digit_years(kind: Any, changed: int) -> None:
    buffer = bytearray(8)
    column = pa.Array.from_buffers(kind, 1, [None, pa.py_buffer(buffer)])

    [row] = written({"c": column}, lambda: struct.pack_into("<q", buffer, 0, changed))

    last = "9999-12-31T23:59:59.999" if changed > 0 else "1000-01-01T00:00:00.000"
    assert row["c"].removesuffix("Z") == last


@pytest.mark.parametrize(("changed", "day"), [(2**31 - 1, "9999-12-31"), (-(2**31), "1000-01-01")])
def test_dates_changed_while_they_are_read_keep_4_digit_years(changed: int, day: str) -> None:
    buffer = bytearray(4)
    column = pa.Array.from_buffers(pa.date32(), 1, [None, pa.py_buffer(buffer)])

    [row] = written({"c": column}, lambda: struct.pack_into("<i", buffer, 0, changed))

    assert row["c"] == day


@pytest.mark.parametrize("changed", [float("nan"), 1e300, -1e300, 5e-324])
def test_decimals_are_written_as_they_were_measured(changed: float) -> None:
    buffer = bytearray(struct.pack("<d", 1.25))
    column = pa.Array.from_buffers(pa.float64(), 1, [None, pa.py_buffer(buffer)])

    [row] = written({"c": column}, lambda: struct.pack_into("<d", buffer, 0, changed))

    assert row["c"] == 1.25


@pytest.mark.parametrize("kind", ["int8", "int16", "int32", "int64", "bool_", "date32"])
def test_numbers_at_unaligned_addresses_are_read(kind: str) -> None:
    """A buffer may begin anywhere."""
    column = pa.array([1, 0], pa.int8()).cast(getattr(pa, kind)() if kind != "date32" else pa.int32())
    memory = b"\0" + column.buffers()[1].to_pybytes()
    moved = pa.Array.from_buffers(getattr(pa, kind)(), 2, [None, pa.py_buffer(memory).slice(1)])

    assert len(written({"c": moved}, lambda: None)) == 2


@pytest.mark.parametrize("made", [pa.array(["a"] * 3), pa.array(["a", "b"], pa.large_string()), pa.array([1, 2])])
def test_too_many_texts_or_none_are_refused(made: Any) -> None:
    with pytest.raises(TypeError, match=r"text\(\) returned .*, not 2 strings"):
        objects(["c"], [pa.array([0.5, 1], pa.float32())], count=2, text=lambda _column: (made, '"'))


# Attacks by other threads and processes

ROWS: Final = 1_000
STEADY: Final = struct.pack(f"<{ROWS + 1}i", *range(0, 10 * (ROWS + 1), 10))


def wrong_offsets(kind: str) -> bytes:
    """Offsets that are no longer in order; "within": each within the data, so that rows only get larger."""
    offsets = list(range(0, 10 * (ROWS + 1), 10))
    for row in range(1, ROWS, 3):
        offsets[row] = 10 * ROWS if kind == "within" else random.choice((OUTSIDE, -OUTSIDE, 2**31 - 1, -(2**31)))
    return struct.pack(f"<{ROWS + 1}i", *offsets)


def column_over(buffer: bytearray | mmap.mmap, kind: Any = None) -> Any:
    return pa.Array.from_buffers(
        kind or pa.binary(), ROWS, [None, pa.py_buffer(buffer), pa.py_buffer(b"x" * (10 * (ROWS + 1)))]
    )


@pytest.mark.timeout(SECONDS + 300)
def test_rows_whose_offsets_a_thread_changes_are_batches_or_an_error() -> None:
    """`ac2`, against the compiled reader alone."""
    buffer = bytearray(STEADY)
    rows = [
        TableRows(count=ROWS, now_ms=NOW, values=column_over(buffer)),
        TableRows(count=ROWS, now_ms=NOW, values=column_over(buffer), keys=column_over(buffer)),
    ]
    partitions = pa.array([row % 3 for row in range(ROWS)], pa.int32())

    def attempt() -> None:
        with changes_allowed():
            for cut in tables.cut_rows(random.choice(rows), random.choice([None, partitions]), max_bytes=4_000):
                records(cut)

    with attacked(buffer, wrong_offsets("within"), STEADY, wrong_offsets("outside")):
        for_the_time(attempt)


@pytest.mark.timeout(SECONDS + 300)
@pytest.mark.parametrize("encoder", ["native", "python"])
def test_a_table_whose_offsets_a_thread_changes_is_sealed_or_refused(encoder: str) -> None:
    """`ac2` and `ac2p`, on the way that tables go."""
    buffer = bytearray(STEADY)
    table = pa.RecordBatch.from_arrays([column_over(buffer), column_over(buffer)], ["value", "key"])
    sealer = TableSealer({"bootstrap.servers": "x:1", "record.encoder": encoder}, {"t": 3})
    with attacked(buffer, wrong_offsets("within"), STEADY, wrong_offsets("outside")):
        for_the_time(lambda: sealed_whole(sealer, table))


def sealed_whole(sealer: TableSealer, table: Any) -> bool:
    try:
        sealed = sealer.seal("t", table)
    except TableReadError:
        return False
    found = 0
    for batch in sealed.batches:
        [parsed] = parse_batches(b"".join(batch.sealed.wire_chunks()), compressors={})
        found += len(parsed.records)
    assert found == ROWS == table.num_rows
    return True


FLIPPING = """
import mmap, os, sys, threading
threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()  # with the test's own process
path, size = sys.argv[1], int(sys.argv[2])
with open(path, "r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
    contents = [memory[start : start + size] for start in (size, 2 * size)]
    print("begun", flush=True)
    while True:
        for content in contents:
            memory[:size] = content
"""


@pytest.mark.timeout(SECONDS + 300)
@pytest.mark.parametrize("encoder", ["native", "python"])
def test_a_table_in_a_file_that_a_process_writes_is_sealed_or_refused(encoder: str, tmp_path: Path) -> None:
    path = tmp_path / "offsets"
    path.write_bytes(STEADY + STEADY + wrong_offsets("outside"))
    with path.open("rb") as file:
        memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    table = pa.RecordBatch.from_arrays([column_over(memory)], ["value"])  # pyarrow checks the last offset here
    attacker = subprocess.Popen(
        [sys.executable, "-c", FLIPPING, path, str(len(STEADY))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={name: value for name, value in os.environ.items() if name != "LD_PRELOAD"},
    )
    try:
        assert attacker.stdout is not None
        assert attacker.stdout.readline() == b"begun\n"
        outcomes: set[bool] = set()
        until = time.monotonic() + SECONDS + 60
        sealer = TableSealer({"bootstrap.servers": "x:1", "record.encoder": encoder}, {"t": 3})

        def attempt() -> None:
            outcomes.add(sealed_whole(sealer, table))

        for_the_time(attempt)
        while outcomes != {True, False} and time.monotonic() < until:
            attempt()
        assert outcomes == {True, False}  # torn and whole: the attack was one
    finally:
        attacker.kill()
        attacker.communicate()


@pytest.mark.timeout(SECONDS + 300)
def test_json_timestamps_that_a_thread_changes_stay_timestamps() -> None:
    """`ac4`."""
    count = 20_000
    buffer = bytearray(8 * count)
    steady = bytes(8 * count)
    attacks = [bytes(4 * count) + struct.pack("<q", far) * (count // 2) for far in (2**63 - 1, -(2**63), 9 * 10**18)]
    column = pa.Array.from_buffers(pa.timestamp("us"), count, [None, pa.py_buffer(buffer)])

    def attempt() -> None:
        offsets, content = objects(["x"], [column], count=count, text=lambda _column: (pa.array(["x"] * count), '"'))
        made = pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(content))
        for row in made.slice(count - 50).to_pylist():
            cell = json.loads(row)["x"]
            assert cell == "x" or 1000 <= datetime.fromisoformat(cell).year <= 9999

    with attacked(buffer, steady, *attacks):
        for_the_time(attempt)


@pytest.mark.timeout(SECONDS + 300)
def test_json_texts_that_a_thread_changes_are_whole_or_an_error() -> None:
    buffer = bytearray(STEADY)
    column = column_over(buffer, pa.string())

    def attempt() -> None:
        with changes_allowed():
            offsets, content = objects(["x"], [column], count=ROWS, text=lambda column: (column, '"'))
            made = pa.StringArray.from_buffers(ROWS, pa.py_buffer(offsets), pa.py_buffer(content))
            assert all(set(json.loads(row)["x"]) <= {"x"} for row in made.to_pylist())

    with attacked(buffer, wrong_offsets("within"), STEADY, wrong_offsets("outside")):
        for_the_time(attempt)
