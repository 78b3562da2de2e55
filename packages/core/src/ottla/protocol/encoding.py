"""Compiles the encoder of one struct at one version: a function that appends chunks of bytes.

Adjacent fields of fixed size, including legacy lengths, go through one precompiled `struct.Struct`. Nested structs and
arrays are unrolled into loops of the same function, so encoding makes no Python call per field.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

from ottla.errors import UnsupportedVersionError
from ottla.protocol.notation import ArrayOf, Blob, Field, Fixed, StructOf, Text, WireType, fields_of
from ottla.protocol.primitives import UVARINT, uvarint
from ottla.protocol.source import Source


def compile_encoder(
    root: type, *, label: str, version: int, flexible: bool
) -> Callable[[Any, Callable[[bytes], object]], None]:
    """A function `encode(value, append)`.

    It raises UnsupportedVersionError for a value that the version cannot express: a null, or a field that may not be
    dropped.
    """
    writer = _Writer(label=label, version=version, flexible=flexible)
    writer.struct(root, "value")
    writer.flush()
    writer.source.line("return None")  # a struct without fields at this version still needs a body
    return writer.source.compiled(f"encoder of {label}")


class _Writer:
    """Walks a declaration once. Writes of fixed size are collected in `_run` until another kind of write follows."""

    def __init__(self, *, label: str, version: int, flexible: bool) -> None:
        self.source = Source(
            "encode(value, append)",
            UVARINT=UVARINT,
            uvarint=uvarint,
            pack=struct.pack,
            UnsupportedVersionError=UnsupportedVersionError,
        )
        self._label = label
        self._version = version
        self._flexible = flexible
        self._append = "append"
        self._run: list[tuple[str, str]] = []

    def struct(self, kind: type, value: str) -> None:
        present = [field for field in fields_of(kind) if self._version in field.versions]
        for field in fields_of(kind):
            if field not in present and not field.ignorable:
                self._refuse_to_drop(field, value)
        for field in present:
            if field.tag is None:
                self._field(field, f"{value}.{field.name}")
        if self._flexible:
            self._tagged([field for field in present if field.tag is not None], value)

    def flush(self) -> None:
        """Write the collected run."""
        if not self._run:
            return
        pack = self.source.constant("PACK", struct.Struct(">" + "".join(f for f, _ in self._run)).pack)
        values = ", ".join(value for _, value in self._run if value)
        self._run.clear()
        self.source.line(f"{self._append}({pack}({values}))")

    def _refuse_to_drop(self, field: Field, value: str) -> None:
        default = self.source.constant("DEFAULT", field.default)
        with self.source.block(f"if {value}.{field.name} != {default}"):
            sentence = (
                f"{self._label} cannot carry {field.name}, which is for {field.versions}: "
                f"leave it at its default ({field.default!r}) or send another version"
            )
            self.source.line(f"raise UnsupportedVersionError({sentence!r})")

    def _field(self, field: Field, expression: str) -> None:
        if not field.optional:
            self._value(field.type, expression)
            return
        value = self._named(expression)
        if field.nullable(self._version):
            self.flush()
            with self.source.block(f"if {value} is None"):
                self._null(field.type)
            with self.source.block("else"):
                if isinstance(field.type, StructOf):
                    self._run.append(("b", "1"))
                self._value(field.type, value)
                self.flush()
        else:
            with self.source.block(f"if {value} is None"):
                sentence = f"{self._label} has no null for {field.name}"
                self.source.line(f"raise UnsupportedVersionError({sentence!r})")
            self._value(field.type, value)

    def _value(self, kind: WireType, expression: str) -> None:
        match kind:
            case Fixed(format=format):
                self._run.append((format, expression))
            case StructOf(type=type):
                self.struct(type, self._named(expression))
            case Text():
                encoded = self._named(f"{expression}.encode()")
                self._length(encoded, legacy="h")
                self.source.line(f"{self._append}({encoded})")
            case Blob():
                blob = self._named(expression)
                self._length(blob, legacy="i")
                self.source.line(f"{self._append}({blob})")
            case ArrayOf(item=item):
                self._array(item, self._named(expression))

    def _array(self, item: WireType, array: str) -> None:
        self._length(array, legacy="i")
        if isinstance(item, Fixed) and len(item.format) == 1:
            with self.source.block(f"if {array}"):
                self.source.line(f'{self._append}(pack(f">{{len({array})}}{item.format}", *{array}))')
            return
        each = self.source.fresh("item")
        with self.source.block(f"for {each} in {array}"):
            self._value(item, each)
            self.flush()

    def _tagged(self, fields: Sequence[Field], value: str) -> None:
        if not fields:
            self._run.append(("x", ""))  # a count of 0: the struct module's pad byte
            return
        self.flush()
        tagged = self._named("[]")
        for field in sorted(fields, key=lambda field: field.tag or 0):
            default = self.source.constant("DEFAULT", field.default)
            # A field that equals its default must not be written, or our bytes differ from Java's.
            with self.source.block(f"if {value}.{field.name} != {default}"):
                chunks, body = self._named("[]"), self.source.fresh("body")
                outer, self._append = self._append, self._named(f"{chunks}.append")
                self._field(field, f"{value}.{field.name}")
                self.flush()
                self._append = outer
                self.source.line(f"{body} = b''.join({chunks})")
                self.source.line(f"{tagged} += uvarint({field.tag}), uvarint(len({body})), {body}")
        self.source.line(f"{self._append}(UVARINT[len({tagged}) // 3])")
        self.source.line(f"{self._append}(b''.join({tagged}))")

    def _length(self, sized: str, *, legacy: str) -> None:
        if not self._flexible:
            self._run.append((legacy, f"len({sized})"))
            self.flush()
            return
        self.flush()
        size = self._named(f"len({sized}) + 1")
        self.source.line(f"{self._append}(UVARINT[{size}] if {size} < 128 else uvarint({size}))")

    def _null(self, kind: WireType) -> None:
        if isinstance(kind, StructOf):
            self._run.append(("b", "-1"))
        elif self._flexible:
            self._run.append(("x", ""))
        else:
            self._run.append(("h" if isinstance(kind, Text) else "i", "-1"))
        self.flush()

    def _named(self, expression: str) -> str:
        name = self.source.fresh("x")
        self.source.line(f"{name} = {expression}")
        return name
