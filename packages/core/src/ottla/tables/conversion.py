"""Conversion of checked columns to the types of encoders: bytes, int64, and times in milliseconds."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from ottla.protocol.binary_arrays import flags, number
from ottla.recordbatch.record_limits import TIMESTAMP_MAX
from ottla.tables.private_copy import invalid

_MS: Final = {"s": 1_000, "ms": 1, "us": 1_000, "ns": 1_000_000}
"""Milliseconds in a second; for smaller units, how many of them are in a millisecond."""


def checked(column: Any | None, part: str) -> Any | None:
    """Check the column of a record's *part* in full: it may come from any source, and later copies of rows check less.

    Raises ValueError.
    """
    if column is not None:
        try:
            column.validate(full=True)
        except pa.ArrowInvalid as cause:
            raise invalid(f"the column of {part}", cause) from cause
    return column


def to_bytes(column: Any | None) -> Any | None:
    """Convert a column to binary or large_binary, without a needless copy; its offsets are checked."""
    if column is None:
        return None
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _looked_up(column)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        column.validate()
        column = column.view(pa.binary() if pa.types.is_string(kind) else pa.large_binary())  # may be invalid UTF-8
    column.validate(full=True)
    return (
        column if pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type) else column.cast(pa.binary())
    )


def _looked_up(column: Any) -> Any:
    """Decode a dictionary column, with its indices checked."""
    column.validate()
    values: Any = to_bytes(column.dictionary)
    column.indices.validate(full=True)
    return values.take(column.indices)


def to_int64(column: Any) -> Any:
    """Convert any integers to int64; uint64 values that are too large become -1, which is refused as well."""
    if not pa.types.is_uint64(column.type):
        return column.cast(pa.int64())
    large = pc.greater(column, number(TIMESTAMP_MAX, pa.uint64()))
    return pc.if_else(large, number(-1, pa.int64()), column.cast(pa.int64(), safe=False))


def to_milliseconds(column: Any) -> tuple[Any, Any | None]:
    """Convert times to whole milliseconds, null to null; and where they are negative or too large, None: nowhere."""
    kind = column.type
    raw = to_int64(column.cast(pa.int64()) if pa.types.is_timestamp(kind) else column)
    seconds = pa.types.is_timestamp(kind) and kind.unit == "s"
    maximum = TIMESTAMP_MAX // 1_000 if seconds else TIMESTAMP_MAX
    lowest, highest = pc.min_max(raw).as_py().values()
    bad = None
    if lowest is not None and not 0 <= lowest <= highest <= maximum:
        zero = number(0, raw.type)
        outside = pc.or_(pc.less(raw, zero), pc.greater(raw, number(maximum, raw.type)))
        bad = pc.fill_null(outside, flags([False])[0])
        raw = pc.if_else(bad, zero, raw)
    if pa.types.is_timestamp(kind) and kind.unit != "ms":
        raw = (pc.multiply if seconds else pc.divide)(raw, number(_MS[kind.unit], raw.type))
    return raw, bad
