"""Columns of structs as messages of a generated class, by the library, which makes one message after the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from ottla.errors import RowSerializationError
from ottla_serializer_schema_registry.arrow_columns import LISTS, is_one_of, within

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor

_SECOND: Final = 10**9
_NANOSECONDS: Final[Mapping[str, int]] = {"s": _SECOND, "ms": 10**6, "us": 10**3, "ns": 1}

_FIRST: Final = -62_135_596_800
_LAST: Final = 253_402_300_799
"""Seconds since 1970 of the years 1 to 9999, to which Protobuf limits a Timestamp."""

_LONGEST: Final = 315_576_000_000
"""Seconds to which Protobuf limits a Duration."""


def encoded(descriptor: Descriptor, encode: Callable[[Any], bytes], column: Any) -> Any:
    """Return the messages that *encode* makes of the rows, null where the row is null. A null field is left out."""
    check(descriptor, column.type, "")
    made: list[bytes | None] = []
    problems: dict[int, str] = {}
    for row, arrow_cell in enumerate(column):
        try:
            made.append(encode(plain(arrow_cell)) if arrow_cell.is_valid else None)
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
        elif pa.types.is_map(inner) and found.message_type is not None and found.message_type.GetOptions().map_entry:
            inner, where, found = inner.item_type, f"{where}.value", found.message_type.fields_by_name["value"]
        if pa.types.is_struct(inner) and found.message_type is not None:
            check(found.message_type, inner, where)


def plain(cell: Any) -> Any:
    """An Arrow cell as the library takes it: no null fields, maps as dictionaries, times with all their digits."""
    kind = cell.type
    if not cell.is_valid:
        return None
    if pa.types.is_struct(kind):
        return {name: plain(each) for name, each in cell.items() if each.is_valid}
    if pa.types.is_map(kind):
        return {pair["key"].as_py(): plain(pair["value"]) for pair in _pairs(cell)}
    if is_one_of(kind, *LISTS):
        return [plain(each) for each in cell.values]
    if is_one_of(kind, "dictionary", "run_end_encoded"):
        return plain(cell.value)
    if pa.types.is_timestamp(kind):
        return _timestamp(cell.value * _NANOSECONDS[kind.unit])
    if pa.types.is_duration(kind):
        return _duration(cell.value * _NANOSECONDS[kind.unit])
    return cell.as_py()


def _pairs(cell: Any) -> Any:
    """The entries of a map's cell, whose fields may have any names."""
    keys, values = cell.values.flatten()
    return pa.StructArray.from_arrays([keys, values], ["key", "value"])


def _timestamp(nanoseconds: int) -> dict[str, int]:
    """The fields of a `google.protobuf.Timestamp`."""
    seconds, nanos = divmod(nanoseconds, _SECOND)
    if not _FIRST <= seconds <= _LAST:
        raise ValueError(
            f"a time of {seconds} seconds since 1970 is not in the years 1 to 9999 of Protobuf's Timestamp"
        )
    return {"seconds": seconds, "nanos": nanos}


def _duration(nanoseconds: int) -> dict[str, int]:
    """The fields of a `google.protobuf.Duration`: both have its sign."""
    seconds, nanos = divmod(abs(nanoseconds), _SECOND)
    if seconds > _LONGEST:
        raise ValueError(f"a duration of {seconds} seconds is longer than the 10,000 years of Protobuf's Duration")
    sign = -1 if nanoseconds < 0 else 1
    return {"seconds": sign * seconds, "nanos": sign * nanos}
