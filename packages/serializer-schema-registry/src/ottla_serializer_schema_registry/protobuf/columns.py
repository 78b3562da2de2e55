"""Columns of structs as messages of a generated class, by the library, which makes one message after the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ottla.errors import RowSerializationError
from ottla_serializer_schema_registry.arrow_columns import LISTS, is_one_of, within

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor


def encoded(descriptor: Descriptor, encode: Callable[[Any], bytes], column: Any) -> Any:
    """Return the messages that *encode* makes of the rows, null where the row is null. A null field is left out."""
    check(descriptor, column.type, "")
    made: list[bytes | None] = []
    problems: dict[int, str] = {}
    for row, arrow_cell in enumerate(column):
        try:
            cell = arrow_cell.as_py()
            made.append(None if cell is None else encode(plain(cell, column.type)))
        except (OverflowError, ValueError) as error:  # OverflowError is of a date that Python lacks
            problems[row] = str(error)
    if problems:
        raise RowSerializationError(problems)
    return pa.array(made, pa.binary())


def check(descriptor: Descriptor, kind: Any, path: str) -> None:
    """Raise TypeError for a struct with fields that the message does not have."""
    if not pa.types.is_struct(kind):
        raise TypeError(f"{path or 'it'} of type {kind} is no struct, as {descriptor.full_name} needs")
    for place in range(kind.num_fields):
        field = kind.field(place)
        where = within(path, field.name)
        found = descriptor.fields_by_name.get(field.name)
        if found is None:
            raise TypeError(
                f"the message {descriptor.full_name} has no field {where!r}: leave the column out, or add it to the "
                "message"
            )
        inner = field.type
        if is_one_of(inner, *LISTS):
            inner = inner.value_type
        if pa.types.is_struct(inner) and found.message_type is not None:
            check(found.message_type, inner, where)


def plain(cell: Any, kind: Any) -> Any:
    """A cell as the library takes it: no nulls, and maps as dictionaries."""
    if isinstance(cell, Mapping):
        return {name: plain(each, kind.field(name).type) for name, each in cell.items() if each is not None}
    if pa.types.is_map(kind):
        return {name: plain(each, kind.item_type) for name, each in cell}
    if is_one_of(kind, *LISTS):
        return [plain(each, kind.value_type) for each in cell]
    return cell
