"""Protobuf: the place of a message in its file, its imports, and rows of columns."""

from __future__ import annotations

import base64
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.timestamp_pb2 import Timestamp
from google.protobuf.type_pb2 import Field, Type
from hostile_registry import Hostile, hostile_server, says

from ottla import ConfigError, Producer
from ottla.errors import RowSerializationError
from ottla_serializer_schema_registry import InvalidSchemaError
from ottla_serializer_schema_registry.protobuf.schema import (
    ProtobufSchema,
    encoded_indexes,
    indexes_in,
    indexes_of,
    local_schema,
    message_class,
)
from ottla_serializer_schema_registry.protobuf.serializer import protobuf_serializer
from ottla_serializer_schema_registry.registry.client import SchemaRegistry
from ottla_serializer_schema_registry.registry.exchanges import Exchanges

hostile = hostile_server


def text_of(file: Any) -> str:
    return base64.b64encode(file.SerializeToString()).decode()


@pytest.mark.parametrize(
    ("message", "indexes", "encoded"),
    [(Timestamp, (0,), b"\0"), (Field, (1,), b"\2\2"), (DescriptorProto.ExtensionRange, (2, 0), b"\4\4\0")],
)
def test_a_message_is_found_by_its_place(message: Any, indexes: tuple[int, ...], encoded: bytes) -> None:
    file = FileDescriptorProto.FromString(message.DESCRIPTOR.file.serialized_pb)
    assert indexes_of(message.DESCRIPTOR) == indexes == indexes_in(text_of(file), message.DESCRIPTOR.full_name)
    assert encoded_indexes(indexes) == encoded


def nested_class() -> Any:
    """The class p.Outer.First, before whose type a map field has its entry."""
    file = FileDescriptorProto(name="outer.proto", package="p", syntax="proto3")
    outer = file.message_type.add(name="Outer")
    entry = outer.nested_type.add(name="TagsEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=9, label=1)
    entry.field.add(name="value", number=2, type=5, label=1)
    outer.nested_type.add(name="First").field.add(name="a", number=1, type=5, label=1)
    outer.field.add(name="tags", number=1, type=11, label=3, type_name=".p.Outer.TagsEntry")
    pool = DescriptorPool()
    pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName("p.Outer.First"))


@pytest.mark.parametrize(("normalize", "indexes"), [(False, b"\4\0\2"), (True, b"\4\0\0")])
def test_a_schema_that_the_registry_normalizes_has_no_entries_of_maps(
    hostile: Hostile, normalize: bool, indexes: bytes
) -> None:
    """As Confluent's readers find the message: their `toMessageIndexes` leaves map entries out when it normalizes."""
    hostile.last = says({"id": 7})
    registry = SchemaRegistry(Exchanges([hostile.address]), normalize=normalize)
    serializer = protobuf_serializer(registry, nested_class())
    serializer.prepare("orders", {"a": 1}, (), timeout=30)

    assert serializer.serialize("orders", {"a": 1}, ()) == b"\0\0\0\0\7" + indexes + b"\x08\1"


def test_the_place_in_the_schema_of_the_registry_counts() -> None:
    file = FileDescriptorProto(name="x.proto", package="google.protobuf")
    file.message_type.add(name="Another")
    file.message_type.add(name="Timestamp")
    assert indexes_in(text_of(file), "google.protobuf.Timestamp") == (1,)
    with pytest.raises(InvalidSchemaError, match=r"no message 'google\.protobuf\.Duration'"):
        indexes_in(text_of(file), "google.protobuf.Duration")


@pytest.mark.parametrize("text", ['syntax = "proto3";', "", "////", "ü"])
def test_a_text_that_is_no_descriptor_is_refused(text: str) -> None:
    with pytest.raises(InvalidSchemaError):
        indexes_in(text, "a.B")


def test_files_that_every_registry_has_are_not_registered() -> None:
    assert [each.name for each in local_schema(Type.DESCRIPTOR.file).imports] == []


def test_columns_become_messages_and_rows_that_do_not_fit_are_named() -> None:
    schema = ProtobufSchema(Timestamp, b"\0")
    kind = pa.struct([("seconds", pa.int64()), ("nanos", pa.int64())])
    column = pa.array([{"seconds": 1, "nanos": None}, None, {"seconds": None, "nanos": 2}], kind)
    assert schema.encode_column(column, b"p").to_pylist() == [b"p\x08\1", None, b"p\x10\2"]
    with pytest.raises(RowSerializationError) as caught:
        schema.encode_column(pa.array([{"seconds": 1, "nanos": 2**31}, {"seconds": 2, "nanos": 0}], kind), b"")
    assert list(caught.value.rows) == [0]
    with pytest.raises(TypeError, match="has no field 'minutes'"):
        schema.encode_column(pa.array([], pa.struct([("minutes", pa.int64())])), b"")


@pytest.mark.parametrize("listed", [lambda kind: pa.list_(kind, 2), pa.list_view, pa.large_list_view])
def test_lists_of_every_arrow_type_become_repeated_fields(listed: Any) -> None:
    schema = ProtobufSchema(Type, b"\0")
    of_name = pa.struct([("name", pa.string())])
    column = pa.array([{"fields": [{"name": "a"}, {"name": None}]}], pa.struct([("fields", listed(of_name))]))

    expected = Type(fields=[Field(name="a"), Field()]).SerializeToString()
    assert schema.encode_column(column, b"").to_pylist() == [expected]
    with pytest.raises(TypeError, match=r"has no field 'fields\.width'"):
        schema.encode_column(pa.array([], pa.struct([("fields", listed(pa.struct([("width", pa.int8())])))])), b"")


def test_a_row_with_a_date_that_python_lacks_is_named() -> None:
    days = pa.array([2**31 - 1, None], pa.int32()).cast(pa.date32())
    with pytest.raises(RowSerializationError) as caught:
        ProtobufSchema(Timestamp, b"\0").encode_column(pa.StructArray.from_arrays([days], ["seconds"]), b"")
    assert list(caught.value.rows) == [0]


def test_a_field_of_a_field_that_the_message_lacks_is_named() -> None:
    schema = ProtobufSchema(Type, b"\0")
    fields = pa.list_(pa.struct([("name", pa.string()), ("width", pa.int32())]))
    with pytest.raises(TypeError, match=r"has no field 'fields\.width'"):
        schema.encode_column(pa.array([], pa.struct([("fields", fields)])), b"")


@pytest.mark.parametrize(
    "written", ["os:path", "nothing:Nothing", "Timestamp", int, "google.protobuf.type_pb2:Nothing"]
)
def test_a_class_that_was_not_generated_is_refused(written: Any) -> None:
    with pytest.raises(ValueError, match=r"no class that protoc generated|cannot be imported|module:Class"):
        message_class(written)


def test_a_class_is_named_by_its_module_or_given(hostile: Hostile) -> None:
    hostile.last = says({"id": 7})
    for written in (Timestamp, "google.protobuf.timestamp_pb2:Timestamp"):
        settings = {
            "bootstrap.servers": "127.0.0.1:9",
            "value.serializer": "protobuf",
            "value.schema": written,
            "schema.registry.url": hostile.address,
        }
        with Producer(settings):
            pass
        with pytest.raises(ConfigError, match="give the generated class"), Producer({**settings, "value.schema": None}):
            pass
