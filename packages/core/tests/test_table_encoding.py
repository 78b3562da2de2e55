"""Rows of a table become the batches that `send` would have made of them, whatever Arrow keeps them in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import UnsupportedVersionError
from ottla.interfaces import Cut, Header, TableRows
from ottla.recordbatch import arrow
from ottla.recordbatch.arrow import cut_rows
from ottla.recordbatch.header_sections import encode_headers
from ottla.recordbatch.objects import ObjectColumns
from ottla.tables.headers import header_sections
from ottla_accel.tables import cut_rows as native_cut_rows

CutRows = Callable[..., Iterator[Cut]]
NOW = 1_700_000_000_000
ENOUGH_BYTES = 1 << 40
LIST = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
MAP = pa.map_(pa.string(), pa.binary())

Row = tuple[bytes | None, bytes | None, list[Header], int]
parts = (
    st.none()
    | st.binary(max_size=40)
    | st.builds(lambda size: b"x" * size, st.sampled_from((63, 64, 8191, 8192, 70_000)))
)
headers: st.SearchStrategy[list[Header]] = st.lists(
    st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=70)), max_size=3
)
times = st.integers(NOW - 70, NOW + 70) | st.integers(0, 2**63 - 1)
rows = st.lists(st.tuples(parts, parts, headers, times), min_size=1, max_size=150)
both = pytest.mark.parametrize("cut", [cut_rows, native_cut_rows], ids=["python", "native"])


def table_rows(rows: list[Row], *, before: int = 0, kind: Any = None) -> TableRows:
    """The rows as slices of longer arrays, *before* of whose rows are not theirs."""
    kind = kind or pa.binary()
    others: list[Row] = [(b"other", None, [("other", b"")], 1)] * before
    keys, values, sections, times = zip(*others, *rows, strict=True)

    def column(content: Any, kind: Any) -> Any:
        return pa.array(content, kind).slice(before)

    return TableRows(
        count=len(rows),
        now_ms=NOW,
        keys=column(keys, kind),
        values=column(values, kind),
        headers=column([encode_headers(section) for section in sections], pa.binary()),
        timestamps=column(times, pa.int64()),
    )


def content(cut: Cut, magic: int = 2) -> tuple[object, ...]:
    encoded, facts = cut.columns.encode(magic), cut.columns.facts()
    return (
        b"".join(encoded.chunks),
        encoded.first_timestamp,
        encoded.max_timestamp,
        encoded.count,
        list(facts.timestamps_ms),
        [-1] * len(cut.columns) if facts.key_sizes is None else list(facts.key_sizes),
        list(facts.value_sizes),
    )


def sent_one_by_one(rows: list[Row]) -> Cut:
    columns = ObjectColumns(ENOUGH_BYTES)
    for row in rows:
        columns.append(*row)
    return Cut(-1, range(len(rows)), columns)


@both
@given(rows=rows, before=st.integers(0, 9), large=st.booleans())
def test_a_batch_has_the_bytes_of_row_by_row_appends(cut: CutRows, rows: list[Row], before: int, large: bool) -> None:
    kind = pa.large_binary() if large else pa.binary()

    [made] = cut(table_rows(rows, before=before, kind=kind), None, max_bytes=ENOUGH_BYTES)

    assert list(made.rows) == list(range(len(rows)))
    assert content(made) == content(sent_one_by_one(rows))


@both
@given(rows=rows, draw=st.data(), max_bytes=st.integers(1, 3_000))
def test_every_row_is_in_one_batch_in_order_and_batches_keep_their_size(
    cut: CutRows, rows: list[Row], draw: st.DataObject, max_bytes: int
) -> None:
    partitions = draw.draw(st.lists(st.integers(0, 5), min_size=len(rows), max_size=len(rows)))

    cuts = list(cut(table_rows(rows), pa.array(partitions, pa.int32()), max_bytes=max_bytes))

    for partition in range(6):
        placed = [row for made in cuts if made.partition == partition for row in made.rows]
        assert placed == [row for row, wanted in enumerate(partitions) if wanted == partition]
    for made in cuts:
        assert made.columns.size_estimate() <= max_bytes or len(made.rows) == 1
        assert content(made) == content(sent_one_by_one([rows[row] for row in made.rows]))


@given(rows=rows, draw=st.data(), max_bytes=st.integers(1, 3_000), at_once=st.integers(1, 6_000))
def test_rows_encoded_in_groups_make_the_batches_of_all_rows_at_once(
    rows: list[Row], draw: st.DataObject, max_bytes: int, at_once: int
) -> None:
    partitions = draw.draw(st.lists(st.integers(0, 5), min_size=len(rows), max_size=len(rows)))

    def made(encoded_at_once: int) -> list[tuple[object, ...]]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(arrow, "ENCODED_AT_ONCE", encoded_at_once)
            cuts = list(cut_rows(table_rows(rows), pa.array(partitions, pa.int32()), max_bytes=max_bytes))
        return [(cut.partition, list(cut.rows), *content(cut)) for cut in cuts]

    assert made(at_once) == made(ENOUGH_BYTES)


@both
@pytest.mark.parametrize("timestamps", [None, NOW])
def test_batches_of_rows_of_one_size_have_their_own_offsets(cut: CutRows, timestamps: int | None) -> None:
    key, value, first, second = b"key", b"v" * 70, 9_000, 5
    made = TableRows(
        count=first + second,
        now_ms=NOW,
        keys=pa.array([key] * (first + second), pa.binary()),
        values=pa.array([value] * (first + second), pa.binary()),
        timestamps=None if timestamps is None else pa.array([timestamps] * (first + second), pa.int64()),
    )

    cuts = list(cut(made, pa.array([0] * first + [1] * second, pa.int32()), max_bytes=ENOUGH_BYTES))

    assert [content(batch) for batch in cuts] == [
        content(sent_one_by_one([(key, value, [], NOW)] * count)) for count in (first, second)
    ]


@both
def test_missing_columns_are_null_and_timestamps_are_the_current_time(cut: CutRows) -> None:
    [made] = cut(TableRows(count=100, now_ms=NOW), None, max_bytes=ENOUGH_BYTES)

    assert content(made) == content(sent_one_by_one([(None, None, [], NOW)] * 100))


@both
def test_no_rows_make_no_batch(cut: CutRows) -> None:
    nothing = pa.array([], pa.binary())

    assert list(cut(TableRows(count=0, now_ms=NOW, values=nothing), pa.array([], pa.int32()), max_bytes=1)) == []


@both
def test_finished_columns_take_no_more_rows(cut: CutRows) -> None:
    [made] = cut(TableRows(count=2, now_ms=NOW), None, max_bytes=ENOUGH_BYTES)

    made.columns.allow(ENOUGH_BYTES)

    assert made.columns.append(None, b"v", (), NOW) is None


@both
@pytest.mark.parametrize("magic", [0, 1])
def test_an_older_broker_gets_its_own_format(cut: CutRows, magic: int) -> None:
    rows: list[Row] = [(b"k", b"v%d" % number, [], NOW + number) for number in range(20)]

    [made] = cut(table_rows(rows), None, max_bytes=ENOUGH_BYTES)

    assert content(made, magic)[:4] == content(sent_one_by_one(rows), magic)[:4]


@both
def test_headers_are_refused_by_a_format_without_them(cut: CutRows) -> None:
    [made] = cut(table_rows([(None, b"v", [("h", b"")], NOW)]), None, max_bytes=ENOUGH_BYTES)

    with pytest.raises(UnsupportedVersionError, match="header"):
        made.columns.encode(1)


@given(rows=st.lists(st.none() | headers, max_size=40), draw=st.data())
@pytest.mark.parametrize("kind", [LIST, pa.large_list(LIST.value_type), MAP], ids=["list", "large_list", "map"])
def test_headers_of_a_column_are_encoded_like_those_of_a_record(
    rows: list[list[Header] | None], kind: Any, draw: st.DataObject
) -> None:
    pairs = [
        row if row is None or kind is MAP else [{"key": name, "value": content} for name, content in row]
        for row in rows
    ]
    start = draw.draw(st.integers(0, len(rows)))

    sections = header_sections(pa.array(pairs, kind).slice(start))

    assert sections.to_pylist() == [encode_headers(row or ()) for row in rows[start:]]


def test_a_header_without_a_name_makes_no_section() -> None:
    nameless = [[{"key": None, "value": b"1"}], [None], [{"key": "a", "value": None}]]

    assert header_sections(pa.array(nameless, LIST)).to_pylist() == [None, None, b"\x02\x02a\x01"]
