"""Records that `send` puts into the columns of a batch are read back from its bytes."""

from __future__ import annotations

import sys
import threading
from collections.abc import Collection
from functools import partial
from itertools import chain
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.errors import InvalidRecordError, UnsupportedVersionError
from ottla.interfaces import ColumnsKind, Facts, Header
from ottla.recordbatch import header_sections, objects
from ottla.recordbatch.callbacks import RecordCallback
from ottla.recordbatch.header_v2 import batch_header
from ottla.recordbatch.objects import ObjectColumns, ObjectEncoder
from ottla.recordbatch.parse import Record, RecordBatch, parse_batches
from ottla.recordbatch.record_limits import OBJECT_COST, TIMESTAMP_MAX

NOW = 1_700_000_000_000

small = st.binary(max_size=40)
parts = (
    st.none() | small | st.builds(lambda size: b"x" * size, st.sampled_from((63, 64, 4090, 8150, 8191, 8192, 20_000)))
)
headers = st.lists(st.tuples(st.text(max_size=5), st.none() | small), max_size=3)
no_headers: st.SearchStrategy[list[Header]] = st.just([])
timestamps = st.one_of(
    st.integers(NOW - 70, NOW + 70),
    st.integers(NOW - 9000, NOW + 9000),
    st.integers(NOW - 2**21, NOW + 2**21),
    st.integers(-1, TIMESTAMP_MAX - 1),
)
rows = st.one_of(
    st.lists(st.tuples(st.none(), small, no_headers, timestamps), min_size=1, max_size=200),
    st.lists(st.tuples(small, small, no_headers, timestamps), min_size=1, max_size=200),
    st.lists(st.tuples(small, small, headers, timestamps), min_size=1, max_size=100),
    st.lists(st.tuples(parts, parts, headers, timestamps), min_size=1, max_size=30),
)
Row = tuple[bytes | None, bytes | None, list[Header], int]


def filled(rows: list[Row], *, limit: int = 1 << 24) -> ObjectColumns:
    columns = ObjectColumns(limit)
    for index, row in enumerate(rows):
        assert columns.append(*row) == index
    return columns


def sealed(columns: ObjectColumns) -> bytes:
    section = columns.encode(2)
    header = batch_header(
        section.chunks,
        codec_id=0,
        first_timestamp=section.first_timestamp,
        max_timestamp=section.max_timestamp,
        count=section.count,
    )
    return header + b"".join(section.chunks)


def read(batch: bytes) -> RecordBatch:
    [parsed] = parse_batches(batch, compressors={})
    return parsed


@given(rows)
@settings(deadline=None)
def test_all_appended_records_are_read_back(rows: list[Row]) -> None:
    batch = read(sealed(filled(rows)))

    assert [
        Record(offset=index, timestamp_ms=timestamp_ms, key=key, value=value, headers=tuple(headers))
        for index, (key, value, headers, timestamp_ms) in enumerate(rows)
    ] == list(batch.records)
    assert max(row[3] for row in rows) == batch.max_timestamp


@given(rows)
@settings(deadline=None)
def test_the_size_estimate_is_never_below_the_encoded_size(rows: list[Row]) -> None:
    columns = filled(rows)
    estimate = columns.size_estimate()

    assert len(b"".join(columns.encode(2).chunks)) <= estimate


def test_the_size_estimate_is_an_upper_bound_for_the_largest_parts() -> None:
    columns = filled([(None, bytes(100), [], moment) for moment in [TIMESTAMP_MAX, *[-1] * 600]], limit=1_000_000)
    estimate = columns.size_estimate()

    encoded = len(columns.encode(2).chunks[0])
    assert encoded <= estimate <= encoded + 80


@given(rows, st.integers(0, 30_000))
@settings(deadline=None)
def test_a_batch_stays_within_its_memory_unless_one_record_is_larger(rows: list[Row], limit: int) -> None:
    columns = ObjectColumns(limit)
    taken = 0
    for row in rows:
        if columns.append(*row) is None:
            break
        taken += 1

    assert taken >= 1
    assert taken == 1 or columns.memory() <= limit
    assert len(columns) == taken
    assert len(read(sealed(columns)).records) == taken == len(columns)


@given(rows)
@settings(deadline=None)
def test_a_byte_on_the_wire_is_at_least_one_byte_in_memory(rows: list[Row]) -> None:
    columns = filled(rows)

    assert columns.size_estimate() <= columns.memory()


def test_a_larger_limit_allows_more_records() -> None:
    columns = ObjectColumns(0)
    assert columns.append(None, bytes(100), (), NOW) == 0
    assert columns.append(None, bytes(100), (), NOW) is None

    columns.allow(2 * columns.memory())

    assert columns.append(None, bytes(100), (), NOW) == 1
    assert columns.append(None, bytes(100), (), NOW) is None


def test_the_size_estimate_is_tight_for_records_of_100_bytes() -> None:
    columns = filled([(None, bytes(100), [], NOW)] * 145)

    assert columns.size_estimate() <= 1.03 * len(columns.encode(2).chunks[0])


@given(st.lists(st.tuples(st.none() | small, st.just(bytes(100)), headers, timestamps), min_size=1, max_size=100))
@settings(deadline=None)
def test_the_size_estimate_is_within_10_percent_for_values_of_100_bytes(rows: list[Row]) -> None:
    columns = filled(rows, limit=1 << 20)
    estimate = columns.size_estimate()

    encoded = len(columns.encode(2).chunks[0])
    assert encoded <= estimate <= 1.1 * encoded


@pytest.mark.parametrize("key", [None, b"key"])
@pytest.mark.parametrize("count", [63, 64, 65, 8191, 8192, 8193, 20_000])
def test_offsets_are_correct_where_their_varints_grow(count: int, key: bytes | None) -> None:
    columns = filled([(key, b"v", [], NOW + index) for index in range(count)])

    assert list(range(count)) == [record.offset for record in read(sealed(columns)).records]


def test_the_first_key_or_header_of_a_batch_may_come_late() -> None:
    columns = filled(
        [(None, b"0", [], NOW), (b"k", b"1", [], NOW), (None, None, [("h", b"x")], NOW), (b"", b"", [], NOW)]
    )

    records = read(sealed(columns)).records

    assert [record.key for record in records] == [None, b"k", None, b""]
    assert [record.value for record in records] == [b"0", b"1", None, b""]
    assert [record.headers for record in records] == [(), (), (("h", b"x"),), ()]


def reported(facts: Facts) -> list[tuple[int, int, int]]:
    timestamps_ms, key_sizes, value_sizes = facts
    return list(zip(timestamps_ms, key_sizes or [-1] * len(value_sizes), value_sizes, strict=True))


@given(rows)
@settings(deadline=None)
def test_the_facts_of_a_record_are_the_same_after_encoding(rows: list[Row]) -> None:
    expected = [
        (timestamp_ms, -1 if key is None else len(key), -1 if value is None else len(value))
        for key, value, _headers, timestamp_ms in rows
    ]
    columns = filled(rows)

    assert reported(columns.facts()) == expected
    columns.encode(2)
    assert reported(columns.facts()) == expected


@pytest.mark.parametrize("bad", [-2, TIMESTAMP_MAX + 1])
@pytest.mark.parametrize("earlier", [0, 1])
def test_a_timestamp_that_the_format_cannot_hold_is_refused_alone(bad: int, earlier: int) -> None:
    columns = filled([(None, b"v", [], TIMESTAMP_MAX)] * earlier)

    with pytest.raises(InvalidRecordError, match="timestamp_ms"):
        columns.append(None, b"bad", (), bad)

    assert earlier == columns.append(None, b"good", (), 5)
    assert earlier + 1 == len(read(sealed(columns)).records)


def test_a_timestamp_delta_above_64_bits_needs_another_batch() -> None:
    columns = filled([(None, b"no time", [], -1)])

    assert columns.append(None, b"the end of time", (), TIMESTAMP_MAX) is None
    assert columns.append(None, b"just before", (), TIMESTAMP_MAX - 1) == 1

    assert [record.timestamp_ms for record in read(sealed(columns)).records] == [-1, TIMESTAMP_MAX - 1]


@pytest.mark.parametrize(("there", "taken"), [([-1], 1), ([], 2)])
def test_a_record_is_not_moved_to_a_batch_with_too_distant_timestamps(there: list[int], taken: int) -> None:
    source = filled([(None, b"v", [], moment) for moment in (5, -1)])
    later = filled([(None, b"v", [], moment) for moment in (5, TIMESTAMP_MAX)])
    target = filled([(None, b"v", [], moment) for moment in there])

    assert target.extend(source if not there else later, [0, 1]) == taken
    assert target.extend(later, [1]) == (0 if there else 1)
    moments = [*there, 5] if there else [5, -1, TIMESTAMP_MAX]
    assert [record.timestamp_ms for record in read(sealed(target)).records] == moments


@pytest.mark.parametrize("first", [0, TIMESTAMP_MAX])
def test_all_other_timestamps_fit_in_one_batch(first: int) -> None:
    moments = [first, -1, 0, TIMESTAMP_MAX - 1, TIMESTAMP_MAX]
    columns = filled([(None, b"v", [], moment) for moment in moments])

    assert moments == [record.timestamp_ms for record in read(sealed(columns)).records]


def test_a_header_name_that_utf8_cannot_hold_is_refused_alone() -> None:
    columns = filled([(None, b"v", [], NOW)])

    with pytest.raises(InvalidRecordError, match="UTF-8"):
        columns.append(None, b"bad", [("\ud800", b"x")], NOW)

    assert len(read(sealed(columns)).records) == 1


def test_record_objects_are_released_after_encoding() -> None:
    columns = filled([(b"key", b"value", [], NOW)])
    columns.encode(2)

    assert not columns._values
    assert columns._keys is None


def test_the_object_encoder_makes_object_columns_only() -> None:
    assert isinstance(ObjectEncoder().columns(ColumnsKind.OBJECTS, 100), ObjectColumns)
    assert ObjectEncoder().columns(ColumnsKind.ARROW, 100) is None


@pytest.mark.parametrize("magic", [0, 1])
def test_an_older_format_has_the_same_records_and_timestamps(magic: int) -> None:
    columns = filled([(None, b"a", [], 7), (b"k", None, [], 9), (b"", b"", [], 8)])

    encoded = columns.encode(magic)

    records = [batch.records[0] for batch in parse_batches(b"".join(encoded.chunks), compressors={})]
    assert [(record.offset, record.key, record.value) for record in records] == [
        (0, None, b"a"),
        (1, b"k", None),
        (2, b"", b""),
    ]
    assert [record.timestamp_ms for record in records] == ([7, 9, 8] if magic else [-1, -1, -1])
    assert (encoded.first_timestamp, encoded.max_timestamp) == ((7, 9) if magic else (-1, -1))
    assert encoded.count == 3
    assert reported(columns.facts()) == [(7, -1, 1), (9, 1, -1), (8, 0, 0)]


@pytest.mark.parametrize("magic", [0, 1])
def test_headers_are_refused_by_an_older_format_and_the_records_remain(magic: int) -> None:
    columns = filled([(None, b"a", [], NOW), (None, b"b", [("name", None)], NOW)])

    with pytest.raises(UnsupportedVersionError, match=rf"v{magic} cannot carry headers, and record 1 .*without"):
        columns.encode(magic)

    assert len(read(sealed(columns)).records) == 2


# `put`


def callbacks(names: str) -> list[RecordCallback | None]:
    """One for each letter; none for a dot."""
    return [None if name == "." else partial(lambda name, _delivery: name, name) for name in names]


def names(taken: Collection[tuple[int, RecordCallback]]) -> list[tuple[int, object]]:
    assert len(taken) == len(list(taken))
    return [(index, callback(object())) for index, callback in taken]


def put(columns: ObjectColumns, given: list[RecordCallback | None]) -> None:
    for callback in given:
        columns.put(None, b"v", (), NOW, callback)


@pytest.mark.parametrize("key", [None, b"key"])
@pytest.mark.parametrize("moment", [999_999, 1_000_000, 1_999_999, 2_000_000, 500_000])
def test_a_record_without_a_timestamp_gets_the_current_time(
    monkeypatch: pytest.MonkeyPatch, moment: int, key: bytes | None
) -> None:
    columns, clock = ObjectColumns(1 << 20), [1_000_000, moment, 1_000_000]
    monkeypatch.setattr(objects, "time_ns", lambda: clock[0])
    while clock:
        columns.put(key, b"v", (), None, None)
        del clock[0]

    assert list(columns.facts().timestamps_ms) == [1, moment // 1_000_000, 1]


def test_a_record_with_a_far_default_timestamp_is_counted_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = filled([(None, b"v", [], 0)])
    near = columns.size_estimate()
    for _ in range(3):
        columns.put(None, b"v", (), None, None)

    assert columns.size_estimate() >= near + 3 * (near - 1 + 7)
    assert len(columns.encode(2).chunks[0]) <= columns.size_estimate()


@pytest.mark.parametrize("key", [None, b"key"])
@pytest.mark.parametrize("timestamp_ms", [None, NOW])
def test_a_closed_batch_takes_nothing_not_even_in_the_same_millisecond(
    timestamp_ms: int | None, key: bytes | None
) -> None:
    columns = ObjectColumns(1 << 20)
    columns.put(key, b"v", (), timestamp_ms, None)
    columns.close()

    assert [columns.put(key, b"w", (), timestamp_ms, None) for _ in range(1_000)] == [None] * 1_000
    columns.encode(2)
    assert columns.put(key, b"w", (), timestamp_ms, None) is None


@pytest.mark.parametrize("key", [None, b"key"])
def test_a_full_batch_takes_nothing_not_even_in_the_same_millisecond(
    monkeypatch: pytest.MonkeyPatch, key: bytes | None
) -> None:
    monkeypatch.setattr(objects, "time_ns", lambda: NOW * 1_000_000)
    columns = ObjectColumns(3 * (OBJECT_COST + 100 + len(key or b"")))

    taken = [columns.put(key, bytes(100), (), None, None) for _ in range(4)]

    assert taken == [0, 1, 2, None]


sometimes = st.booleans()


@given(st.lists(st.tuples(parts, parts, st.just([]) | headers, sometimes, sometimes), min_size=1, max_size=40))
@settings(deadline=None)
def test_optional_parts_of_a_record_are_read_back_in_any_mix(
    rows: list[tuple[bytes | None, bytes | None, list[Header], bool, bool]],
) -> None:
    columns = ObjectColumns(1 << 24)
    for index, (key, value, section, timed, reported) in enumerate(rows):
        assert columns.put(key, value, section, NOW if timed else None, ignore if reported else None) == index

    assert [index for index, _callback in columns.take_callbacks([])] == [
        index for index, (*_parts, reported) in enumerate(rows) if reported
    ]
    assert [(record.key, record.value, list(record.headers)) for record in read(sealed(columns)).records] == [
        (key, value, section) for key, value, section, _timed, _reported in rows
    ]


@pytest.mark.parametrize("fitting", range(1, 10))
def test_records_are_moved_as_long_as_they_fit(fitting: int) -> None:
    rows: list[Row] = [(b"key", b"value", [("name", b"content")] if index % 3 == 0 else [], NOW) for index in range(10)]
    there = ObjectColumns(filled(rows[:fitting]).memory())

    assert there.extend(filled(rows), range(10)) == fitting


def ignore(_delivery: object) -> None:
    """A callback."""


def test_any_number_of_header_names_is_written_and_few_are_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(header_sections, "_names", {})
    names = [f"name-{number}" for number in range(3_000)]
    columns = filled([(None, b"v", [(name, b"")], NOW) for name in names])

    assert [record.headers for record in read(sealed(columns)).records] == [((name, b""),) for name in names]
    assert list(header_sections._names) == names[:1_000]


def test_a_long_header_name_is_not_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(header_sections, "_names", {})
    columns = filled([(None, b"v", [("n" * 1_000, b"")], NOW)])

    assert [record.headers for record in read(sealed(columns)).records] == [(("n" * 1_000, b""),)]
    assert header_sections._names == {}


@given(st.lists(st.tuples(st.none(), small, st.just([]) | headers, st.just(NOW)), min_size=1, max_size=40))
@settings(deadline=None)
def test_moved_records_use_the_same_amount_of_memory(rows: list[Row]) -> None:
    whole, there = filled(rows), ObjectColumns(1 << 24)

    for start in range(0, len(rows), 7):
        indexes = range(start, min(start + 7, len(rows)))
        assert there.extend(whole, indexes) == len(indexes)

    assert there.memory() == whole.memory()


def test_callbacks_are_taken_once_with_the_indexes_of_their_records() -> None:
    columns = ObjectColumns(1 << 20)
    put(columns, callbacks("..a.b"))

    assert names(columns.take_callbacks([])) == [(2, "a"), (4, "b")]
    assert names(columns.take_callbacks([])) == []


def test_callbacks_added_later_come_after_those_of_the_same_record() -> None:
    columns = ObjectColumns(1 << 20)
    put(columns, callbacks("a.b"))
    [late, later] = callbacks("yz")
    assert late is not None
    assert later is not None

    assert names(columns.take_callbacks([(1, late), (2, later)])) == [(0, "a"), (1, "y"), (2, "b"), (2, "z")]


def test_callbacks_move_with_their_records_and_leave_no_copy() -> None:
    source, target = ObjectColumns(1 << 20), ObjectColumns(1 << 20)
    put(source, callbacks("ab.c"))
    put(target, callbacks("."))

    assert target.extend(source, [1, 2, 3]) == 3
    put(target, callbacks("d"))

    assert names(source.take_callbacks([])) == [(0, "a")]
    assert names(target.take_callbacks([])) == [(1, "b"), (3, "c"), (4, "d")]


def test_concurrent_puts_return_the_index_of_each_record(request: pytest.FixtureRequest) -> None:
    columns = ObjectColumns(1 << 30)
    reported: list[list[tuple[int, bytes]]] = [[] for _ in range(4)]
    values = [[f"{thread}-{number}".encode() for number in range(10_000)] for thread in range(4)]
    together = threading.Barrier(4)

    def work(thread: int) -> None:
        together.wait(30)
        for value in values[thread]:
            index = columns.put(None, value, (), None, None)
            assert index is not None
            reported[thread].append((index, value))

    threads = [threading.Thread(target=work, args=(thread,)) for thread in range(4)]
    interval = sys.getswitchinterval()
    request.addfinalizer(lambda: sys.setswitchinterval(interval))
    sys.setswitchinterval(1e-6)
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)

    assert sorted(chain.from_iterable(reported)) == list(enumerate(columns._values))
    assert columns.memory() == sum(len(value or b"") + OBJECT_COST for value in columns._values)


def is_free(columns: ObjectColumns) -> bool:
    """Whether another thread may take the lock."""
    taken: list[bool] = []
    other = threading.Thread(target=lambda: taken.append(columns.lock.acquire(blocking=False)))
    other.start()
    other.join()
    return taken == [True]


def test_ctrl_c_just_after_acquiring_the_lock_leaves_it_free() -> None:
    columns = ObjectColumns(1 << 20)
    acquire = columns._acquire

    def interrupted(blocking: bool = True, timeout: float = -1) -> bool:
        acquire(blocking, timeout)
        raise KeyboardInterrupt

    columns._acquire = interrupted

    with pytest.raises(KeyboardInterrupt):
        columns.put(None, b"v", (), None, None)

    assert len(columns) == 0
    assert is_free(columns)


def test_a_nested_put_closes_the_columns_for_both(monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal handler sends to the batch that the interrupted code sends to: both records go to the next one."""
    columns = ObjectColumns(1 << 20)
    assert columns.put(b"k", b"before", (), NOW, None) == 0

    def handled() -> int:
        assert columns.put(b"k", b"nested", (), NOW, None) is None
        return NOW * 1_000_000

    monkeypatch.setattr(objects, "time_ns", handled)

    assert columns.put(b"k", b"v", (), None, None) is None
    assert len(columns) == 1
    assert columns.put(b"k", b"after", (), NOW, None) is None
    assert is_free(columns)


def test_a_finalizer_that_puts_during_a_first_put_closes_the_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = ObjectColumns(1 << 20)
    columns.put(None, b"before", (), NOW)
    begin = ObjectColumns._begin_columns

    def interrupted(self: ObjectColumns, *arguments: Any) -> Any:
        assert self.put(None, b"nested", (), NOW) is None
        return begin(self, *arguments)

    monkeypatch.setattr(ObjectColumns, "_begin_columns", interrupted)

    assert columns.put(b"k", b"v", [("name", b"content")], NOW, lambda _delivery: None) is None
    assert len(columns) == 1
    assert columns.facts().key_sizes is None
    assert columns.take_callbacks([]) == []
    assert columns.encode(2).count == 1
    assert is_free(columns)
