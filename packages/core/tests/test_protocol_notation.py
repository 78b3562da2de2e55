"""Declarations are compiled correctly: every form of the notation has its bytes."""

from __future__ import annotations

from typing import Annotated

import attrs
import pytest

from ottla.errors import ProtocolError, UnsupportedVersionError
from ottla.protocol import METADATA, Message, MetadataRequest
from ottla.protocol.notation import (
    Bool,
    Bytes,
    Ignorable,
    In,
    Int8,
    Int16,
    Int32,
    Int64,
    Null,
    String,
    Struct,
    Tag,
    Uuid,
)


@attrs.define(kw_only=True, eq=False, repr=False)
class Inner(Struct):
    number: Int8 = -1
    words: list[String] = attrs.Factory(list)
    word: Annotated[String, In(0, 1)] = ""


@attrs.define(kw_only=True, eq=False, repr=False)
class Everything(Struct):
    """A struct with every form that the notation has."""

    flag: Bool = False
    big: Int64 = 0
    uuids: list[Uuid] = attrs.Factory(list)
    middle: Annotated[Int16, In(1, 2), Ignorable()] = 7
    blob: Bytes | None = b""
    numbers: Annotated[list[Int32] | None, Null(1)] = attrs.Factory(list)
    inner: Inner = attrs.Factory(Inner)
    inners: list[Inner] = attrs.Factory(list)
    perhaps: Annotated[Inner | None, In(1)] = None
    only_in_2: Annotated[Bool, In(2, 2)] = False
    noted: Annotated[Inner, In(2), Tag(1)] = attrs.Factory(Inner)
    remark: Annotated[String | None, In(2), Tag(0)] = None
    hint: Annotated[Inner | None, In(2), Tag(5)] = None


@attrs.define(kw_only=True, eq=False, repr=False)
class Holder(Struct):
    inner: Inner | None = None


@attrs.define(kw_only=True, eq=False, repr=False)
class Holders(Struct):
    holders: list[Holder] = attrs.Factory(list)


HOLDERS = Message(
    name="Holders",
    key=998,
    min_version=0,
    max_version=0,
    flexible_from=None,
    request_type=Holders,
    response_type=Holder,
)
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
        "05 00000002 0002 c3a4 0000 0000 00000000",
    ),
    (
        1,
        attrs.evolve(FULL, noted=Inner(), remark=None, hint=None),
        "01 fffffffffffffffe 00000001 30313233343536373839616263646566 0003 ffffffff ffffffff"
        "05 00000002 0002 c3a4 0000 0000 00000000 01 06 00000000 0000",
    ),
    (
        2,
        FULL,
        "01 fffffffffffffffe 02 30313233343536373839616263646566 0003 00 00 05 03 03 c3a4 01 00"
        "01 01 06 01 00 00  03  00 03 03 6869  01 03 07 01 00  05 04 01 ff 01 00",
    ),
    (3, Everything(), "00 0000000000000000 01 01 01 ff 01 00 01 ff 00"),
]


@pytest.mark.parametrize(("version", "value", "expected"), TABLE, ids=[f"v{row[0]}" for row in TABLE])
def test_every_form_of_the_notation_has_its_bytes(version: int, value: Everything, expected: str) -> None:
    codec = EVERYTHING.request(version)

    assert codec.encode(value).hex(" ") == bytes.fromhex(expected).hex(" ")
    assert codec.decode(bytes.fromhex(expected)) == value


def test_an_ignorable_field_has_its_default_in_versions_without_it() -> None:
    codec = EVERYTHING.request(3)

    assert codec.encode(Everything(middle=99)) == codec.encode(Everything())
    assert codec.decode(codec.encode(Everything(middle=99))).middle == 7


@pytest.mark.parametrize(
    ("version", "value", "sentence"),
    [
        (
            0,
            Everything(perhaps=Inner()),
            "Everything request v0 cannot carry perhaps, which is for versions 1 and later",
        ),
        (1, Everything(remark="hi"), r"cannot carry remark, .* leave it at its default \(None\)"),
        (1, Everything(noted=Inner(number=2)), "v1 cannot carry noted"),
        (3, Everything(inner=Inner(word="old")), "v3 cannot carry word, which is for versions 0 to 1"),
        (2, Everything(perhaps=Inner(word="old")), "v2 cannot carry word"),
        (3, Everything(inners=[Inner(), Inner(word="old")]), "v3 cannot carry word"),
        (0, Everything(only_in_2=True), "which is for version 2: leave it"),
    ],
)
def test_a_field_is_never_dropped_silently(version: int, value: Everything, sentence: str) -> None:
    with pytest.raises(UnsupportedVersionError, match=sentence):
        EVERYTHING.request(version).encode(value)


def test_null_in_a_version_without_it_is_refused_before_sending() -> None:
    with pytest.raises(UnsupportedVersionError, match="Metadata request v0 has no null for topics"):
        METADATA.request(0).encode(MetadataRequest(topics=None))


@pytest.mark.parametrize("version", range(4))
def test_two_decoded_values_share_no_defaults(version: int) -> None:
    codec = EVERYTHING.request(version)
    body = codec.encode(Everything())
    first, second = codec.decode(body), codec.decode(body)

    assert first == second == Everything()
    assert first.uuids is not second.uuids
    assert first.noted is not second.noted
    assert first.noted.words is not second.noted.words


@pytest.mark.parametrize("length", [0, 1, 15, 16, 126, 127, 128, 16_383, 20_000])
def test_compact_lengths_may_need_several_bytes(length: int) -> None:
    value = Everything(
        blob=bytes(length),
        numbers=list(range(length)),
        inner=Inner(words=["x"] * length),
        remark="ö" * length,
    )
    codec = EVERYTHING.request(2)

    assert codec.decode(codec.encode(value)) == value


def test_a_nullable_struct_counts_as_one_byte_in_the_length_check() -> None:
    codec = HOLDERS.request(0)
    value = Holders(holders=[Holder(), Holder(), Holder()])

    assert codec.encode(value).hex() == "00000003 ffffff".replace(" ", "")
    assert codec.decode(codec.encode(value)) == value
    with pytest.raises(ProtocolError, match="holders has the length 4, which does not fit in the 3 bytes"):
        codec.decode(bytes.fromhex("00000004 ffffff"))
