"""Cutting of record batches into pieces of about equal size in bytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa

from ottla.recordbatch.record_limits import MAX_FRAME
from ottla.tables.private_copy import FLAT, elements, private_copy

_MEASURED_AT_ONCE: Final = 65_536
_LISTS: Final = frozenset(
    kind.id for kind in (pa.list_(pa.null()), pa.large_list(pa.null()), pa.map_(pa.string(), pa.null()))
)
_OFFSET: Final = 4


def cut(batch: Any, max_bytes: int) -> Iterator[tuple[Any, int]]:
    """Yield pieces of at most about *max_bytes* bytes, or of one row; each with its size."""
    count = batch.num_rows
    if not count:
        return
    size = size_of(batch) + count * MAX_FRAME
    step = max(1, min(count, count * max_bytes // size))
    for start in range(0, count, step):
        yield batch.slice(start, step), size * step // count


def size_of(batch: Any) -> int:
    """The size of the rows of a batch, roughly, also of those with views, which pyarrow may be unable to measure."""
    if FLAT.issuperset([kind.id for kind in batch.schema.types]):
        return max(0, int(batch.nbytes))
    return sum(_column_size(column) for column in batch.columns)


def _column_size(column: Any) -> int:
    """The size of the rows, roughly. They are not copied yet and may change: only checked offsets are followed."""
    column.validate()
    kind = column.type
    if _is_flat(kind):
        return max(0, int(column.nbytes))
    if kind.id in _LISTS:
        return len(column) * _OFFSET + _column_size(elements(column))
    if pa.types.is_struct(kind):
        return sum(_column_size(column.field(place)) for place in range(kind.num_fields))
    if pa.types.is_dictionary(kind):
        return _column_size(column.indices) + _column_size(column.dictionary)
    if pa.types.is_nested(kind) or isinstance(kind, pa.BaseExtensionType):
        return int(column.get_total_buffer_size())  # more than a slice has, never less
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        # Before pyarrow 24, such as polars' strings, they cannot be measured; 24 kills the process if all are short.
        return sum(map(_view_size, _slices(column)))
    return max(0, int(column.nbytes))


def _is_flat(kind: Any) -> bool:
    """Return whether pyarrow computes the size of a valid column without following offsets inside it.

    A struct is flat if all of its fields are.
    """
    return kind.id in FLAT or (pa.types.is_struct(kind) and all([_is_flat(field.type) for field in kind]))


def _slices(column: Any) -> Iterator[Any]:
    return (column.slice(start, _MEASURED_AT_ONCE) for start in range(0, len(column), _MEASURED_AT_ONCE))


def _view_size(views: Any) -> int:
    copied = private_copy(views)
    copied.validate(full=True)  # the cast below reads what the views point at
    return int(copied.cast(pa.large_binary()).nbytes)
