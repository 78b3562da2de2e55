"""Fields whose values the Protobuf library does not check itself.

Of a number that is too large for the 32 bits of a `float`, it makes infinity. The name of an enum's value that is not
valid text, such as half of a surrogate pair, ends the process: protobuf 6.30 to 7.35 read from a null pointer.
"""

from __future__ import annotations

import math
import operator
import struct
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, SupportsFloat

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from ottla.errors import printable
from ottla_serializer_schema_registry.protobuf.message_types import held_by, message_types

_FLOAT: Final = struct.Struct("<f")

MOST_SHOWN: Final = 100
"""Characters of a value that an error shows."""


class FieldChecks:
    """Refuses such values of messages that are given as dicts."""

    def __init__(self, descriptor: Descriptor) -> None:
        self._descriptor = descriptor
        self._having = _having(descriptor)

    def checked(self, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        """The fields, with lists in place of iterators, which can be read once. Raises ValueError, with the path."""
        return self._message(self._descriptor, fields, "") if self._having else fields

    def _message(self, descriptor: Descriptor, fields: Mapping[str, Any], path: str) -> Mapping[str, Any]:
        changed: dict[str, Any] = {}
        for name, value in fields.items():
            # The library refuses other names; to look them up raises SystemError.
            field = descriptor.fields_by_name.get(name) if _is_text(name) else None
            if field is not None and value is not None:
                checked = self._field(field, value, f"{path}.{name}" if path else name)
                if checked is not value:
                    changed[name] = checked
        return {**fields, **changed} if changed else fields

    def _field(self, field: FieldDescriptor, value: Any, path: str) -> Any:
        inner = field.message_type
        if field.type not in _CHECKS and (inner is None or inner.full_name not in self._having):
            return value
        if inner is not None and inner.GetOptions().map_entry:
            return self._map(inner, value, path)
        if isinstance(value, _ONE):
            return self._one(field, value, path)
        items = value if isinstance(value, Collection) else _read(value)
        if items is None:
            return self._one(field, value, path)
        checked = [self._one(field, each, path) for each in items]
        return value if items is value and all(map(operator.is_, items, checked)) else checked

    def _one(self, field: FieldDescriptor, value: Any, path: str) -> Any:
        check, inner = _CHECKS.get(field.type), field.message_type
        if check is not None:
            check(value, path)
        elif inner is not None and isinstance(value, Mapping):
            return self._message(inner, value, path)
        return value

    def _map(self, entry: Descriptor, value: Any, path: str) -> Any:
        try:
            entries = dict(value)  # the library takes pairs, too
        except (TypeError, ValueError):
            return value  # the library refuses it
        return {
            key: self._field(entry.fields_by_name["value"], each, f"{path}[{key!r}]") for key, each in entries.items()
        }


def _check_float(number: Any, path: str) -> None:
    if type(number) is not float and not isinstance(number, SupportsFloat):  # the protocol is slow
        return  # the library says that it does not fit
    try:
        as_float = float(number)
        _FLOAT.pack(as_float)
        infinite = math.isinf(as_float) and as_float != number  # as of Decimal("1E+400")
    except OverflowError:
        infinite = True
    if infinite:
        shown = printable(repr(number), limit=MOST_SHOWN)
        raise ValueError(f"{path} is {shown}, which is too large for a float")


def _check_enum(name: Any, path: str) -> None:
    if isinstance(name, str) and not _is_text(name):
        shown = printable(repr(name), limit=MOST_SHOWN)
        raise ValueError(f"{path} is {shown}, which is not valid text, and so no name of an enum's value")


def _is_text(name: object) -> bool:
    """Return whether it is text that UTF-8 can hold."""
    if not isinstance(name, str):
        return False
    try:
        return name.isascii() or bool(name.encode())
    except UnicodeEncodeError:
        return False


_CHECKS: Final[Mapping[int, Callable[[Any, str], None]]] = {
    FieldDescriptor.TYPE_FLOAT: _check_float,
    FieldDescriptor.TYPE_ENUM: _check_enum,
}

_ONE: Final = (Mapping, str, bytes, int, float, Message)
"""Types of one value, though some are collections."""


def _read(value: Any) -> list[Any] | None:
    """The items of an iterator, or of an object that is only indexed. None for one value."""
    try:
        return list(value)
    except TypeError:
        return None


def _having(descriptor: Descriptor) -> frozenset[str]:
    """The names of the message types that have such fields, or fields with such types."""
    types = message_types(descriptor)
    held = {name: held_by(each) for name, each in types.items()}
    having = {name for name, each in types.items() if any(field.type in _CHECKS for field in each.fields)}
    while more := {name for name in held.keys() - having if held[name] & having}:
        having |= more
    return frozenset(having)
