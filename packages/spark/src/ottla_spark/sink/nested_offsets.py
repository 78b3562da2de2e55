"""Nested columns without values, of which Arrow's Java library up to Spark 4.0 leaves out some offsets.

An array of text or of lists has one offset more than values, so an empty one should have one. pyarrow passes arrays to
other libraries by address, without sizes, and their reader would take whatever is at the address of the missing offset.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from ottla.protocol.binary_arrays import numbers


def with_all_offsets(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the same rows; nested columns that lack offsets are copied, which adds them."""
    if not any(map(_lacks_offsets, batch.columns)):
        return batch
    rows = numbers(range(batch.num_rows), pa.int64())
    columns = [column.take(rows) if _lacks_offsets(column) else column for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _lacks_offsets(column: Any) -> bool:
    """Return whether a nested column may lack offsets: it has an empty buffer, maybe only that of empty text."""
    return pa.types.is_nested(column.type) and any(
        buffer is not None and buffer.size == 0 for buffer in column.buffers()
    )
