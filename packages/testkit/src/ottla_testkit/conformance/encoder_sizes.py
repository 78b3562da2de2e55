"""Tests of the sizes that columns report, encoded and in memory: a part of `RecordEncoderConformance`."""

from __future__ import annotations

import gc
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import pytest

from ottla.interfaces import RecordEncoder
from ottla.recordbatch.record_limits import TIMESTAMP_MAX
from ottla_testkit.conformance.harness.bounded_suite import BoundedSuite
from ottla_testkit.conformance.harness.checked_layer import check, fail
from ottla_testkit.conformance.harness.columns import append, columns_of, encode, filled
from ottla_testkit.conformance.harness.rows import NOW, Row, drawn

_ROUNDS: Final = 60
_MEASURED: Final = 2000
_LARGE_RECORDS: Final = 20
_LARGE: Final = 50_000
_BATCHES: Final = 6


@contextmanager
def _traced() -> Iterator[Callable[[], int]]:
    """Count memory in a block, which gets the function that returns the count.

    The test is skipped where Python does not count memory, as PyPy.
    """
    tracemalloc = pytest.importorskip("tracemalloc", reason="this Python does not count memory", exc_type=ImportError)
    is_traced = tracemalloc.is_tracing()
    if is_traced:
        gc.collect()  # garbage that is counted already
    else:
        tracemalloc.start()
    try:
        yield lambda: tracemalloc.get_traced_memory()[0]
    finally:
        if not is_traced:
            tracemalloc.stop()


def _occupied(counted: Callable[[], int], before: int, allowed: int) -> int:
    """Return the bytes that are counted now and were not *before*.

    Garbage is collected only if they are more than *allowed*: in a large program a collection takes up to seconds.
    """
    occupied = counted() - before
    if occupied > allowed:
        gc.collect()
        occupied = counted() - before
    return occupied


class SizeRequirements(BoundedSuite):
    """A part of `RecordEncoderConformance`."""

    def test_size_estimates_are_upper_bounds(self, encoder: RecordEncoder, chance: random.Random) -> None:
        for _ in range(_ROUNDS):
            columns = filled(encoder, drawn(chance))
            estimate, memory, count = columns.size_estimate(), columns.memory(), len(columns)
            size = sum(map(len, encode(columns, 2).chunks))
            check(
                size <= estimate,
                f"{count} records have {size} bytes, and size_estimate() said {estimate}: requests would be too large",
            )
            later = columns.size_estimate()
            check(size <= later, f"{count} records have {size} bytes, and size_estimate() said {later} after encode()")
            check(
                size <= memory,
                f"{count} records have {size} bytes on the wire, and memory() said {memory}: it is never less",
            )

    def test_size_estimates_hold_for_far_and_large_records(self, encoder: RecordEncoder) -> None:
        far = Row(bytes(9000), bytes(9000), (), TIMESTAMP_MAX)
        columns = filled(encoder, [Row(None, None, (), 0), *[far] * 70])
        estimate, size = columns.size_estimate(), sum(map(len, encode(columns, 2).chunks))
        check(
            size <= estimate,
            f"70 records of 18000 bytes with the latest timestamp after one of 0 have {size} bytes, and "
            f"size_estimate() said {estimate}: the difference of times, the index and each size may take several bytes",
        )

    def test_records_occupy_what_the_encoder_reports(self, encoder: RecordEncoder) -> None:
        columns = columns_of(encoder)
        with _traced() as counted:
            before = counted()
            for number in range(_MEASURED):
                append(columns, Row(b"key %d" % number, b"value %d" % number, (), NOW + number))
            occupied = _occupied(counted, before, 2 * columns.memory())
        # Buffers that grow are up to twice as large as their content.
        check(
            occupied <= 2 * columns.memory(),
            f"{_MEASURED} records occupy {occupied} bytes, as tracemalloc counts them, and memory() said "
            f"{columns.memory()}: the producer would take far more than buffer.memory; count the objects, too",
        )

    @pytest.mark.parametrize("end", ["encode", "release"])
    def test_records_are_released_by_their_last_call(self, encoder: RecordEncoder, end: str) -> None:
        batches = [columns_of(encoder) for _ in range(_BATCHES)]
        records, allowed = f"{_LARGE_RECORDS} records of {_LARGE} bytes", _LARGE_RECORDS * _LARGE // 2
        for columns in batches:  # an encoder may keep the memory of the first ones for the next
            with _traced() as counted:
                before = counted()
                for number in range(_LARGE_RECORDS):
                    append(columns, Row(b"key", bytes(_LARGE), (), NOW + number))
                if end == "encode":
                    encode(columns, 2)
                else:
                    columns.release()
                held = _occupied(counted, before, allowed)
            if held <= allowed:
                return
        fail(
            f"after {end}(), the columns of {records} hold {held} bytes: the program keeps the columns with its "
            "deliveries, so their records have to be released"
        )

    def test_a_record_takes_no_more_memory_than_the_encoder_reports(
        self, encoder: RecordEncoder, chance: random.Random
    ) -> None:
        cost = encoder.record_cost
        for size in (0, 1, 100, 10_000):
            rows = [Row(b"k" * 10, chance.randbytes(size), (), NOW + number) for number in range(200)]
            memory = filled(encoder, rows).memory()
            bare = sum(10 + size for _ in rows)
            check(
                memory <= bare + len(rows) * cost,
                f"{len(rows)} records with {bare} bytes of their own occupy {memory}; record_cost says "
                f"{cost} for each, so {bare + len(rows) * cost} at most",
            )
