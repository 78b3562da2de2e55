"""Compiles the decoder of one struct at one version: a function from bytes to a value.

The bytes may be hostile. Every length and count is compared with the remaining bytes before anything is sliced or
built. A count is refused if its items, at their smallest, cannot fit. Reads of fixed size rely on Python's own checks,
so the function raises struct.error, IndexError and UnicodeDecodeError besides ProtocolError; `Codec` converts all of
them to ProtocolError.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Callable, Sequence
from typing import Any, Final

from ottla.errors import ProtocolError
from ottla.protocol.notation import ArrayOf, Blob, Field, Fixed, StructOf, Text, WireType, fields_of
from ottla.protocol.primitives import read_uvarint, skip_tagged_fields
from ottla.protocol.source import Source

_SHORT_ARRAY: Final = 16  # own unpackers up to it: 1.4x on a Metadata response with 600 partitions, CPython 3.11


def compile_decoder(root: type, *, label: str, version: int, flexible: bool) -> Callable[[bytes], tuple[Any, int]]:
    """A function `decode(data)` that returns the value and the offset after it."""
    reader = _Reader(version=version, flexible=flexible)
    value = reader.struct(root, "")
    reader.source.line(f"return {value}, at")
    return reader.source.compiled(f"decoder of {label}")


def too_many(path: str, count: int, maximum: int) -> ProtocolError:
    """The error for more items than any cluster has; raised before they take memory."""
    return ProtocolError(f"{path} has {count} items; at most {maximum} are accepted")


def length_error(path: str, count: int, remaining: int) -> ProtocolError:
    """The error for a length or count that exceeds the remaining bytes."""
    if count == -1:
        return ProtocolError(f"{path} is null, which is not allowed")
    if count < 0:
        return ProtocolError(f"{path} has the negative length {count}")
    return ProtocolError(f"{path} has the length {count}, which does not fit in the {remaining} bytes left")


class _Reader:
    """Walks a declaration once. Reads of fixed size are collected in `_run` until the offset after them is needed.

    In the compiled function `at` is the offset, `end` the length of `data`.
    """

    def __init__(self, *, version: int, flexible: bool) -> None:
        self.source = Source(
            "decode(data)",
            ProtocolError=ProtocolError,
            new=object.__new__,
            read_uvarint=read_uvarint,
            skip_tagged_fields=skip_tagged_fields,
            too_many=too_many,
            length_error=length_error,
            unpack_from=struct.unpack_from,
        )
        self.source.line("at = 0")
        self.source.line("end = len(data)")
        self._version = version
        self._flexible = flexible
        self._run: list[tuple[str, str]] = []

    def struct(self, kind: type, path: str) -> str:
        present = [field for field in fields_of(kind) if self._version in field.versions]
        values = {
            field.name: self._value(
                field.type, f"{path}{field.name}", nullable=field.nullable(self._version), maximum=field.maximum
            )
            for field in present
            if field.tag is None
        }
        if self._flexible:
            values |= self._tagged([field for field in present if field.tag is not None], path)
        self._flush()
        return self._made(kind, values)

    def _made(self, kind: type, values: dict[str, str]) -> str:
        # A struct has no validators and no hooks: its attributes may be set without its __init__. 1.5x on a Metadata
        # response with 600 partitions, CPython 3.11.
        made = self._assigned(f"new({self.source.constant(kind.__name__, kind)})")
        for field in fields_of(kind):
            self.source.line(f"{made}.{field.name} = {values.get(field.name) or self._default(field)}")
        return made

    def _value(self, kind: WireType, path: str, *, nullable: bool, maximum: int | None = None) -> str:
        match kind:
            case Fixed(format=format):
                return self._take(format)
            case StructOf(type=type):
                return self._nullable_struct(type, path) if nullable else self.struct(type, f"{path}.")
            case Text():
                return self._sized(path, legacy="h", nullable=nullable, ending=".decode()")
            case Blob():
                return self._sized(path, legacy="i", nullable=nullable, ending="")
            case ArrayOf(item=item):
                return self._array(item, path, nullable=nullable, maximum=maximum)

    def _nullable_struct(self, kind: type, path: str) -> str:
        marker = self._take("b")
        self._flush()
        value = self._assigned("None")
        with self.source.block(f"if {marker} >= 0"):
            made = self.struct(kind, f"{path}.")
            self.source.line(f"{value} = {made}")
        return value

    def _sized(self, path: str, *, legacy: str, nullable: bool, ending: str) -> str:
        size = self._length(legacy)
        value = self._assigned("None") if nullable else self.source.fresh("x")
        with self._unless_null(size) if nullable else contextlib.nullcontext():
            self._stop_behind(path, size, 1)
            self.source.line(f"{value} = data[at:stop]{ending}")
            self.source.line("at = stop")
        return value

    def _array(self, item: WireType, path: str, *, nullable: bool, maximum: int | None) -> str:
        count = self._length("i")
        value = self._assigned("None") if nullable else self.source.fresh("x")
        with self._unless_null(count) if nullable else contextlib.nullcontext():
            smallest = self._smallest(item)
            assert smallest > 0, f"{path}: items without bytes would make any count believable"
            self._stop_behind(path, count, smallest)
            if maximum is not None:
                with self.source.block(f"if {count} > {maximum}"):
                    self.source.line(f"raise too_many({path!r}, {count}, {maximum})")
            if isinstance(item, Fixed) and len(item.format) == 1:
                self._fixed_items(item.format, value, count)
            else:
                self.source.line(f"{value} = []")
                with self.source.block(f"for _ in range({count})"):
                    made = self._value(item, f"{path}[]", nullable=False)
                    self._flush()
                    self.source.line(f"{value}.append({made})")
        return value

    def _fixed_items(self, format: str, value: str, count: str) -> None:
        readers = [struct.Struct(f">{n}{format}").unpack_from for n in range(_SHORT_ARRAY)]
        short = self.source.constant("SHORT", readers)
        with self.source.block(f"if {count} < {_SHORT_ARRAY}"):
            self.source.line(f"{value} = list({short}[{count}](data, at))")
        with self.source.block("else"):
            self.source.line(f'{value} = list(unpack_from(f">{{{count}}}{format}", data, at))')
        self.source.line("at = stop")

    def _stop_behind(self, path: str, count: str, size: int) -> None:
        """Set `stop` to the offset after *count* items of at least this size, or refuse the count."""
        self.source.line(f"stop = at + {count}" if size == 1 else f"stop = at + {count} * {size}")
        with self.source.block(f"if {count} < 0 or stop > end"):
            self.source.line(f"raise length_error({path!r}, {count}, end - at)")

    def _tagged(self, fields: Sequence[Field], path: str) -> dict[str, str]:
        count = self._take("B")
        self._flush()
        if not fields:
            with self.source.block(f"if {count}"):
                self.source.line("at = skip_tagged_fields(data, at - 1)")
            return {}
        values = {field.name: self._assigned(self._default(field)) for field in fields}
        with self.source.block(f"if {count}"):
            self.source.line(f"{count}, at = read_uvarint(data, at - 1)")
            with self.source.block(f"for _ in range({count})"):
                self._one_tagged(fields, values, path)
        return values

    def _one_tagged(self, fields: Sequence[Field], values: dict[str, str], path: str) -> None:
        tag, size, after = self.source.fresh("tag"), self.source.fresh("size"), self.source.fresh("after")
        self.source.line(f"{tag}, at = read_uvarint(data, at)")
        self.source.line(f"{size}, at = read_uvarint(data, at)")
        with self.source.block(f"if {size} > end - at"):
            self.source.line(f"raise length_error({path + 'a tagged field'!r}, {size}, end - at)")
        self.source.line(f"{after} = at + {size}")
        for field in fields:
            with self.source.block(f"if {tag} == {field.tag}"):
                name = f"{path}{field.name}"
                made = self._value(field.type, name, nullable=field.nullable(self._version), maximum=field.maximum)
                self._flush()
                self.source.line(f"{values[field.name]} = {made}")
                with self.source.block(f"if at != {after}"):
                    self.source.line(f"raise ProtocolError({f'{name} does not end where its size says'!r})")
        self.source.line(f"at = {after}")

    def _default(self, field: Field) -> str:
        if field.default == []:
            return "[]"
        if isinstance(field.type, StructOf) and field.default is not None:
            return self._made(field.type.type, {})
        return self.source.constant("DEFAULT", field.default)

    def _length(self, legacy: str) -> str:
        """Read a length or count; -1 for null."""
        size = self._take("B" if self._flexible else legacy)
        self._flush()
        if self._flexible:
            with self.source.block(f"if {size} > 127"):
                self.source.line(f"{size}, at = read_uvarint(data, at - 1)")
            self.source.line(f"{size} -= 1")
        return size

    def _unless_null(self, size: str) -> contextlib.AbstractContextManager[None]:
        return self.source.block(f"if {size} != -1")

    def _take(self, format: str) -> str:
        name = self.source.fresh("x")
        self._run.append((format, name))
        return name

    def _flush(self) -> None:
        if not self._run:
            return
        run = struct.Struct(">" + "".join(format for format, _ in self._run))
        names = ", ".join(name for _, name in self._run)
        if run.format == ">B":
            self.source.line(f"{names} = data[at]")
        else:
            self.source.line(f"[{names}] = {self.source.constant('UNPACK', run.unpack_from)}(data, at)")
        self.source.line(f"at += {run.size}")
        self._run.clear()

    def _assigned(self, expression: str) -> str:
        name = self.source.fresh("x")
        self.source.line(f"{name} = {expression}")
        return name

    def _smallest(self, kind: WireType) -> int:
        match kind:
            case Fixed(format=format):
                return struct.calcsize(f">{format}")
            case Text():
                return 1 if self._flexible else 2
            case Blob() | ArrayOf():
                return 1 if self._flexible else 4
            case StructOf(type=type):
                present = [f for f in fields_of(type) if self._version in f.versions and f.tag is None]
                return self._flexible + sum(map(self._smallest_field, present))

    def _smallest_field(self, field: Field) -> int:
        if isinstance(field.type, StructOf) and field.nullable(self._version):
            return 1  # its marker
        return self._smallest(field.type)
