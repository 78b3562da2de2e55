"""Fields of Protobuf's type `float`: 32 bits, in which the library makes infinity of a number that is too large."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from ottla.errors import printable
from ottla_serializer_schema_registry.protobuf.message_types import held_by, message_types

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor

_FLOAT: Final = struct.Struct("<f")

MOST_SHOWN: Final = 100
"""Characters of a number that an error shows."""


class Floats:
    """Refuses numbers that are too large for the fields of messages, which are given as dicts."""

    def __init__(self, descriptor: Descriptor) -> None:
        self._descriptor = descriptor
        self._having = _having(descriptor)

    def check(self, fields: Mapping[str, Any]) -> None:
        """Raise ValueError, with the path of the field."""
        if self._having:
            self._message(self._descriptor, fields, "")

    def _message(self, descriptor: Descriptor, fields: Mapping[str, Any], path: str) -> None:
        if descriptor.full_name not in self._having:
            return
        for name, value in fields.items():
            field = descriptor.fields_by_name.get(name)
            if field is not None:
                self._field(field, value, f"{path}.{name}" if path else name)

    def _field(self, field: FieldDescriptor, value: Any, path: str) -> None:
        inner = field.message_type
        if field.type == field.TYPE_FLOAT or inner is not None:
            for each in value if isinstance(value, (list, tuple)) else (value,):
                if inner is None:
                    _check(each, path)
                elif isinstance(each, Mapping):
                    self._entries(inner, each, path)

    def _entries(self, inner: Descriptor, fields: Mapping[str, Any], path: str) -> None:
        if not inner.GetOptions().map_entry:
            self._message(inner, fields, path)
            return
        for key, value in fields.items():
            self._field(inner.fields_by_name["value"], value, f"{path}[{key!r}]")


def _check(number: Any, path: str) -> None:
    if not isinstance(number, (int, float, Decimal)):
        return  # the library says that it does not fit
    try:
        _FLOAT.pack(float(number))
    except OverflowError:
        shown = printable(repr(number), limit=MOST_SHOWN)
        raise ValueError(f"{path} is {shown}, which is too large for a float") from None


def _having(descriptor: Descriptor) -> frozenset[str]:
    """The names of the message types that have such fields, or fields with such types."""
    types = message_types(descriptor)
    held = {name: held_by(each) for name, each in types.items()}
    having = {name for name, each in types.items() if any(field.type == field.TYPE_FLOAT for field in each.fields)}
    while more := {name for name in held.keys() - having if held[name] & having}:
        having |= more
    return frozenset(having)
