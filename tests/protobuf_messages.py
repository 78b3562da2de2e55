"""Classes of messages, as protoc would generate them, without protoc."""

from __future__ import annotations

from typing import Any

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
