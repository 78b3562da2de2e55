"""Copies of columns: the rows of the moment, whatever their buffers change to, for every type that Arrow has."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pytest

from ottla.tables.private_copy import private_copy
from ottla.tables.slicing import cut

ROWS: Final = 60
PAIR: Final = pa.struct([("a", pa.int32()), ("b", pa.string())])


def texts() -> list[str]:
    return [str(row) for row in range(ROWS)]


def some(cells: Sequence[Any]) -> list[Any]:
    """Every third one is null."""
    return [cell if row % 3 else None for row, cell in enumerate(cells)]


def lists() -> list[list[int]]:
    return [list(range(row % 4)) for row in range(ROWS)]


COLUMNS: Final[dict[str, Callable[[], Any]]] = {
    "null": lambda: pa.nulls(ROWS),
    "int8": lambda: pa.array(some(range(ROWS)), pa.int8()),
    "uint64": lambda: pa.array(some(range(ROWS)), pa.uint64()),
    "bool": lambda: pa.array(some([row % 2 == 0 for row in range(ROWS)])),
    "float": lambda: pa.array(some([row / 2 for row in range(ROWS)]), pa.float32()),
    "decimal": lambda: pa.array(some([Decimal(row) for row in range(ROWS)])),
    "date": lambda: pa.array(some([date(2000, 1, 1 + row % 28) for row in range(ROWS)])),
    "timestamp": lambda: pa.array(some([datetime(2000, 1, 1, 0, row) for row in range(ROWS)])),
    "string": lambda: pa.array(some(texts())),
    "string without nulls": lambda: pa.array(texts()),
    "large string": lambda: pa.array(some(texts()), pa.large_string()),
    "binary": lambda: pa.array(some([text.encode() for text in texts()])),
    "large binary": lambda: pa.array(some([text.encode() for text in texts()]), pa.large_binary()),
    "fixed size binary": lambda: pa.array(some([b"%03d" % row for row in range(ROWS)]), pa.binary(3)),
    "string view": lambda: pa.array(some([text * 9 for text in texts()])).cast(pa.string_view()),
    "binary view": lambda: pa.array(some([text.encode() * 9 for text in texts()])).cast(pa.binary_view()),
    "dictionary": lambda: pa.array(some([text[0] for text in texts()])).dictionary_encode(),
    "list": lambda: pa.array(some(lists())),
    "list of lists": lambda: pa.array(some([[row, None, row] for row in lists()])),
    "large list": lambda: pa.array(some([list(map(str, row)) for row in lists()]), pa.large_list(pa.string())),
    "list view": lambda: pa.array(some(lists()), pa.list_view(pa.int64())),
    "list view in another order": lambda: pa.ListViewArray.from_arrays(
        pa.array([7 * row % (ROWS - 4) if row % 4 else ROWS for row in range(ROWS)], pa.int32()),
        pa.array([row % 4 for row in range(ROWS)], pa.int32()),
        pa.array(texts()),
        mask=pa.array([row % 5 == 0 for row in range(ROWS)]),
    ),
    "large list view": lambda: pa.array(some(lists()), pa.large_list_view(pa.int64())),
    "fixed size list": lambda: pa.array(some([[row, row] for row in range(ROWS)]), pa.list_(pa.int32(), 2)),
    "picked map": lambda: pa.array(
        [[(str(row), None if row % 2 else row)] * (row % 3) for row in range(ROWS)], pa.map_(pa.string(), pa.int32())
    ).take(pa.array(range(ROWS))),
    "map": lambda: pa.array(
        some([[(str(each), each) for each in row] for row in lists()]), pa.map_(pa.string(), pa.int32())
    ),
    "struct": lambda: pa.array(some([{"a": row, "b": str(row)} for row in range(ROWS)]), PAIR),
    "struct of nothing": lambda: pa.array(some([{}] * ROWS), pa.struct([])),
    "list of structs": lambda: pa.array(some([[{"a": 1, "b": "x"}] * len(row) for row in lists()]), pa.list_(PAIR)),
    "sparse union": lambda: pa.UnionArray.from_sparse(
        pa.array([row % 2 for row in range(ROWS)], pa.int8()), [pa.array(range(ROWS)), pa.array(texts())]
    ),
    "dense union": lambda: pa.UnionArray.from_dense(
        pa.array([row % 2 for row in range(ROWS)], pa.int8()),
        pa.array([row // 2 for row in range(ROWS)], pa.int32()),
        [pa.array(range(ROWS)), pa.array(texts())],
    ),
    "runs": lambda: pa.RunEndEncodedArray.from_arrays(pa.array([20, 40, ROWS], pa.int32()), ["a", None, "b"]),
    "extension": lambda: pa.ExtensionArray.from_storage(pa.uuid(), pa.array([bytes(16)] * ROWS, pa.binary(16))),
}


@pytest.mark.parametrize("kind", COLUMNS)
def test_a_copy_has_the_rows_of_any_slice(kind: str) -> None:
    column = COLUMNS[kind]()
    for _ in range(100):
        start = random.randrange(ROWS + 1)
        rows = column.slice(start, random.randrange(ROWS + 1 - start))
        rows = rows.slice(random.randrange(len(rows) + 1))

        copied = private_copy(rows)

        copied.validate(full=True)
        assert copied.type == rows.type
        assert copied.to_pylist() == rows.to_pylist()


@pytest.mark.parametrize("kind", ["list view", "large list view"])
def test_a_copy_has_the_elements_of_its_own_rows_alone(kind: str) -> None:
    column = COLUMNS[kind]()

    copies = [private_copy(column.slice(start, 10)) for start in range(0, ROWS, 10)]

    assert [len(copied.values) for copied in copies] == [
        sum(map(len, filter(None, copied.to_pylist()))) for copied in copies
    ]


def shape(cell: Any) -> Any:
    """A cell with each text or bytes in it replaced by how many bytes it has: those may change."""
    match cell:
        case str() | bytes():
            return len(cell)
        case dict():
            return {name: shape(inner) for name, inner in cell.items()}
        case list() | tuple():
            return [shape(inner) for inner in cell]
    return cell


@pytest.mark.parametrize("kind", sorted(COLUMNS.keys() - {"null", "struct of nothing", "extension"}))
def test_later_writes_to_a_column_do_not_change_its_copy(kind: str) -> None:
    batch = pa.RecordBatch.from_arrays([COLUMNS[kind]()], ["c"])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    message = bytearray(sink.getvalue().to_pybytes())
    column = pa.ipc.open_stream(pa.py_buffer(message)).read_next_batch().column(0)
    expected = list(map(shape, column.to_pylist()))
    copied = private_copy(column)

    message[:] = b"A" * len(message)

    copied.validate(full="view" not in kind)  # a view has the first bytes of its value, which have changed now
    assert list(map(shape, copied.to_pylist())) == expected


@pytest.mark.parametrize("offsets", [(0, 1, 2_000_000_000), (0, 1, -1), (2, 1, 0), (-1, 1, 3)])
@pytest.mark.parametrize("kind", [pa.list_(pa.string()), pa.map_(pa.string(), pa.string())])
def test_list_offsets_that_change_before_the_copy_are_refused(kind: Any, offsets: tuple[int, int, int]) -> None:
    buffer = bytearray(struct.pack("<3i", 0, 1, 3))
    inner: Any = pa.array(["a", "b", "c"])
    if pa.types.is_map(kind):
        inner = pa.StructArray.from_arrays([inner, inner], fields=[kind.key_field, kind.item_field])
    column = pa.Array.from_buffers(kind, 2, [None, pa.py_buffer(buffer)], children=[inner])
    batch = pa.RecordBatch.from_arrays([column], ["c"])

    struct.pack_into("<3i", buffer, 0, *offsets)

    with pytest.raises(ValueError, match=r"offset|list"):
        private_copy(column)
    with pytest.raises(ValueError, match=r"offset|list"):
        list(cut(batch, 100))


def test_a_map_with_a_key_that_became_null_is_refused() -> None:
    present = bytearray([0b11])
    plain = pa.array(["a", "b"])
    keys = pa.Array.from_buffers(pa.string(), 2, [pa.py_buffer(present), *plain.buffers()[1:]])
    column = pa.MapArray.from_arrays([0, 2], keys, pa.array([1, 2]))
    present[0] = 0b01

    with pytest.raises(ValueError, match="a map has a key that is null"):
        private_copy(column)
