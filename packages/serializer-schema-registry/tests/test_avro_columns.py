"""Columns become the same bytes as the same rows one by one, in Python and in C."""

from __future__ import annotations

import io
import json
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from avro_columns import CASES, Case, for_fastavro
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from long_forms import LONG

from ottla_accel.avro_rows import avro_rows
from ottla_serializer_schema_registry.avro.rows import ColumnWriter
from ottla_serializer_schema_registry.avro.schema import parsed_schema

PREFIX = b"\0\0\0\1\2"


def one_by_one(schema: Any, cell: Any) -> bytes | None:
    """The bytes of fastavro, which confluent-kafka uses, too."""
    if cell is None:
        return None
    out = io.BytesIO()
    out.write(PREFIX)
    fastavro.schemaless_writer(out, schema, cell)
    return out.getvalue()


@pytest.fixture(params=[None, avro_rows], ids=["python", "c"])
def write(request: pytest.FixtureRequest) -> Any:
    """The encoder's `avro_rows`, or none."""
    return request.param


def rows(schema: Any, column: Any, write: Any) -> list[bytes | None]:
    made = ColumnWriter(parsed_schema(json.dumps(schema))).rows(column, PREFIX, write)
    made.validate(full=True)
    return list(made.to_pylist())


@settings(max_examples=10_000 if LONG else 80, deadline=None, suppress_health_check=list(HealthCheck))
@given(case=CASES, data=st.data())
def test_columns_have_the_bytes_of_single_rows(write: Any, case: Case, data: st.DataObject) -> None:
    cells = data.draw(st.lists(st.none() | case.cells, max_size=6))
    start = data.draw(st.integers(0, len(cells)))
    column = pa.array(cells, case.kind)[start:]
    schema = parsed_schema(json.dumps(case.schema))
    expected = [one_by_one(schema.schema, for_fastavro(cell, case.kind)) for cell in cells[start:]]
    if schema.is_bytes:  # Confluent's format has no length before bytes alone
        expected = [None if cell is None else PREFIX + cell for cell in cells[start:]]
    assert rows(case.schema, column, write) == expected


@pytest.mark.parametrize("number", [-128, -32768, -(1 << 39)])
def test_columns_write_the_shortest_decimal_where_fastavro_adds_a_byte(write: Any, number: int) -> None:
    decimal = {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 0}
    schema = parsed_schema(json.dumps({"type": "array", "items": decimal})).schema

    [row] = rows(schema, pa.array([[number]], pa.list_(pa.decimal128(12, 0))), write)

    single = one_by_one(schema, [Decimal(number)])
    assert row is not None
    assert single is not None
    assert len(row) == len(single) - 1
    assert fastavro.schemaless_reader(io.BytesIO(row[len(PREFIX) :]), schema) == [number]
