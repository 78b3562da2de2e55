"""The requirements for an encoder's optional abilities for tables, which need pyarrow.

Each test is skipped if the encoder lacks the ability.
"""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Final

import attrs
import pytest

from ottla.interfaces import (
    AvroColumn,
    AvroKind,
    AvroType,
    Columns,
    Cut,
    RecordEncoder,
    SupportsAvroRows,
    SupportsAvroValues,
    SupportsCutRows,
    SupportsJsonRows,
    SupportsMurmur2Partitions,
    TableRows,
)
from ottla.plugins.partitioners.murmur2 import partition_for_key
from ottla.recordbatch.header_sections import encode_headers
from ottla_testkit.conformance.harness.arrow import pyarrow
from ottla_testkit.conformance.harness.bounded_suite import BoundedSuite, check_contract
from ottla_testkit.conformance.harness.checked_layer import check, fail, needed
from ottla_testkit.conformance.harness.columns import check_bytes, check_facts
from ottla_testkit.conformance.harness.rows import NOW, Row, drawn

_ROUNDS: Final = 20
_ENOUGH_BYTES: Final = 1 << 40
_DATA: Final[Sequence[tuple[Any, bytes]]] = (
    ({"id": -1}, b"p\1\0\2"),
    ({"id": 2**31 - 1, "tags": ["\u00e9", None], "mark": "a"}, b"p\xfe\xff\xff\xff\x0f\4\2\4\xc3\xa9\0\0\0"),
    ({"id": 0, "tags": []}, b"p\0\0\2"),
)
_NOT_AVRO: Final[Sequence[Any]] = (
    None,
    7,
    {},
    {"id": 2**31},
    {"id": True},
    {"id": "1"},
    {"id": 1, "tags": [1]},
    {"id": 1, "mark": "c"},
    {"id": 1, "x": 1},
)
_LARGER: Final = {"id": -1, "x": 1}
"""Data with a field that its type lacks."""
_DATA_OF_LARGER: Final = b"p\1\0\2"
_SPECIAL: Final = ("", 'a"b\\c', "\n\t\x00\x1f", "\u00e9\u4e2d\U0001f600")


class TableRequirements(BoundedSuite):
    """A part of `RecordEncoderConformance`."""

    def test_rows_of_a_table_are_encoded_like_records(self, encoder: RecordEncoder, chance: random.Random) -> None:
        for _ in range(_ROUNDS):
            rows = _sendable(chance)
            cuts = _cut(encoder, _table(rows, chance), None, _ENOUGH_BYTES)
            _check_cuts(cuts, rows, [-1] * len(rows), _ENOUGH_BYTES)

    def test_rows_stay_in_order_within_their_partitions(self, encoder: RecordEncoder, chance: random.Random) -> None:
        pa = pyarrow()
        for _ in range(_ROUNDS):
            rows, max_bytes = _sendable(chance), chance.choice((1, 200, 3000, _ENOUGH_BYTES))
            chosen = [chance.randrange(5) for _ in rows]
            cuts = _cut(encoder, _table(rows, chance), pa.array(chosen, pa.int32()), max_bytes)
            _check_cuts(cuts, rows, chosen, max_bytes)

    @pytest.mark.parametrize("magic", [0, 1])
    def test_rows_of_a_table_are_encoded_in_older_formats(
        self, encoder: RecordEncoder, chance: random.Random, magic: int
    ) -> None:
        rows = [row._replace(headers=()) for row in _sendable(chance)]
        for cut in _cut(encoder, _table(rows, chance), None, _ENOUGH_BYTES):
            check_bytes(cut.columns, [rows[index] for index in cut.rows], magic=magic)

    def test_null_columns_and_no_rows_can_be_cut(self, encoder: RecordEncoder) -> None:
        rows = [Row(None, None)] * 70
        _check_cuts(_cut(encoder, TableRows(count=70, now_ms=NOW), None, _ENOUGH_BYTES), rows, [-1] * 70, _ENOUGH_BYTES)
        check(_cut(encoder, TableRows(count=0, now_ms=NOW), None, 1) == [], "cut_rows() of no rows made a batch")

    def test_keys_of_a_table_have_the_partitions_of_java(self, encoder: RecordEncoder, chance: random.Random) -> None:
        murmur2_partitions = needed(encoder, SupportsMurmur2Partitions).murmur2_partitions
        pa = pyarrow()
        sized = [chance.randbytes(size) for size in range(40)]
        for kind, keys, partitions in itertools.product((pa.binary(), pa.large_binary()), (sized, []), (1, 3, 5000)):
            column = pa.array([b"of another table", *keys], kind).slice(1)
            result: Any = murmur2_partitions(column, partitions)
            chosen = memoryview(result).cast("B").cast("i").tolist() if keys else []
            size = memoryview(result).nbytes
            check(
                size == 4 * len(keys),
                f"murmur2_partitions() of {len(keys)} keys returned {size} bytes, not four for each",
            )
            for key, partition in zip(keys, chosen, strict=True):
                expected = partition_for_key(key, partitions)
                check(
                    partition == expected,
                    f"murmur2_partitions() put the key {key[:24]!r} on partition {partition} of {partitions}; Java's "
                    f"producer puts it on {expected}",
                )

    def test_rows_become_the_json_of_their_fields(self, encoder: RecordEncoder, chance: random.Random) -> None:
        json_rows = needed(encoder, SupportsJsonRows).json_rows
        pa = pyarrow()
        texts = [None, *_SPECIAL, "plain"]
        columns = {
            "text": pa.array(texts, pa.string()),
            'na"me\u00e9': pa.array([None, *range(-2, 3)], pa.int64()),
            "flag": pa.array([True, None, False] * 2, pa.bool_()),
            "other": pa.array(range(6), pa.duration("ms")),
            "null": pa.nulls(6),
        }
        expected = [{name: column[row].as_py() for name, column in columns.items()} for row in range(6)]
        for row, fields in enumerate(expected):
            fields["other"] = f"<{row}>"  # as `_text` writes it
        for start, names in itertools.product((0, 2), (list(columns), ["null"], ["text"])):
            parts = [columns[name].slice(start) for name in names]
            found = _texts(json_rows(names, parts, count=6 - start, text=_text), 6 - start)
            wanted = [{name: row[name] for name in names if row[name] is not None} for row in expected[start:]]
            for text, fields in zip(found, wanted, strict=True):
                check(
                    _parsed(text) == fields,
                    f"json_rows() wrote {text!r} for {fields!r}; null fields are left out, and it calls `text` for "
                    "types that it does not know",
                )

    def test_rows_become_the_avro_of_their_columns(self, encoder: RecordEncoder) -> None:
        avro_rows = needed(encoder, SupportsAvroRows).avro_rows
        rows, wanted = _avro()
        for start in (0, 1, 4):
            column = attrs.evolve(rows, array=rows.array.slice(start), children=_sliced(rows.children, start))
            count = len(wanted) - start
            offsets, content = avro_rows(column, count=count, prefix=b"\0\7")
            ends, made = memoryview(offsets).cast("B").cast("i").tolist(), bytes(content)
            found = [made[first:last] for first, last in itertools.pairwise(ends)]
            check(
                found == wanted[start:],
                f"avro_rows() of {count} rows wrote {found}, and should write {wanted[start:]}",
            )

    def test_data_becomes_avro_or_is_left_to_the_serializer(self, encoder: RecordEncoder) -> None:
        item = AvroType(kind=AvroKind.STRING, value_branch=1, null_branch=0)
        row = AvroType(
            kind=AvroKind.RECORD,
            names=["id", "tags", "mark"],
            defaults=[None, b"\0", b"\2"],
            children=[
                AvroType(kind=AvroKind.INT),
                AvroType(kind=AvroKind.ARRAY, children=[item]),
                AvroType(kind=AvroKind.ENUM, names=["a", "b"]),
            ],
        )
        avro_values = needed(encoder, SupportsAvroValues).avro_values
        write = avro_values(row)
        for data, expected in _DATA:
            made = write(b"p", data)
            check(made == expected, f"avro_values() made {made!r} of {data!r}, and should make {expected!r}")
        for data in _NOT_AVRO:
            made = write(b"p", data)
            check(made is None, f"avro_values() made {made!r} of {data!r}, which does not fit; it should return None")
        made = avro_values(attrs.evolve(row, ignores_unknown_fields=True))(b"p", _LARGER)
        check(
            made in (None, _DATA_OF_LARGER),
            f"avro_values() with ignores_unknown_fields made {made!r} of {_LARGER!r}, and should make "
            f"{_DATA_OF_LARGER!r} or None",
        )


def _sendable(chance: random.Random) -> list[Row]:
    """Return records that a table can have: none is from before 1970."""
    return [row for row in drawn(chance) if row.timestamp_ms >= 0] or [Row(None, b"v")]


def _table(rows: Sequence[Row], chance: random.Random) -> TableRows:
    """Return the rows as slices of longer arrays."""
    pa = pyarrow()
    kind = chance.choice((pa.binary(), pa.large_binary()))
    before = [Row(b"other", None, (("other", b""),), 1)] * chance.randrange(9)
    keys, values, headers, times = zip(*before, *rows, strict=True)

    def column(cells: Sequence[Any], kind: Any) -> Any:
        return pa.array(cells, kind).slice(len(before))

    return TableRows(
        count=len(rows),
        now_ms=NOW,
        keys=column(keys, kind),
        values=column(values, kind),
        headers=column([encode_headers(each) for each in headers], pa.binary()),
        timestamps=column(times, pa.int64()),
    )


def _cut(encoder: RecordEncoder, rows: TableRows, partitions: Any | None, max_bytes: int) -> list[Cut]:
    cut_rows = needed(encoder, SupportsCutRows).cut_rows
    pyarrow()
    cuts: list[Any] = []
    for cut in cut_rows(rows, partitions, max_bytes=max_bytes):
        check(isinstance(cut, Cut), f"cut_rows() returned {type(cut).__name__}; it must be a Cut")
        check_contract(cut.columns, Columns, made_by="cut_rows()")
        cuts.append(cut)
    return cuts


def _check_cuts(cuts: Sequence[Cut], rows: Sequence[Row], partitions: Sequence[int], max_bytes: int) -> None:
    """Check that each row is in one batch of its partition, in order, with the bytes of the core's own encoder."""
    for partition in {*partitions, *(cut.partition for cut in cuts)}:
        placed = [index for cut in cuts if cut.partition == partition for index in cut.rows]
        wanted = [index for index, chosen in enumerate(partitions) if chosen == partition]
        check(
            placed == wanted,
            f"cut_rows() put {len(placed)} rows into batches of partition {partition}, {placed[:9]}; these are its "
            f"rows, in order: {wanted[:9]}",
        )
    for cut in cuts:
        chosen = [rows[index] for index in cut.rows]
        check(bool(chosen), "cut_rows() made a batch of no rows")
        cut.columns.allow(_ENOUGH_BYTES)
        check(
            cut.columns.append(*Row(None, b"late")) is None,
            "append() of columns of cut_rows() took a record: their rows are in the table's result by their indexes",
        )
        check(len(cut.columns) == len(chosen), f"a batch of {len(chosen)} rows has {len(cut.columns)} records by len()")
        estimate = cut.columns.size_estimate()
        check_facts(cut.columns, chosen, "before")
        size = check_bytes(cut.columns, chosen)
        check_facts(cut.columns, chosen, "after encode()")
        check(
            size <= max_bytes or len(chosen) == 1,
            f"cut_rows() made a batch of {size} bytes and {len(chosen)} rows, where {max_bytes} bytes are the most",
        )
        check(
            size <= estimate, f"a batch of {size} bytes has {estimate} by size_estimate(): requests would be too large"
        )


def _text(column: Any) -> tuple[Any, str]:
    """Return the text of a column of a type that `json_rows` does not know, or leaves to the core."""
    pa = pyarrow()
    if pa.types.is_duration(column.type):
        shown = [f"<{cell.value}>" for cell in column]
        return pa.array(shown, pa.string()), '"'
    cells = [None if cell is None else json.dumps(cell) for cell in column.to_pylist()]
    return pa.array(cells, pa.string()), ""


def _avro() -> tuple[AvroColumn, Sequence[bytes]]:
    """Return rows of columns of many kinds, and their bytes after the prefix; the fourth row is null."""
    pa = pyarrow()
    numbers = pa.array([0, -1, 64, None, 2**62], pa.int64())
    texts = pa.array(["", "\u00e9", "a" * 70, None, None], pa.large_string())
    lists = pa.array([[1.5], [], [0.0, -2.0], None, [1.0]], pa.list_(pa.float32()))
    decimals = pa.array([Decimal(n) for n in (0, 127, -128, 0, 128)], pa.decimal128(38, 0))
    fields = [
        AvroColumn(kind=AvroKind.LONG, array=numbers),
        AvroColumn(kind=AvroKind.BYTES, array=texts, value_branch=1, null_branch=0),
        AvroColumn(
            kind=AvroKind.ARRAY,
            array=lists,
            children=[AvroColumn(kind=AvroKind.FLOAT, array=lists.values)],
        ),
        AvroColumn(kind=AvroKind.DECIMAL, array=decimals),
        AvroColumn(kind=AvroKind.CONSTANT, data=b"\2x"),
    ]
    is_null = pa.array([False, False, False, True, False])
    names = [f"f{number}" for number in range(4)]
    rows = pa.StructArray.from_arrays([numbers, texts, lists, decimals], names=names, mask=is_null)
    parts = [
        (b"\0", b"\2\0", b"\2\0\0\xc0?\0", b"\2\0"),
        (b"\1", b"\2\4\xc3\xa9", b"\0", b"\2\x7f"),
        (b"\x80\1", b"\2\x8c\1" + b"a" * 70, b"\4\0\0\0\0\0\0\0\xc0\0", b"\2\x80"),
        None,
        (b"\x80" * 8 + b"\x80\1", b"\0", b"\2\0\0\x80?\0", b"\4\0\x80"),
    ]
    wanted = [b"" if part is None else b"\0\7" + b"".join(part) + b"\2x" for part in parts]
    return AvroColumn(kind=AvroKind.RECORD, array=rows, children=fields), wanted


def _sliced(columns: Sequence[AvroColumn], start: int) -> Sequence[AvroColumn]:
    return [each if each.array is None else attrs.evolve(each, array=each.array.slice(start)) for each in columns]


def _texts(result: Any, count: int) -> Sequence[str]:
    offsets, content = result
    starts, text = memoryview(offsets).cast("B").cast("i").tolist(), bytes(content)
    check(
        len(starts) == count + 1 and starts == sorted(starts) and starts[0] == 0 and starts[-1] <= len(text),
        f"json_rows() of {count} rows returned the offsets {starts} for {len(text)} bytes",
    )
    return [text[start:stop].decode() for start, stop in itertools.pairwise(starts)]


def _parsed(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError as error:
        fail(f"json_rows() wrote {text!r}, which is no JSON: {error}", error)
