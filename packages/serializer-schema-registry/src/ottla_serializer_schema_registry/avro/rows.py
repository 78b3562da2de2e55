"""Columns as Avro rows, by an encoder's `avro_rows` or in Python."""

from __future__ import annotations

from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from ottla.errors import RowSerializationError
from ottla.interfaces import AvroColumn
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
        if self._schema.is_bytes:
            its_type = cells.array.type
            return pc.binary_join_element_wise(pa.scalar(prefix, its_type), cells.array, pa.scalar(b"", its_type))
        offsets, content = (write or plain_rows.avro_rows)(cells, count=len(column), prefix=prefix)
        made = pa.Array.from_buffers(pa.binary(), len(column), [None, pa.py_buffer(offsets), pa.py_buffer(content)])
        if cells.array is None or not cells.array.null_count:
            return made
        return pc.if_else(cells.array.is_valid(), made, pa.scalar(None, pa.binary()))
