"""Arrow arrays of the orders that the suites of Avro and JSON Schema serialize, and of other rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def order_columns() -> Sequence[Any]:
    """Arrays that fit the schemas. Needs pyarrow."""
    import pyarrow as pa  # only here: tests of single records need no tables

    row = pa.struct([("id", pa.int32()), ("tags", pa.list_(pa.string()))])
    return (
        pa.array([{"id": 7, "tags": None}, None, {"id": -1, "tags": ["a", None]}], row),
        pa.array([{"id": 2**31 - 1, "tags": []}] * 3, row),
    )


def other_columns() -> Sequence[Any]:
    """Arrays that fit neither schema. Needs pyarrow."""
    import pyarrow as pa

    return (
        pa.array([1, 2]),
        pa.array([{"id": "7"}]),
        pa.array([{"id": 7, "unknown": 8}]),
    )
