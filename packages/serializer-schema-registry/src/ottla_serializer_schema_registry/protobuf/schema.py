"""Messages of generated classes, with the place of their type in its file."""

from __future__ import annotations

import base64
import importlib
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ottla.errors import PluginNotFoundError, printable
from ottla.protocol.primitives import varint
from ottla_serializer_schema_registry.errors import InvalidSchemaError
from ottla_serializer_schema_registry.nesting import too_deep
from ottla_serializer_schema_registry.registry.references import LocalSchema
from ottla_serializer_schema_registry.registry.schemas import PROTOBUF, Schema

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FileDescriptor
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

BUILT_IN = ("google/protobuf/", "confluent/")
"""Files that every registry has, which are not registered."""


class ProtobufSchema:
    """Encodes messages of one class. *indexes* is where a schema of the registry has their type."""

    def __init__(self, message_class: Any, indexes: bytes) -> None:
        from ottla_serializer_schema_registry.protobuf.field_checks import FieldChecks  # they need the library
        from ottla_serializer_schema_registry.protobuf.levels import message_levels

        self.indexes = indexes
        self.name = str(message_class.DESCRIPTOR.full_name)
        self._class = message_class
        self._levels = message_levels(message_class.DESCRIPTOR)
        self._checks = FieldChecks(message_class.DESCRIPTOR)

    def encode(self, data: Any, prefix: bytes = b"") -> bytes:
        """Return a message, or a dict with its fields, after *prefix*. Raises ValueError for others."""
        is_message = type(data) is self._class
        if not is_message and not isinstance(data, dict):
            raise ValueError(f"it is {type(data).__name__}, and not a message of {self.name} or a dict with its fields")
        try:
            is_shallow = self._levels is None or (not is_message and self._levels.are_few(data))
            message = data if is_message else self._message(data)
            if self._levels is not None and not is_shallow:
                self._levels.check(message)
        except RecursionError:
            raise ValueError(too_deep("Protobuf")) from None
        try:
            return prefix + bytes(message.SerializeToString(deterministic=True))
        except Exception as error:  # EncodeError: required fields of proto2 are missing
            raise ValueError(f"it cannot be encoded as {self.name}: {printable(str(error))}") from error

    def _message(self, fields: dict[str, Any]) -> Any:
        """Return a message with these fields. None leaves one out. Raises ValueError."""
        try:
            checked = self._checks.checked(fields)
            return self._class(**{name: value for name, value in checked.items() if value is not None})
        except (TypeError, ValueError, OverflowError) as error:
            raise ValueError(f"it does not fit {self.name}: {printable(str(error))}") from error

    def encode_column(self, column: Any, prefix: bytes) -> Any:
        """Return the messages of a column of structs, made one by one. Raises TypeError and RowSerializationError."""
        from ottla_serializer_schema_registry.protobuf.columns import encoded

        return encoded(self._class.DESCRIPTOR, partial(self.encode, prefix=prefix), column)


def message_class(written: Any) -> Any:
    """Return a generated class, given as itself or as `module:Class`. Raises ValueError."""
    try:
        from google.protobuf.message import Message
    except ImportError as cause:
        raise PluginNotFoundError(
            "Protobuf needs the library protobuf; try: pip install 'ottla-serializer-schema-registry[protobuf]'"
        ) from cause
    found = written
    if isinstance(written, str):
        module, colon, name = written.strip().partition(":")
        if not colon:
            raise ValueError("write the generated class as module:Class, or give the class in a program")
        try:
            found = importlib.import_module(module)
            for part in name.split("."):
                found = getattr(found, part)
        except Exception as error:  # of a module that fails
            raise ValueError(
                f"{written!r} cannot be imported: {type(error).__name__}: {printable(str(error))}"
            ) from error
    if not (isinstance(found, type) and issubclass(found, Message)):
        raise ValueError(f"{written!r} is no class that protoc generated")
    return found


def local_schema(file: FileDescriptor) -> LocalSchema:
    """Return the schema of a file and of all that it imports, as it is registered."""
    return LocalSchema(
        schema=Schema(kind=PROTOBUF, text=base64.b64encode(file.serialized_pb).decode()),
        name=file.name,
        imports=[local_schema(each) for each in file.dependencies if not each.name.startswith(BUILT_IN)],
    )


def indexes_of(descriptor: Descriptor, *, normalized: bool = False) -> tuple[int, ...]:
    """Return the place of a message type in its file: its index there, or those of the types around it and its own.

    A file that the registry normalizes has no types for the entries of maps: they are not counted.
    """
    if descriptor.containing_type is None:
        names = list(descriptor.file.message_types_by_name)
        return (names.index(descriptor.name),)
    around = descriptor.containing_type
    counted = [each.name for each in around.nested_types if not (normalized and each.GetOptions().map_entry)]
    return (*indexes_of(around, normalized=normalized), counted.index(descriptor.name))


def indexes_in(text: str, name: str) -> tuple[int, ...]:
    """Return the place of the message type *name* in a schema of the registry. Raises InvalidSchemaError."""
    file = _file(text)
    path = name.removeprefix(f"{file.package}.") if file.package else name
    types: Any = file.message_type
    found = []
    for part in path.split("."):
        names = [each.name for each in types]
        if part not in names:
            raise InvalidSchemaError(f"the schema of the registry has no message {name!r}")
        found.append(names.index(part))
        types = types[found[-1]].nested_type
    return tuple(found)


def _file(text: str) -> FileDescriptorProto:
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.message import DecodeError

    try:
        return FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except (ValueError, DecodeError, RecursionError) as error:
        raise InvalidSchemaError(
            "the registry gave the schema as the text of a .proto file, which is not read here; registries since "
            "Confluent Platform 5.5 give descriptors"
        ) from error


def encoded_indexes(indexes: Sequence[int]) -> bytes:
    """Return the place of a message type as bytes: its length and its numbers, as zigzag varints; 0 for the first."""
    if tuple(indexes) == (0,):
        return b"\0"
    return b"".join(map(varint, (len(indexes), *indexes)))
