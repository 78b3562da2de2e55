"""A batch without rows, of any types."""

from __future__ import annotations

from typing import Any

import pyarrow as pa


def no_rows(schema: Any) -> Any:
    """Return a record batch of this schema; `pyarrow.array` makes no unions, and not all dictionaries."""
    return pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in schema], schema=schema)
