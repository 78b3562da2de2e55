"""Record batches cut to pieces of about one size in bytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa

from ottla.recordbatch.arrow import FRAME

_MEASURED_AT_ONCE: Final = 65_536


def cut(batch: Any, most: int) -> Iterator[tuple[Any, int]]:
    """Pieces of at most about *most* bytes, or of one row; each with its size."""
    count = batch.num_rows
    if not count:
        return
    size = _size(batch) + count * FRAME
    step = max(1, min(count, count * most // size))
    for start in range(0, count, step):
        yield batch.slice(start, step), size * step // count


def _size(batch: Any) -> int:
    try:
        return int(batch.nbytes)
    except pa.ArrowTypeError:  # before pyarrow 24 nothing that holds views, such as polars' strings, can be measured
        return sum(map(_column_size, batch.columns))


def _column_size(column: Any) -> int:
    if pa.types.is_string_view(column.type) or pa.types.is_binary_view(column.type):
        column.validate(full=True)  # what it points at is read
        pieces = (column.slice(start, _MEASURED_AT_ONCE) for start in range(0, len(column), _MEASURED_AT_ONCE))
        return sum(piece.cast(pa.large_binary()).nbytes for piece in pieces)
    try:
        return int(column.nbytes)
    except pa.ArrowTypeError:  # views in lists: more than there is in a slice, never less
        return int(column.get_total_buffer_size())
