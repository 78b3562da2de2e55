"""Protobuf: the place of a message in its file, its imports, and rows of columns."""

from __future__ import annotations

import base64
from array import array
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.struct_pb2 import Struct
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

FIELD = FieldDescriptorProto


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


def test_structs_in_a_map_have_the_fields_of_its_values() -> None:
    schema = ProtobufSchema(Struct, b"\0")

    def of(field: str) -> Any:
        return pa.struct([("fields", pa.map_(pa.string(), pa.struct([(field, pa.float64())])))])

    column = pa.array([{"fields": [("a", {"number_value": 1.5})]}], of("number_value"))
    assert schema.encode_column(column, b"").to_pylist() == [_struct(a=1.5).SerializeToString()]
    with pytest.raises(TypeError, match=r"has no field 'fields\.value\.width'"):
        schema.encode_column(pa.array([], of("width")), b"")


def _struct(**fields: float) -> Struct:
    made = Struct()
    made.update(fields)
    return made


def file_of(*fields: tuple[str, int, int, str | None]) -> Any:
    """A class of a message with fields: name, type, label, and name of their message or enum."""
    file = FileDescriptorProto(name="m.proto", package="p", syntax="proto3")
    file.dependency.extend(["google/protobuf/timestamp.proto", "google/protobuf/duration.proto"])
    enum = file.enum_type.add(name="E")
    for number, value in enumerate("ABC"):
        enum.value.add(name=value, number=number)
    message = file.message_type.add(name="M")
    entry = message.nested_type.add(name="EntriesEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=FIELD.TYPE_STRING, label=1)
    entry.field.add(name="value", number=2, type=FIELD.TYPE_FLOAT, label=1)
    named = message.nested_type.add(name="NamedEntry")
    named.options.map_entry = True
    named.field.add(name="key", number=1, type=FIELD.TYPE_STRING, label=1)
    named.field.add(name="value", number=2, type=FIELD.TYPE_ENUM, label=1, type_name=".p.E")
    for number, (name, kind, label, of) in enumerate(fields, 1):
        message.field.add(name=name, number=number, type=kind, label=label, type_name=of)
    pool = DescriptorPool()
    for each in (Timestamp, Duration):
        pool.AddSerializedFile(each.DESCRIPTOR.file.serialized_pb)
    pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName("p.M"))


TIMES = file_of(
    ("at", FIELD.TYPE_MESSAGE, 1, ".google.protobuf.Timestamp"),
    ("took", FIELD.TYPE_MESSAGE, 3, ".google.protobuf.Duration"),
)


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("nanoseconds", [0, 1577836800123456789, -1500000001, -1])
def test_times_of_columns_keep_all_their_digits(unit: Any, nanoseconds: int) -> None:
    per_unit = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}[unit]
    value = nanoseconds // per_unit
    at = pa.array([value], pa.int64()).view(pa.timestamp(unit, "Europe/Zurich")).dictionary_encode()
    took = pa.array([[value]], pa.list_(pa.int64())).cast(pa.list_(pa.duration(unit)))
    column = pa.StructArray.from_arrays([at, took], ["at", "took"])

    [made] = ProtobufSchema(TIMES, b"\0").encode_column(column, b"").to_pylist()

    found = TIMES.FromString(made)
    assert found.at.ToNanoseconds() == value * per_unit
    assert [each.ToNanoseconds() for each in found.took] == [value * per_unit]
    assert 0 <= found.at.nanos < 10**9
    assert found.took[0].seconds * found.took[0].nanos >= 0


@pytest.mark.parametrize(("name", "kind"), [("at", pa.timestamp("s")), ("took", pa.list_(pa.duration("s")))])
def test_a_row_with_a_time_that_protobuf_lacks_is_refused(name: str, kind: Any) -> None:
    inner = kind if name == "at" else kind.value_type
    cells = pa.array([0, 2**62, -(2**62)], pa.int64()).view(inner)
    cells = cells if name == "at" else pa.ListArray.from_arrays([0, 1, 2, 3], cells)
    with pytest.raises(RowSerializationError, match=r"of Protobuf's (Timestamp|Duration)") as caught:
        ProtobufSchema(TIMES, b"\0").encode_column(pa.StructArray.from_arrays([cells], [name]), b"")
    assert list(caught.value.rows) == [1, 2]


@pytest.mark.parametrize("seconds", [315_576_000_000, -315_576_000_000])
def test_the_longest_duration_of_protobuf_arrives(seconds: int) -> None:
    took = pa.ListArray.from_arrays([0, 1], pa.array([seconds], pa.int64()).view(pa.duration("s")))
    column = pa.StructArray.from_arrays([took], ["took"])

    [made] = ProtobufSchema(TIMES, b"\0").encode_column(column, b"").to_pylist()

    assert [each.seconds for each in TIMES.FromString(made).took] == [seconds]


FLOATS = file_of(
    ("one", FIELD.TYPE_FLOAT, 1, None),
    ("many", FIELD.TYPE_FLOAT, 3, None),
    ("entries", FIELD.TYPE_MESSAGE, 3, ".p.M.EntriesEntry"),
    ("inner", FIELD.TYPE_MESSAGE, 1, ".p.M"),
    ("wide", FIELD.TYPE_DOUBLE, 1, None),
)


@pytest.mark.parametrize(
    ("data", "path"),
    [
        ({"one": 1e300}, "one"),
        ({"one": -(10**39)}, "one"),
        ({"one": Decimal("1E+400")}, "one"),
        ({"many": [0.0, 1e39]}, "many"),
        ({"many": {1e39}}, "many"),
        ({"many": array("d", [1e39])}, "many"),
        ({"entries": {"a": 1.0, "b": 1e39}}, r"entries\['b'\]"),
        ({"wide": 1e300, "inner": {"inner": {"one": 1e39}}}, r"inner\.inner\.one"),
    ],
)
def test_a_number_that_is_too_large_for_a_float_is_refused(data: Any, path: str) -> None:
    with pytest.raises(ValueError, match=rf"{path} is .*, which is too large for a float$"):
        ProtobufSchema(FLOATS, b"\0").encode(data)


ENUMS = file_of(
    ("one", FIELD.TYPE_ENUM, 1, ".p.E"),
    ("many", FIELD.TYPE_ENUM, 3, ".p.E"),
    ("inner", FIELD.TYPE_MESSAGE, 1, ".p.M"),
    ("inners", FIELD.TYPE_MESSAGE, 3, ".p.M"),
    ("named", FIELD.TYPE_MESSAGE, 3, ".p.M.NamedEntry"),
)


@pytest.mark.parametrize(
    ("data", "path"),
    [
        ({"one": "\ud800"}, "one"),
        ({"many": ["A", "B\udfff"]}, "many"),
        ({"many": "\ud800"}, "many"),
        ({"inner": {"inner": {"one": "a\ud800"}}}, r"inner\.inner\.one"),
        ({"many": (name for name in ["A", "\ud800"])}, "many"),
        ({"inners": ({"one": name} for name in ["A", "\ud800"])}, r"inners\.one"),
        ({"named": {"a": "\ud800"}}, r"named\['a'\]"),
        ({"named": [("a", "\ud800")]}, r"named\['a'\]"),
    ],
)
def test_the_name_of_an_enum_that_is_not_text_never_reaches_the_library(data: Any, path: str) -> None:
    """Most versions of it end the process then, with all records that are queued."""
    with pytest.raises(ValueError, match=rf"{path} is .*, which is not valid text, and so no name of an enum's value"):
        ProtobufSchema(ENUMS, b"\0").encode(data)


def test_names_and_numbers_of_enums_are_written() -> None:
    data = {
        "one": "B",
        "many": iter(["C", 1]),
        "inner": None,
        "inners": ({"one": n} for n in "AB"),
        "named": {"a": "C"},
    }
    written = ProtobufSchema(ENUMS, b"\0").encode(data)

    assert ENUMS.FromString(written) == ENUMS(one=1, many=[2, 1], inners=[ENUMS(one=0), ENUMS(one=1)], named={"a": 2})


def test_numbers_that_a_float_can_have_are_written() -> None:
    schema = ProtobufSchema(FLOATS, b"\0")
    data: dict[str, Any] = {
        "one": float("-inf"),
        "many": [3.4028234663852886e38, 0.1],
        "entries": {"a": 1},
        "wide": 1e300,
    }
    found = FLOATS.FromString(schema.encode(data))

    assert (found.one, found.many[0], found.entries["a"], found.wide) == (data["one"], data["many"][0], 1.0, 1e300)
    column = pa.array([{"wide": 1e300, "one": 1.0}, {"wide": 1.0, "one": 1e300}])
    with pytest.raises(RowSerializationError, match="one is 1e\\+300, which is too large for a float") as caught:
        schema.encode_column(column, b"")
    assert list(caught.value.rows) == [1]


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
