"""Data that holds itself, or is nested deeply, is refused before a library in C recurses: that ends the process."""

from __future__ import annotations

import json
import threading
from collections import UserDict, UserList
from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf.descriptor_pb2 import DescriptorProto
from google.protobuf.struct_pb2 import Struct, Value
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import RowSerializationError
from ottla_accel.plugin import NativeEncoder
from ottla_serializer_schema_registry.avro.format import AvroFormat
from ottla_serializer_schema_registry.avro.levels import most_levels
from ottla_serializer_schema_registry.avro.schema import parsed_schema
from ottla_serializer_schema_registry.json_schema.columns import texts
from ottla_serializer_schema_registry.json_schema.schema import parsed_schema as json_schema
from ottla_serializer_schema_registry.nesting import MOST_LEVELS, levels_of
from ottla_serializer_schema_registry.protobuf.levels import message_levels
from ottla_serializer_schema_registry.protobuf.schema import ProtobufSchema
from ottla_serializer_schema_registry.registry.references import NamedText

MAP = {"type": "map", "values": "N"}
LIST = {"type": "array", "items": ["null", "N"]}


def avro(kind: Any, *, native: bool) -> Callable[[Any], bytes]:
    its_format = AvroFormat()
    if native:
        its_format.use_encoder(NativeEncoder())
    schema = {"type": "record", "name": "N", "fields": [{"name": "a", "type": kind}]}
    parsed = its_format.parse(json.dumps(schema), ())
    return lambda data: parsed.encode(data, b"")


def cycle(*within: Callable[[Any], Any]) -> Any:
    """A dict whose field `a` is itself, in these containers."""
    data: Any = {}
    inner = data
    for container in within:
        inner = container(inner)
    data["a"] = inner
    return data


def own_cycle() -> Any:
    data: Any = UserDict()
    data["a"] = data
    return data


def in_small_thread(call: Callable[[], Any]) -> Any:
    """The result or the error of a call in a thread with a stack of 512 KiB."""
    outcome: list[Any] = []

    def run() -> None:
        try:
            outcome.append(call())
        except Exception as error:
            outcome.append(error)

    before = threading.stack_size(2**19)
    try:
        thread = threading.Thread(target=run)
        thread.start()
    finally:
        threading.stack_size(before)
    thread.join(60)
    return outcome[0]


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize(
    ("kind", "data"),
    [
        (["null", "N"], cycle()),
        (["null", "N"], cycle(lambda inner: ("N", inner))),
        (["null", "N"], own_cycle()),
        ("N", cycle()),
        (MAP, cycle(lambda inner: {"k": inner})),
        (LIST, cycle(lambda inner: [inner])),
        (LIST, cycle(lambda inner: UserList([inner]))),
        (["null", "int", MAP, "N"], cycle(lambda inner: {"k": inner, "l": inner})),
    ],
    ids=str,
)
def test_a_record_that_holds_itself_is_no_avro(kind: Any, data: Any, native: bool) -> None:
    with pytest.raises(ValueError, match=r"too deeply for Avro \(more than 100 levels\), or holds itself"):
        avro(kind, native=native)(data)


RECURSIVE = {"properties": {"a": {"$ref": "#"}, "l": {"type": "array", "items": {"$ref": "#"}}}}


def nested(levels: int, *, lists: bool) -> Any:
    data: Any = {}
    for _ in range((levels - 1) // (1 + lists)):
        data = {"l": [data]} if lists else {"a": data}
    return data


@pytest.mark.parametrize("lists", [False, True])
def test_json_with_a_schema_has_as_many_levels_as_other_formats(lists: bool) -> None:
    schema = json_schema(json.dumps(RECURSIVE))
    most = nested(MOST_LEVELS, lists=lists)
    assert in_small_thread(lambda: schema.encode(most)) == json.dumps(most).replace(" ", "").encode()
    for levels in (MOST_LEVELS + 2, 900):
        error = in_small_thread(partial(schema.encode, nested(levels, lists=lists)))
        assert isinstance(error, ValueError)
        assert str(error) == "it is nested too deeply for JSON (more than 100 levels), or holds itself"
    with pytest.raises(ValueError, match="too deeply for JSON"):
        schema.encode(own_cycle())


def test_a_row_of_json_with_too_many_levels_is_refused() -> None:
    rows: Any = pa.array([{"a": 1}, None])
    for _ in range(MOST_LEVELS):
        rows = pa.StructArray.from_arrays([rows], ["a"], mask=pa.array([False, True]))
    with pytest.raises(RowSerializationError, match="too deeply for JSON") as caught:
        texts(json_schema('{"minProperties": 0}'), rows, rows=None)
    assert list(caught.value.rows) == [0]


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("text", ['"N"', '["null", "N"]', '{"type": "array", "items": "N"}'])
def test_a_record_of_a_schema_that_is_referred_to_may_not_hold_itself(text: str, native: bool) -> None:
    its_format = AvroFormat()
    if native:
        its_format.use_encoder(NativeEncoder())
    record = {"type": "record", "name": "N", "fields": [{"name": "a", "type": ["null", "N"]}]}
    schema = its_format.parse(text, [NamedText(name="N", text=json.dumps(record))])
    with pytest.raises(ValueError, match="more than 100 levels"):
        schema.encode([cycle()] if "array" in text else cycle(), b"")


def test_avro_takes_a_hundred_levels_in_a_thread_with_a_small_stack() -> None:
    data: dict[str, Any] = {"a": None}
    for _ in range(MOST_LEVELS - 1):
        data = {"a": data}
    encode = avro(["null", "N"], native=True)
    assert in_small_thread(lambda: encode(data)) == b"\2" * (MOST_LEVELS - 1) + b"\0"
    assert "more than 100 levels" in str(in_small_thread(lambda: encode({"a": data})))


def test_only_avro_schemas_without_a_limit_of_levels_need_the_search() -> None:
    def most(text: Any) -> float:
        parsed = parsed_schema(json.dumps(text))
        return most_levels(parsed.schema, parsed.named)

    flat = {"type": "record", "name": "F", "fields": [{"name": "a", "type": ["null", "string"]}]}
    twice = {"type": "record", "name": "T", "fields": [{"name": "a", "type": flat}, {"name": "b", "type": "F"}]}
    deep: Any = "int"
    for _ in range(150):
        deep = {"type": "array", "items": deep}
    assert (most("int"), most(flat), most({"type": "map", "values": twice})) == (0, 1, 3)
    assert most(deep) == 150
    for _ in range(5000):  # more than Python's recursion takes
        deep = {"type": "array", "items": deep}
    assert most_levels(deep, {}) == float("inf")
    assert most({"type": "record", "name": "N", "fields": [{"name": "a", "type": MAP}]}) == float("inf")


def test_deep_data_of_an_avro_schema_that_is_deep_is_refused() -> None:
    kind: Any = "int"
    data: Any = 1
    for _ in range(150):
        kind, data = {"type": "array", "items": kind}, [data]
    schema = AvroFormat().parse(json.dumps(kind), ())
    assert schema.encode([], b"") == b"\0"
    with pytest.raises(ValueError, match="more than 100 levels"):
        schema.encode(data, b"")


def listing(levels: int) -> dict[str, Any]:
    """Fields of a DescriptorProto with this many messages within each other."""
    data: dict[str, Any] = {"name": "x"}
    for _ in range(levels - 1):
        data = {"nested_type": [data]}
    return data


def in_structs(levels: int) -> dict[str, Any]:
    """Fields of a Value with this many Structs within each other."""
    data: dict[str, Any] = {"a": 1}
    for _ in range(levels - 1):
        data = {"a": data}
    return {"struct_value": data}


def lists_of_itself() -> dict[str, Any]:
    data: list[Any] = []
    data.append(data)
    return {"list_value": data}


def in_fields() -> dict[str, Any]:
    data: dict[str, Any] = {}
    data["struct_value"] = {"fields": {"a": data}}
    return data


def in_a_list() -> dict[str, Any]:
    data: dict[str, Any] = {"nested_type": []}
    data["nested_type"].append(data)
    return data


@pytest.mark.parametrize(
    ("kind", "data"),
    [(DescriptorProto, in_a_list()), (Value, in_fields()), (Value, lists_of_itself()), (Value, in_structs(5000))],
    ids=["list", "fields", "list_value", "deep"],
)
def test_a_dict_that_holds_itself_is_no_protobuf(kind: Any, data: Any) -> None:
    with pytest.raises(ValueError, match=r"too deeply for Protobuf \(more than 100 levels\), or holds itself"):
        ProtobufSchema(kind, b"\0").encode(data)


@pytest.mark.parametrize(
    ("kind", "made", "most"), [(DescriptorProto, listing, MOST_LEVELS), (Value, in_structs, 33)], ids=["list", "struct"]
)
def test_protobuf_is_sent_as_deep_as_readers_accept(kind: Any, made: Callable[[int], Any], most: int) -> None:
    schema = ProtobufSchema(kind, b"\0")
    for data in (made(most), kind(**made(most))):
        sent = in_small_thread(partial(schema.encode, data))
        assert kind.FromString(sent) == kind(**made(most))
    for data in (made(most + 1), kind(**made(most + 1)), {**made(1), **made(most + 1)}):
        with pytest.raises(ValueError, match="more than 100 levels"):
            schema.encode(data)


def test_a_deep_message_within_a_dict_is_refused() -> None:
    deep = DescriptorProto(**listing(MOST_LEVELS))
    with pytest.raises(ValueError, match="more than 100 levels"):
        ProtobufSchema(DescriptorProto, b"\0").encode({"nested_type": [deep]})


def test_only_types_of_messages_that_hold_themselves_need_the_search() -> None:
    assert message_levels(Timestamp.DESCRIPTOR) is None
    assert message_levels(Struct.DESCRIPTOR) is not None


NESTED = st.recursive(
    st.one_of(st.none(), st.integers(), st.text(), st.binary()),
    lambda inner: st.one_of(st.lists(inner), st.lists(inner).map(tuple), st.dictionaries(st.text(), inner)),
)


@given(data=NESTED)
def test_the_levels_of_data_are_those_of_a_recursive_search(data: Any) -> None:
    def levels(each: Any) -> int:
        if not isinstance(each, (list, tuple, dict)):
            return 0
        return 1 + max(map(levels, each.values() if isinstance(each, dict) else each), default=0)

    expected = levels(data)
    assert levels_of(data) == expected
    if expected:
        with pytest.raises(RecursionError):
            levels_of(data, maximum=expected - 1)


def test_a_list_that_is_reached_in_many_ways_is_searched_once_per_level() -> None:
    data: Any = 1
    for _ in range(90):
        data = [data] * 20
    assert levels_of(data) == 90
