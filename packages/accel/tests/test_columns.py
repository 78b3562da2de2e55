"""Native columns are the core's own columns in another form: whatever is put in, the same bytes and facts come out."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from time import time_ns
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla import RecordMetadata
from ottla.accumulator.batch import ProducerBatch
from ottla.accumulator.batch_outcome import Acknowledged
from ottla.errors import InvalidRecordError, UnsupportedVersionError
from ottla.interfaces import Columns, ColumnsKind, Header
from ottla.recordbatch.callbacks import RecordCallback
from ottla.recordbatch.objects import ObjectColumns
from ottla.recordbatch.record_limits import TIMESTAMP_MAX
from ottla_accel.columns import FACT_SIZE, NativeColumns
from ottla_accel.plugin import NativeEncoder, ottla_encoder

pytestmark = pytest.mark.unmeasured

NOW = 1_700_000_000_000
ENOUGH_BYTES = 1 << 24
HANG_GUARD = 20.0

Row = tuple[bytes | None, bytes | None, list[Header], int]

parts = (
    st.none()
    | st.binary(max_size=40)
    | st.builds(lambda size: b"x" * size, st.sampled_from((63, 64, 8191, 8192, 70_000)))
)
headers: st.SearchStrategy[list[Header]] = st.lists(
    st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=70)), max_size=3
)
timestamps = (
    st.integers(NOW - 70, NOW + 70) | st.integers(NOW - 2**40, NOW + 2**40) | st.integers(-1, TIMESTAMP_MAX - 1)
)
rows = st.lists(st.tuples(parts, parts, headers, timestamps), min_size=1, max_size=150)


def filled(columns: Columns, rows: list[Row]) -> Columns:
    assert [columns.append(*row) for row in rows] == list(range(len(rows)))
    return columns


def content(columns: Columns, magic: int = 2) -> tuple[object, ...]:
    keys = columns.keys()
    encoded = columns.encode(magic)
    facts = columns.facts()
    return (
        list(keys),
        b"".join(encoded.chunks),
        encoded.first_timestamp,
        encoded.max_timestamp,
        encoded.count,
        len(columns),
        list(facts.timestamps_ms),
        [-1] * len(columns) if facts.key_sizes is None else list(facts.key_sizes),
        list(facts.value_sizes),
    )


@given(
    rows=rows,
    base_offset=st.just(-1) | st.integers(0, 2**62),
    log_append_time_ms=st.just(-1) | st.integers(0, TIMESTAMP_MAX),
)
def test_the_same_records_have_the_same_metadata(rows: list[Row], base_offset: int, log_append_time_ms: int) -> None:
    outcome = Acknowledged(base_offset=base_offset, log_append_time_ms=log_append_time_ms)
    found = []
    for columns in (NativeColumns(ENOUGH_BYTES), ObjectColumns(ENOUGH_BYTES)):
        batch = ProducerBatch(topic="t", partition=3, columns=filled(columns, rows), now=0.0)
        batch.complete(outcome)
        one_by_one = [batch.metadata(index, outcome) for index in range(len(rows))]
        found += [one_by_one, batch.all_metadata()]

    assert found == [found[0]] * 4
    assert {type(each) for each in found[1]} == {RecordMetadata}


@pytest.mark.parametrize(("first", "end"), [(-1, 1), (0, 2), (1, 0), (2, 2)])
def test_metadata_of_records_that_do_not_exist_are_refused(first: int, end: int) -> None:
    columns = NativeColumns(ENOUGH_BYTES)
    columns.append(None, b"v", [], NOW)

    with pytest.raises(IndexError, match="there are 1 records"):
        columns.metadata("t", 0, first, end, 7, -1)


@given(rows=rows)
def test_the_same_records_make_the_same_bytes_and_facts(rows: list[Row]) -> None:
    native, objects = filled(NativeColumns(ENOUGH_BYTES), rows), filled(ObjectColumns(ENOUGH_BYTES), rows)

    assert content(native) == content(objects)


@given(rows=rows.map(lambda rows: [(key, value, [], timestamp) for key, value, _headers, timestamp in rows]))
@pytest.mark.parametrize("magic", [0, 1])
def test_formats_before_v2_make_the_same_bytes(magic: int, rows: list[Row]) -> None:
    native, objects = filled(NativeColumns(ENOUGH_BYTES), rows), filled(ObjectColumns(ENOUGH_BYTES), rows)

    assert content(native, magic) == content(objects, magic)


def test_an_older_format_refuses_headers_and_the_records_remain() -> None:
    columns = filled(NativeColumns(ENOUGH_BYTES), [(None, b"a", [], NOW), (b"k", b"b", [("h", None)], NOW)])

    with pytest.raises(UnsupportedVersionError, match="header"):
        columns.encode(1)

    assert content(columns) == content(
        filled(ObjectColumns(ENOUGH_BYTES), [(None, b"a", [], NOW), (b"k", b"b", [("h", None)], NOW)])
    )


@given(rows=rows, data=st.data())
def test_records_move_to_other_columns_unchanged(rows: list[Row], data: st.DataObject) -> None:
    chosen = sorted(data.draw(st.lists(st.integers(0, len(rows) - 1), min_size=1, max_size=60)))
    native, objects = NativeColumns(ENOUGH_BYTES), ObjectColumns(ENOUGH_BYTES)

    taken = native.extend(filled(NativeColumns(ENOUGH_BYTES), rows), chosen)

    assert taken == objects.extend(filled(ObjectColumns(ENOUGH_BYTES), rows), chosen) == len(chosen)
    assert content(native) == content(objects)


@given(rows=rows, limit=st.integers(0, 3000))
def test_memory_stays_within_its_limit_and_the_size_is_exact(rows: list[Row], limit: int) -> None:
    columns = NativeColumns(limit)

    placed = [columns.append(*row) for row in rows]

    assert placed[0] == 0  # an empty batch takes any record
    assert columns.memory() <= max(limit, columns.memory() if len(columns) == 1 else 0)
    size, memory, count = columns.size_estimate(), columns.memory(), len(columns)
    assert len(b"".join(columns.encode(2).chunks)) == size
    assert memory == size + count * FACT_SIZE


def test_a_larger_limit_allows_more_records() -> None:
    columns = NativeColumns(0)
    row: Row = (None, bytes(100), [], NOW)
    columns.append(*row)
    assert columns.append(*row) is None

    columns.allow(columns.memory() * 2 + 2)

    assert (columns.append(*row), columns.append(*row)) == (1, None)


def test_records_move_only_while_they_fit() -> None:
    run = filled(NativeColumns(ENOUGH_BYTES), [(b"k", bytes(100), [], NOW)] * 10)
    columns = NativeColumns(350)

    assert columns.extend(run, range(10)) == 2
    assert columns.extend(run, range(2, 10)) == 0
    assert len(columns) == 2


@pytest.mark.parametrize("how", ["close", "release", "encode"])
def test_closed_columns_take_nothing_whatever_the_limit(how: str) -> None:
    columns = filled(NativeColumns(ENOUGH_BYTES), [(None, b"a", [], NOW)])

    columns.encode(2) if how == "encode" else getattr(columns, how)()
    columns.allow(ENOUGH_BYTES)

    assert columns.append(None, b"b", (), NOW) is None
    assert len(columns) == 1
    assert list(columns.facts().timestamps_ms) == [NOW]


@pytest.mark.parametrize("timestamp_ms", [-2, TIMESTAMP_MAX + 1])
def test_a_time_that_the_format_cannot_hold_is_refused(timestamp_ms: int) -> None:
    columns = filled(NativeColumns(ENOUGH_BYTES), [(None, b"a", [], NOW)])

    with pytest.raises(InvalidRecordError, match="timestamp_ms"):
        columns.append(None, b"b", (), timestamp_ms)

    assert len(columns) == 1


def test_a_time_too_far_from_the_first_needs_another_batch() -> None:
    columns = filled(NativeColumns(ENOUGH_BYTES), [(None, b"a", [], -1)])

    assert columns.append(None, b"b", (), TIMESTAMP_MAX) is None
    assert columns.append(None, b"b", (), TIMESTAMP_MAX - 1) == 1


@pytest.mark.parametrize(("key", "value"), [("text", b"v"), (b"k", "text"), (b"k", bytearray(b"v")), (1, b"v")])
def test_types_other_than_bytes_are_refused_and_leave_nothing_behind(key: object, value: object) -> None:
    columns = NativeColumns(ENOUGH_BYTES)

    with pytest.raises(TypeError):
        columns.append(key, value, (), NOW)  # type: ignore[arg-type]

    assert (len(columns), columns.size_estimate()) == (0, 0)


def test_the_section_outlives_its_columns_and_is_read_only() -> None:
    columns = filled(NativeColumns(ENOUGH_BYTES), [(b"k", b"value", [], NOW)] * 100)
    expected = content(filled(ObjectColumns(ENOUGH_BYTES), [(b"k", b"value", [], NOW)] * 100))[1]
    [section] = columns.encode(2).chunks

    del columns
    gc.collect()

    assert isinstance(section, memoryview)
    assert section.readonly
    assert bytes(section) == expected


def test_no_object_is_kept_for_a_record() -> None:
    key, value = b"key" * 10, b"value" * 10
    before = sys.getrefcount(key), sys.getrefcount(value)

    columns = filled(NativeColumns(ENOUGH_BYTES), [(key, value, [], NOW)] * 10)

    assert (sys.getrefcount(key), sys.getrefcount(value)) == before
    assert len(columns) == 10


GROWS_ALONE = """
import tracemalloc
from ottla_accel.columns import NativeColumns

def fill():
    columns = NativeColumns(10_000_000)
    for number in range(20):
        columns.append(b"key", bytes(50_000), [], 1_700_000_000_000 + number)
    return columns

fill().release()
tracemalloc.start()
fill().release()
print(tracemalloc.get_traced_memory()[0])
"""


def test_a_batch_that_grows_alone_gets_the_memory_of_the_one_before() -> None:
    """In a process of its own, in which no other batches have had memory."""
    done = subprocess.run([sys.executable, "-c", GROWS_ALONE], capture_output=True, text=True, check=True, timeout=60)

    assert int(done.stdout) < 500_000


def names(
    columns: NativeColumns | ObjectColumns, given: Sequence[tuple[int, RecordCallback]] = ()
) -> list[tuple[int, object]]:
    return [(index, callback(object())) for index, callback in columns.take_callbacks(list(given))]


def named(name: str) -> RecordCallback:
    return lambda *_reported: name


@pytest.mark.parametrize("kind", [NativeColumns, ObjectColumns])
def test_a_callback_is_kept_only_with_its_record(kind: type[NativeColumns | ObjectColumns]) -> None:
    columns = kind(ENOUGH_BYTES)
    assert columns.put(None, b"v", (), NOW, named("first")) == 0
    assert columns.put(None, b"v", (), NOW, None) == 1
    with pytest.raises(InvalidRecordError):
        columns.put(None, b"v", (), 2**63, named("refused for its time"))
    with pytest.raises(InvalidRecordError):
        columns.put(None, b"v", [("\ud800", b"")], NOW, named("refused for its header"))
    assert columns.put(None, b"v", (), NOW, named("second")) == 2
    columns.close()
    assert columns.put(None, b"v", (), NOW, named("too late")) is None

    assert names(columns) == [(0, "first"), (2, "second")]
    assert names(columns) == []


@pytest.mark.parametrize("kind", [NativeColumns, ObjectColumns])
def test_added_callbacks_come_after_those_of_the_same_record(
    kind: type[NativeColumns | ObjectColumns],
) -> None:
    columns = kind(ENOUGH_BYTES)
    for own in (named("a"), None, named("b")):
        columns.put(None, b"v", (), NOW, own)

    added = [(1, named("y")), (2, named("z"))]
    assert names(columns, added) == [(0, "a"), (1, "y"), (2, "b"), (2, "z")]


class Interrupted(Sequence[int]):
    """The first *count* indexes, during whose reading something else happens, once."""

    def __init__(self, count: int, happens: Callable[[], object]) -> None:
        self._indexes = range(count)
        self._happens: Callable[[], object] | None = happens

    def __len__(self) -> int:
        return len(self._indexes)

    def __getitem__(self, place: Any) -> Any:
        happens, self._happens = self._happens, None
        if happens is not None:
            happens()
        return self._indexes[place]


@pytest.mark.parametrize("kind", [NativeColumns, ObjectColumns])
def test_records_moved_to_a_batch_stay_together_under_concurrent_sends(
    kind: type[NativeColumns | ObjectColumns],
) -> None:
    """Deliveries get the offset of the first record, and count from there."""

    def batch_of(*values: bytes) -> ProducerBatch:
        batch = ProducerBatch(topic="t", partition=0, columns=kind(ENOUGH_BYTES), now=0.0)
        for value in values:
            batch.append(None, value, (), NOW, None)
        return batch

    run, batch, placed = batch_of(b"a", b"b", b"c"), batch_of(b"first"), list[int | None]()
    batch.held_bytes = ENOUGH_BYTES
    begun = threading.Event()

    def append() -> None:
        begun.set()
        placed.append(batch.append(None, b"other", (), NOW, None))

    other = threading.Thread(target=append)

    def send_meanwhile() -> None:
        other.start()
        assert begun.wait(HANG_GUARD)
        other.join(0.05)  # all that it would take, if it need not wait

    start, taken = batch.take_from(run, Interrupted(3, send_meanwhile), memory=ENOUGH_BYTES)
    other.join(HANG_GUARD)

    assert (start, taken) == (1, 3)
    assert placed == [4]


def test_a_refused_record_leaves_no_callback() -> None:
    columns = NativeColumns(ENOUGH_BYTES)
    with pytest.raises(TypeError, match="a key or value must be bytes or None, not str"):
        columns.put(None, "text", (), NOW, named("refused"))  # type: ignore[arg-type]
    assert columns.put(None, b"v", (), NOW, None) == 0

    assert names(columns) == []


def test_a_record_without_a_timestamp_gets_the_current_time() -> None:
    columns = NativeColumns(ENOUGH_BYTES)
    before = time_ns() // 1_000_000
    columns.put(None, b"v", (), None, None)

    assert before <= columns.facts().timestamps_ms[0] <= time_ns() // 1_000_000


def test_a_batch_holds_few_objects_that_the_garbage_collector_visits() -> None:
    """Thousands of partitions have as many batches, which it goes through again and again."""

    def batch() -> ProducerBatch:
        made = ProducerBatch(topic="t", partition=0, columns=NativeColumns(ENOUGH_BYTES), now=0.0)
        made.append(None, b"v", (), None, None)
        return made

    batch()  # what the first one makes stays for all others
    gc.collect()
    gc.disable()
    try:
        before = len(gc.get_objects())
        batches = [batch() for _ in range(100)]
        made = len(gc.get_objects()) - before
    finally:
        gc.enable()

    assert made <= 4 * len(batches) + 1, "a batch, its columns, their `put` and a lock"


def test_the_encoder_takes_only_records_of_send() -> None:
    encoder = ottla_encoder()

    assert isinstance(encoder, NativeEncoder)
    assert isinstance(encoder.columns(ColumnsKind.OBJECTS, 1), NativeColumns)
    assert encoder.columns(ColumnsKind.ARROW, 1) is None
