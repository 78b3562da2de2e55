"""The notation in which messages are declared: annotations of attrs classes, read once.

A struct is a subclass of `Struct`, with `attrs.define(kw_only=True, eq=False, repr=False)` and a default for each
field, without converters, validators and hooks: decoders set its attributes one by one. A field's annotation says all
that the wire needs to know, so the static type and the wire type cannot drift apart:

    name: Annotated[String | None, Null(12)] = ""  # at every version; null is allowed from 12 on
    rack: Annotated[String | None, In(1)] = None  # from 1 on; null is allowed wherever it exists
    include_all: Annotated[Bool, In(8, 10)] = False  # from 8 to 10
    leader: Annotated[LeaderIdAndEpoch, In(10), Tag(0)] = attrs.Factory(LeaderIdAndEpoch)
    session_id: Annotated[Int32, In(7), Ignorable()] = 0  # from 7 on; may be left out before that
    brokers: Annotated[list[Broker], AtMost(100)] = attrs.Factory(list)  # decoding refuses more

At a version that lacks a field, decoding leaves its default. Encoding leaves the field out if it has its default
or is `Ignorable`, and refuses the value otherwise. Defaults are Kafka's own: tagged fields are written only when
they differ from them.
"""

from __future__ import annotations

import functools
import types
import typing
from typing import Annotated, Any, Final, TypeAlias

import attrs

from ottla.interfaces import Buffer
from ottla.results.value_methods import ValueMethods

LATEST: Final = 0x7FFF


class Struct:
    """A message, or a part of one. Two of one class are equal if all fields are.

    All structs share these methods, which only tests and logs call. attrs would compile them for each struct, which
    takes as long as the rest of its import.
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name, _shown in self._fields())

    def __repr__(self) -> str:
        shown = (f"{name}={getattr(self, name)!r}" for name, shown in self._fields() if shown)
        return f"{type(self).__qualname__}({', '.join(shown)})"

    def _fields(self) -> list[tuple[str, bool]]:
        """The names of the fields, and whether the repr has them."""
        fields = attrs.fields(type(self))  # type: ignore[arg-type]  # subclasses are attrs classes
        return [(field.name, bool(field.repr)) for field in fields]


@attrs.frozen(eq=False, repr=False)
class In(ValueMethods):
    """The versions that have a field, both ends included."""

    first: int
    last: int = LATEST

    def __contains__(self, version: int) -> bool:
        return self.first <= version <= self.last

    def __str__(self) -> str:
        if self.first == self.last:
            return f"version {self.first}"
        return f"versions {self.first} " + ("and later" if self.last == LATEST else f"to {self.last}")


@attrs.frozen(eq=False, repr=False)
class Null(In):
    """The versions that allow null, for a field that is `| None`; without this, all that have the field."""


@attrs.frozen(eq=False, repr=False)
class Tag:
    """The number of a field that travels as a tagged field (KIP-482)."""

    number: int


@attrs.frozen(eq=False, repr=False)
class Ignorable:
    """Leaving the field out does not change the meaning of the message, at versions that lack it."""


@attrs.frozen(eq=False, repr=False)
class AtMost:
    """The maximum items of an array. Each item takes up to thirty times the memory that it has on the wire."""

    items: int


@attrs.frozen(eq=False, repr=False)
class Fixed(ValueMethods):
    """A value of a fixed size, by its format character in the struct module."""

    format: str


@attrs.frozen(eq=False, repr=False)
class Text(ValueMethods):
    """UTF-8 after its length: 2 bytes, or compact."""


@attrs.frozen(eq=False, repr=False)
class Blob(ValueMethods):
    """Bytes after their length: 4 bytes, or compact."""


@attrs.frozen(eq=False, repr=False)
class ArrayOf(ValueMethods):
    """A count, 4 bytes or compact, and its items."""

    item: WireType


@attrs.frozen(eq=False, repr=False)
class StructOf(ValueMethods):
    """A nested struct."""

    type: type


WireType: TypeAlias = Fixed | Text | Blob | ArrayOf | StructOf

Bool: TypeAlias = Annotated[bool, Fixed("?")]
Int8: TypeAlias = Annotated[int, Fixed("b")]
Int16: TypeAlias = Annotated[int, Fixed("h")]
Int32: TypeAlias = Annotated[int, Fixed("i")]
Int64: TypeAlias = Annotated[int, Fixed("q")]
Uuid: TypeAlias = Annotated[bytes, Fixed("16s")]  # bytes: ids are only compared and sent back
String: TypeAlias = Annotated[str, Text()]
Bytes: TypeAlias = Annotated[bytes, Blob()]
Records: TypeAlias = Annotated[Buffer, Blob()]

ZERO_UUID: Final = bytes(16)


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Field(ValueMethods):
    """One field of a struct, for the compilers. `optional`: its annotation allows None."""

    name: str
    type: WireType
    versions: In
    optional: bool
    null: In | None
    tag: int | None
    ignorable: bool
    default: Any
    maximum: int | None

    def nullable(self, version: int) -> bool:
        """Return whether null may be written at this version."""
        return self.null is not None and version in self.null


@functools.cache
def fields_of(struct: type) -> tuple[Field, ...]:
    """The fields of a struct in wire order."""
    hints = typing.get_type_hints(struct, include_extras=True)
    empty = struct()
    return tuple(
        _field(attribute.name, hints[attribute.name], getattr(empty, attribute.name))
        for attribute in attrs.fields(struct)
    )


def _field(name: str, hint: Any, default: Any) -> Field:
    bare, marks = _split(hint)
    optional = type(None) in typing.get_args(bare)
    versions = next((mark for mark in marks if type(mark) is In), In(0))
    null = next((mark for mark in marks if type(mark) is Null), versions if optional else None)
    tag = next((mark.number for mark in marks if type(mark) is Tag), None)
    assert optional or null is None, f"{name} may be null on the wire, so its annotation needs | None"
    return Field(
        name=name,
        type=_wire_type(hint),
        versions=versions,
        optional=optional,
        null=null,
        tag=tag,
        ignorable=any(type(mark) is Ignorable for mark in marks),
        default=default,
        maximum=next((mark.items for mark in marks if type(mark) is AtMost), None),
    )


def _split(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    if typing.get_origin(hint) is Annotated:
        bare, *marks = typing.get_args(hint)
        return bare, tuple(marks)
    return hint, ()


def _wire_type(hint: Any) -> WireType:
    bare, marks = _split(hint)
    for mark in marks:
        if isinstance(mark, Fixed | Text | Blob):
            return mark
    if typing.get_origin(bare) in (typing.Union, types.UnionType):
        [inner] = [part for part in typing.get_args(bare) if part is not type(None)]
        return _wire_type(inner)
    if typing.get_origin(bare) is list:
        return ArrayOf(_wire_type(typing.get_args(bare)[0]))
    assert attrs.has(bare), f"{hint} is not a type of the wire"
    return StructOf(bare)
