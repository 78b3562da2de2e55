"""Columns in packed forms: dictionaries, runs and extension types. JSON has what they stand for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from ottla.protocol.arrow_views import decoded, plain
from ottla.protocol.binary_arrays import flags, null, number, numbers, strings


def unpacked_type(kind: Any) -> Any | None:
    """Return the type of `unpacked` columns of this type, None for a type that is not packed."""
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return kind.value_type
    if isinstance(kind, pa.BaseExtensionType):
        known = _EXTENSIONS.get(kind.extension_name)
        return kind.storage_type if known is None else known[0]
    return None


def unpacked(column: Any) -> Any:
    """Return the cells of a packed column, which may be packed again; of an extension type what it stores."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return decoded(column)
    if pa.types.is_run_end_encoded(kind):
        return repeated(column, column.values)
    known = _EXTENSIONS.get(kind.extension_name)
    return column.storage if known is None else known[1](column.storage)


def texts_of(column: Any, shown: Callable[[Any], str]) -> Any:
    """The cells as texts, made one by one, null where the cell is."""
    made = [None if cell is None else shown(cell) for cell in column.to_pylist()]
    present = flags([text is not None for text in made])
    return pc.if_else(present, strings([text or "" for text in made]), null(pa.string()))


def repeated(column: Any, values: Any) -> Any:
    """Return *values*, one for each run of a column, for the rows of the runs; pyarrow repeats only simple types."""
    places = pa.RunEndEncodedArray.from_arrays(column.run_ends, numbers(range(len(values)), pa.int32()))
    return plain(values).take(pc.run_end_decode(places.slice(column.offset, len(column))))


def _uuid(cell: bytes) -> str:
    digits = cell.hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def _uuids(storage: Any) -> Any:
    return texts_of(storage, _uuid)


def _bools(storage: Any) -> Any:
    return pc.not_equal(storage, number(0, pa.int8()))


_EXTENSIONS: Final[dict[str, tuple[Any, Callable[[Any], Any]]]] = {
    "arrow.uuid": (pa.string(), _uuids),
    "arrow.bool8": (pa.bool_(), _bools),
}
"""Extension types that stand for something else than what they store: its type, and the column of it."""
