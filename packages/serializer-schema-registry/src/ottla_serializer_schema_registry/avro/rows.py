"""Columns as Avro rows, by an encoder's `avro_rows` or in Python."""

from __future__ import annotations

from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from ottla.errors import RowSerializationError
from ottla.interfaces import AvroColumn, AvroKind
from ottla_serializer_schema_registry.avro import plain_rows
from ottla_serializer_schema_registry.avro.columns import ColumnPlan, planned
from ottla_serializer_schema_registry.avro.refused_cells import RefusedCells
from ottla_serializer_schema_registry.avro.schema import AvroSchema


class AvroRows(Protocol):
    """An encoder's ability `avro_rows`."""

    def __call__(self, column: AvroColumn, *, count: int, prefix: bytes) -> tuple[Any, Any]: ...


class ColumnWriter:
    """Writes columns with one schema. For any thread."""

    def __init__(self, schema: AvroSchema) -> None:
        self._schema = schema
        self._plans: dict[Any, ColumnPlan] = {}

    def rows(self, column: Any, prefix: bytes, write: AvroRows | None) -> Any:
        """Return the bytes of each row after *prefix*; null where the row is null. *write* None: in Python.

        Raises TypeError for a type that does not fit, and RowSerializationError for rows without an Avro form.
        """
        plan = self._plans.get(column.type)
        if plan is None:
            plan = self._plans.setdefault(column.type, planned(self._schema, column.type))
        refused = RefusedCells()
        cells = plan.column(column, refused, is_row=True)
        if refused.rows:
            raise RowSerializationError(refused.rows)
        write = write or plain_rows.avro_rows
        if not self._schema.is_bytes:
            return _written(cells, len(column), prefix, write)
        content = cells.array
        if cells.kind is AvroKind.DECIMAL:  # its at most 16 bytes have a length of one byte
            content = pc.binary_replace_slice(_written(cells, len(column), b"", write), 0, 1, b"")
        return pc.binary_join_element_wise(pa.scalar(prefix, content.type), content, pa.scalar(b"", content.type))


def _written(cells: AvroColumn, count: int, prefix: bytes, write: AvroRows) -> Any:
    offsets, content = write(cells, count=count, prefix=prefix)
    made = pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(content)])
    if cells.array is None or not cells.array.null_count:
        return made
    return pc.if_else(cells.array.is_valid(), made, pa.scalar(None, pa.binary()))
