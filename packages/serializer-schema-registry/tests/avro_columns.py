"""Avro schemas drawn at random, with an Arrow type and values that fit them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime
from decimal import Context, Decimal
from typing import Any

import attrs
import pyarrow as pa
from hypothesis import strategies as st

INT = st.integers(-(2**31), 2**31 - 1)
LONG = st.integers(-(2**63), 2**63 - 1)
MOMENT = st.datetimes(datetime(1700, 1, 1), datetime(2200, 1, 1))
SYMBOLS = ["RED", "GREEN", "BLUE"]


@attrs.frozen(kw_only=True)
class Case:
    """A schema, an Arrow type, and cells of both; *kinds* that differ are other types for the same schema."""

    schema: Any
    kind: Any
    cells: st.SearchStrategy[Any]


def _decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    exact = Context(prec=precision)
    return st.integers(-(10**precision) + 1, 10**precision - 1).map(
        lambda number: Decimal(number).scaleb(-scale, exact)
    )


def _leaf(schema: Any, kind: Any, cells: st.SearchStrategy[Any]) -> Case:
    return Case(schema=schema, kind=kind, cells=cells)


def _logical(name: str, logical: str, **others: Any) -> Mapping[str, Any]:
    return {"type": name, "logicalType": logical, **others}


ALL_LEAVES = [
    _leaf("boolean", pa.bool_(), st.booleans()),
    _leaf("int", pa.int32(), INT),
    _leaf("int", pa.int8(), st.integers(-128, 127)),
    _leaf("int", pa.uint16(), st.integers(0, 2**16 - 1)),
    _leaf("int", pa.int64(), INT),
    _leaf("long", pa.int64(), LONG),
    _leaf("long", pa.int16(), st.integers(-(2**15), 2**15 - 1)),
    _leaf("long", pa.uint64(), st.integers(0, 2**63 - 1)),
    _leaf("double", pa.float64(), st.floats(allow_nan=False)),
    _leaf("double", pa.int32(), INT),
    _leaf("float", pa.float32(), st.floats(width=32, allow_nan=False)),
    _leaf("float", pa.float64(), st.floats(width=32, allow_nan=False)),
    _leaf("string", pa.string(), st.text()),
    _leaf("string", pa.large_string(), st.text()),
    _leaf("string", getattr(pa, "string_view", pa.string)(), st.text()),
    _leaf("string", pa.dictionary(pa.int8(), pa.string()), st.sampled_from(["a", "", "ü"])),
    _leaf("bytes", pa.binary(), st.binary()),
    _leaf("bytes", pa.large_binary(), st.binary()),
    _leaf("bytes", pa.binary(3), st.binary(min_size=3, max_size=3)),
    _leaf({"type": "fixed", "name": "F", "size": 4}, pa.binary(4), st.binary(min_size=4, max_size=4)),
    _leaf({"type": "fixed", "name": "F", "size": 2}, pa.binary(), st.binary(min_size=2, max_size=2)),
    _leaf({"type": "enum", "name": "E", "symbols": SYMBOLS}, pa.string(), st.sampled_from(SYMBOLS)),
    _leaf(
        {"type": "enum", "name": "E", "symbols": SYMBOLS},
        pa.dictionary(pa.int32(), pa.large_string()),
        st.sampled_from(SYMBOLS),
    ),
    _leaf(_logical("int", "date"), pa.date32(), st.dates(date(1, 1, 1))),
    _leaf(_logical("int", "time-millis"), pa.time32("s"), st.times().map(lambda each: each.replace(microsecond=0))),
    _leaf(_logical("long", "time-micros"), pa.time64("us"), st.times()),
    _leaf(
        _logical("long", "timestamp-micros"), pa.timestamp("us", "UTC"), MOMENT.map(lambda at: at.replace(tzinfo=UTC))
    ),
    _leaf(
        _logical("long", "timestamp-millis"),
        pa.timestamp("us", "UTC"),
        MOMENT.map(lambda at: at.replace(tzinfo=UTC, microsecond=at.microsecond // 1000 * 1000)),
    ),
    _leaf(_logical("long", "local-timestamp-micros"), pa.timestamp("us"), MOMENT),
    _leaf(
        _logical("long", "local-timestamp-micros"), pa.timestamp("s"), MOMENT.map(lambda at: at.replace(microsecond=0))
    ),
    _leaf(_logical("bytes", "decimal", precision=9, scale=2), pa.decimal128(9, 2), _decimals(9, 2)),
    _leaf(
        _logical("bytes", "decimal", precision=12, scale=4),
        getattr(pa, "decimal64", pa.decimal128)(9, 2),
        _decimals(8, 2),
    ),
    _leaf(_logical("bytes", "decimal", precision=38, scale=10), pa.decimal128(38, 10), _decimals(38, 10)),
    _leaf(
        {**_logical("fixed", "decimal", precision=18, scale=3), "name": "D", "size": 8},
        pa.decimal128(18, 3),
        _decimals(18, 3),
    ),
]


def _is_made(case: Case) -> bool:
    """Whether this version of pyarrow makes arrays of the type."""
    try:
        pa.array([None], case.kind)
    except pa.ArrowNotImplementedError:
        return False
    return True


LEAVES = [case for case in ALL_LEAVES if _is_made(case)]


def _array(inner: Case) -> st.SearchStrategy[Case]:
    return st.sampled_from([pa.list_, pa.large_list]).map(
        lambda kind: Case(
            schema={"type": "array", "items": inner.schema},
            kind=kind(inner.kind),
            cells=st.lists(inner.cells, max_size=3),
        )
    )


def _map(inner: Case) -> Case:
    return Case(
        schema={"type": "map", "values": inner.schema},
        kind=pa.map_(pa.string(), inner.kind),
        cells=st.dictionaries(st.text(max_size=5), inner.cells, max_size=3).map(lambda made: list(made.items())),
    )


def _maybe(inner: Case, first: bool) -> Case:
    if isinstance(inner.schema, list):
        return inner
    schema = ["null", inner.schema] if first else [inner.schema, "null"]
    return Case(schema=schema, kind=inner.kind, cells=st.none() | inner.cells)


def _record(inner: list[Case]) -> Case:
    names = [f"f{number}" for number in range(len(inner))]
    return Case(
        schema={
            "type": "record",
            "name": "R",
            "fields": [{"name": name, "type": each.schema} for name, each in zip(names, inner, strict=True)],
        },
        kind=pa.struct([pa.field(name, each.kind) for name, each in zip(names, inner, strict=True)]),
        cells=st.fixed_dictionaries({name: each.cells for name, each in zip(names, inner, strict=True)}),
    )


def _nested(inner: st.SearchStrategy[Case]) -> st.SearchStrategy[Case]:
    return st.one_of(
        inner.flatmap(_array),
        inner.map(_map),
        st.builds(_maybe, inner, st.booleans()),
        st.lists(inner, min_size=1, max_size=4).map(_record),
    )


def _renamed(schema: Any, count: Iterator[int]) -> Any:
    """The schema, with another name for each of its named types."""
    if isinstance(schema, list):
        return [_renamed(each, count) for each in schema]
    if not isinstance(schema, dict):
        return schema
    made = {
        name: [{**field, "type": _renamed(field["type"], count)} for field in each]
        if name == "fields"
        else each
        if name == "symbols"
        else _renamed(each, count)
        for name, each in schema.items()
    }
    return {**made, "name": f"N{next(count)}"} if "name" in schema and "type" in schema else made


CASES: st.SearchStrategy[Case] = st.recursive(st.sampled_from(LEAVES), _nested, max_leaves=6).map(
    lambda case: attrs.evolve(case, schema=_renamed(case.schema, itertools.count()))
)


def for_fastavro(cell: Any, kind: Any) -> Any:
    """A cell of Arrow as fastavro takes it: maps are dictionaries."""
    if cell is None:
        return None
    if pa.types.is_map(kind):
        return {name: for_fastavro(each, kind.item_type) for name, each in cell}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [for_fastavro(each, kind.value_type) for each in cell]
    if pa.types.is_struct(kind):
        return {name: for_fastavro(each, kind.field(name).type) for name, each in cell.items()}
    return cell
