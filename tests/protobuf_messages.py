"""Classes of messages, as protoc would generate them, without protoc."""

from __future__ import annotations

import itertools
from typing import Any, Final

from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.timestamp_pb2 import DESCRIPTOR as TIMESTAMP


def message_classes() -> tuple[Any, Any]:
    """A nested message, which is the second in its file and uses another file; and a message of that file."""
    pool = DescriptorPool()
    pool.AddSerializedFile(TIMESTAMP.serialized_pb)
    pool.Add(_airports())
    pool.Add(_flights())
    return (
        GetMessageClass(pool.FindMessageTypeByName("air.Plan.Flight")),
        GetMessageClass(pool.FindMessageTypeByName("air.Airport")),
    )


def class_of_every_type() -> Any:
    """The class `every.Outer.All`, the second of its file: fields of all types, alone, repeated, and in maps."""
    pool = DescriptorPool()
    pool.AddSerializedFile(TIMESTAMP.serialized_pb)
    pool.Add(_every_type())
    return GetMessageClass(pool.FindMessageTypeByName("every.Outer.All"))


SCALARS: Final = (
    *("double", "float", "int64", "uint64", "int32", "fixed64", "fixed32", "bool", "string", "bytes", "uint32"),
    *("sfixed32", "sfixed64", "sint32", "sint64"),
)
"""Names of Protobuf's types, which the fields of `All` have: `int32`, `many_int32`, `by_int32`, `maybe_int32`."""

KEYS: Final = ("int64", "uint64", "int32", "fixed64", "fixed32", "bool", "string", "uint32", "sfixed32", "sint64")
"""Types of the keys of maps; the values have the type that is at the same place of SCALARS."""


def _every_type() -> FileDescriptorProto:
    file = FileDescriptorProto(name="every.proto", package="every", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    file.message_type.add(name="First")
    made = file.message_type.add(name="Outer").nested_type.add(name="All")
    kinds = made.enum_type.add(name="Color")
    for number, name in enumerate(("RED", "GREEN", "BLUE")):
        kinds.value.add(name=name, number=number * 1000)
    numbers = itertools.count(1)
    made.oneof_decl.add(name="choice")
    made.field.add(name="self", number=next(numbers), type=11, type_name=".every.Outer.All", label=1)
    made.field.add(name="at", number=next(numbers), type=11, type_name=".google.protobuf.Timestamp", label=1)
    made.field.add(name="color", number=next(numbers), type=14, type_name=".every.Outer.All.Color", label=1)
    made.field.add(name="many_color", number=next(numbers), type=14, type_name=".every.Outer.All.Color", label=3)
    for name in ("int32", "string"):
        made.field.add(name=f"chosen_{name}", number=next(numbers), type=_type(name), label=1, oneof_index=0)
    for name in SCALARS:
        made.field.add(name=name, number=next(numbers), type=_type(name), label=1)
        made.field.add(name=f"many_{name}", number=next(numbers), type=_type(name), label=3)
        made.field.add(
            name=f"maybe_{name}",
            number=next(numbers),
            type=_type(name),
            label=1,
            proto3_optional=True,
            oneof_index=len(made.oneof_decl),
        )
        made.oneof_decl.add(name=f"_maybe_{name}")
    for key, value in zip(KEYS, SCALARS, strict=False):
        entry = made.nested_type.add(name=f"By{key.capitalize()}Entry")
        entry.options.map_entry = True
        entry.field.add(name="key", number=1, type=_type(key), label=1)
        entry.field.add(name="value", number=2, type=_type(value), label=1)
        its_type = f".every.Outer.All.{entry.name}"
        made.field.add(name=f"by_{key}", number=next(numbers), type=11, type_name=its_type, label=3)
    return file


def _type(name: str) -> Any:
    return FieldDescriptorProto.Type.Value(f"TYPE_{name.upper()}")


def _airports() -> FileDescriptorProto:
    file = FileDescriptorProto(name="air/airports.proto", package="air", syntax="proto3")
    message = file.message_type.add(name="Airport")
    message.field.add(name="code", number=1, type=FieldDescriptorProto.TYPE_STRING, label=1)
    return file


def _flights() -> FileDescriptorProto:
    file = FileDescriptorProto(name="air/flights.proto", package="air", syntax="proto3")
    file.dependency.extend(["air/airports.proto", "google/protobuf/timestamp.proto"])
    file.message_type.add(name="Unused")
    plan = file.message_type.add(name="Plan")
    plan.nested_type.add(name="AlsoUnused")
    flight = plan.nested_type.add(name="Flight")
    flight.field.add(name="number", number=1, type=FieldDescriptorProto.TYPE_INT32, label=1)
    flight.field.add(name="origin", number=2, type=FieldDescriptorProto.TYPE_MESSAGE, type_name=".air.Airport", label=1)
    flight.field.add(name="stops", number=3, type=FieldDescriptorProto.TYPE_STRING, label=3)
    flight.field.add(
        name="at", number=4, type=FieldDescriptorProto.TYPE_MESSAGE, type_name=".google.protobuf.Timestamp", label=1
    )
    return file
