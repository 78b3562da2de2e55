"""What can be declared is compiled right, and what is declared fits together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import attrs
import pytest

import ottla.protocol
from ottla.errors import ProtocolError, UnsupportedVersion
from ottla.protocol import METADATA, Codec, Message, MetadataRequest, ProduceResponse
from ottla.protocol.notation import (
    ZERO_UUID,
    ArrayOf,
    Bool,
    Bytes,
    In,
    Int8,
    Int16,
    Int32,
    Int64,
    Null,
    String,
    StructOf,
    Tag,
    Uuid,
    WireType,
    fields_of,
)


@attrs.define(kw_only=True)
class Inner:
    number: Int8 = -1
    words: list[String] = attrs.Factory(list)


@attrs.define(kw_only=True)
class Everything:
    """A struct with every form that the notation has."""

    flag: Bool = False
    big: Int64 = 0
    uuids: list[Uuid] = attrs.Factory(list)
    middle: Annotated[Int16, In(1, 2)] = 7
    blob: Bytes | None = b""
    numbers: Annotated[list[Int32] | None, Null(1)] = attrs.Factory(list)
    inner: Inner = attrs.Factory(Inner)
    perhaps: Annotated[Inner | None, In(1)] = None
    noted: Annotated[Inner, In(2), Tag(1)] = attrs.Factory(Inner)
    remark: Annotated[String | None, In(2), Tag(0)] = None
    hint: Annotated[Inner | None, In(2), Tag(5)] = None


EVERYTHING = Message(
    name="Everything",
    key=999,
    min_version=0,
    max_version=3,
    flexible_from=2,
    request_type=Everything,
    response_type=Inner,
)
FULL = Everything(
    flag=True,
    big=-2,
    uuids=[b"0123456789abcdef"],
    middle=3,
    blob=None,
    numbers=None,
    inner=Inner(number=5, words=["ä", ""]),
    perhaps=Inner(number=6),
    noted=Inner(number=7),
    remark="hi",
    hint=Inner(),
)
TABLE = [
    (
        0,
        attrs.evolve(FULL, middle=7, numbers=[1, -1], perhaps=None, noted=Inner(), remark=None, hint=None),
        "01 fffffffffffffffe 00000001 30313233343536373839616263646566 ffffffff 00000002 00000001 ffffffff"
        "05 00000002 0002 c3a4 0000",
    ),
    (
        1,
        attrs.evolve(FULL, noted=Inner(), remark=None, hint=None),
        "01 fffffffffffffffe 00000001 30313233343536373839616263646566 0003 ffffffff ffffffff"
        "05 00000002 0002 c3a4 0000 01 06 00000000",
    ),
    (
        2,
        FULL,
        "01 fffffffffffffffe 02 30313233343536373839616263646566 0003 00 00 05 03 03 c3a4 01 00"
        "01 06 01 00  03  00 03 03 6869  01 03 07 01 00  05 04 01 ff 01 00",
    ),
    (3, Everything(), "00 0000000000000000 01 01 01 ff 01 00 ff 00"),
]


@pytest.mark.parametrize(("version", "value", "expected"), TABLE, ids=[f"v{row[0]}" for row in TABLE])
def test_every_form_of_the_notation_has_its_bytes(version: int, value: Everything, expected: str) -> None:
    codec = EVERYTHING.request(version)

    assert bytes.fromhex(expected) == codec.encode(value)
    assert value == codec.decode(bytes.fromhex(expected))


def test_a_field_that_a_version_lacks_is_left_out_and_read_as_its_default() -> None:
    codec = EVERYTHING.request(3)

    assert codec.encode(Everything()) == codec.encode(Everything(middle=99))
    assert codec.decode(codec.encode(Everything(middle=99))).middle == 7


def test_null_where_the_version_has_none_is_refused_before_anything_is_sent() -> None:
    with pytest.raises(UnsupportedVersion, match="Metadata request v0 has no null for topics"):
        METADATA.request(0).encode(MetadataRequest(topics=None))


def test_two_decoded_values_share_no_defaults() -> None:
    codec: Codec[ProduceResponse] = ottla.protocol.PRODUCE.response(12)
    first, second = (
        codec.decode(bytes.fromhex("01 00000000 00")),
        codec.decode(bytes.fromhex("01 00000000 00")),
    )

    assert first == second
    assert first.responses is not second.responses
    assert first.node_endpoints is not second.node_endpoints


@pytest.mark.parametrize("length", [0, 1, 15, 16, 126, 127, 128, 16_383, 20_000])
def test_lengths_beyond_one_byte_are_compact_too(length: int) -> None:
    value = Everything(
        blob=bytes(length),
        numbers=list(range(length)),
        inner=Inner(words=["x"] * length),
        remark="ö" * length,
    )
    codec = EVERYTHING.request(2)

    assert value == codec.decode(codec.encode(value))


def test_a_struct_that_may_be_null_costs_one_byte_when_items_are_counted() -> None:
    codec = EVERYTHING.request(1)
    with pytest.raises(ProtocolError, match=r"perhaps\.words has the length 1, which does not fit in the 0 bytes"):
        codec.decode(codec.encode(Everything(perhaps=Inner()))[:-1] + b"\x01")


def declared() -> list[Message[Any, Any]]:
    return [found for found in vars(ottla.protocol).values() if isinstance(found, Message)]


def structs_below(root: type) -> Iterator[type]:
    yield root
    for field in fields_of(root):
        kind: WireType = field.type
        while isinstance(kind, ArrayOf):
            kind = kind.item
        if isinstance(kind, StructOf):
            yield from structs_below(kind.type)


def test_no_two_messages_share_a_key() -> None:
    keys = [message.key for message in declared()]

    assert sorted(set(keys)) == sorted(keys)


@pytest.mark.parametrize("message", declared(), ids=lambda message: message.name)
def test_declarations_fit_together(message: Message[Any, Any]) -> None:
    for struct in {*structs_below(message.request_type), *structs_below(message.response_type)}:
        tags = [field.tag for field in fields_of(struct) if field.tag is not None]
        assert sorted(set(tags)) == sorted(tags), f"{struct.__name__} has a tag twice"
        for field in fields_of(struct):
            assert field.versions.first <= message.max_version, f"{struct.__name__}.{field.name} never appears"
            if field.tag is not None:
                assert message.flexible(field.versions.first), f"{field.name} is tagged before tags exist"
            if field.null is not None:
                assert field.null.first >= field.versions.first, f"{field.name} is nullable before it exists"


@pytest.mark.parametrize("message", declared(), ids=lambda message: message.name)
def test_every_struct_is_light_and_its_exported_name_is_its_own(message: Message[Any, Any]) -> None:
    for struct in {*structs_below(message.request_type), *structs_below(message.response_type)}:
        assert not hasattr(struct(), "__dict__")
        assert getattr(ottla.protocol, struct.__name__) is struct
        assert struct.__name__ in ottla.protocol.__all__


def test_a_uuid_is_sixteen_bytes() -> None:
    assert len(ZERO_UUID) == 16
