"""Whatever can be written at a version is read back as it was."""

from __future__ import annotations

import functools
from typing import Any, Final

import attrs
import pytest
from golden import KINDS, codec_of, root_of
from hypothesis import given, settings
from hypothesis import strategies as st
from long_forms import LONG

from ottla.protocol import PRODUCE, Codec, ProduceRequest, produce_request
from ottla.protocol.catalogue import MESSAGES
from ottla.protocol.notation import ArrayOf, Blob, Fixed, StructOf, Text, WireType, fields_of

pytestmark = pytest.mark.unmeasured

OTHER_VERSIONS: Final = pytest.mark.thorough("the gate has the oldest and the newest version of each message")
CODECS = [
    pytest.param(
        codec,
        root_of(message, kind),
        version,
        id=codec.label,
        marks=[] if version in (message.min_version, message.max_version) else [OTHER_VERSIONS],
    )
    for message in MESSAGES
    for kind in KINDS
    for version in range(message.min_version, message.max_version + 1)
    for codec in (codec_of(message, kind, version),)
]
FIXED: dict[str, st.SearchStrategy[Any]] = {
    "?": st.booleans(),
    "16s": st.binary(min_size=16, max_size=16),
    **{
        letter: st.integers(-(1 << bits - 1), (1 << bits - 1) - 1)
        for letter, bits in {"b": 8, "h": 16, "i": 32, "q": 64}.items()
    },
}


@functools.cache
def structs(kind: type, version: int) -> st.SearchStrategy[Any]:
    """Structs with anything in the fields of this version and in those that may be lost there."""
    fields = {}
    for field in fields_of(kind):
        if version in field.versions:
            values = values_of(field.type, version)
            fields[field.name] = st.none() | values if field.nullable(version) else values
        elif field.ignorable:
            fields[field.name] = st.just(field.default) | values_of(field.type, field.versions.first)
    return st.builds(kind, **fields)


def values_of(kind: WireType, version: int) -> st.SearchStrategy[Any]:
    match kind:
        case Fixed(letter):
            return FIXED[letter]
        case Text():
            return st.text(max_size=150)
        case Blob():
            return st.binary(max_size=150)
        case ArrayOf(item):
            return st.lists(values_of(item, version), max_size=3)
        case StructOf(inner):
            return structs(inner, version)


def carried(value: Any, version: int) -> Any:
    """A value with the defaults in all the fields that the version lacks."""
    if isinstance(value, list):
        return [carried(item, version) for item in value]
    if not attrs.has(type(value)):
        return value
    kind: type = type(value)
    there = (field.name for field in fields_of(kind) if version in field.versions)
    return kind(**{name: carried(getattr(value, name), version) for name in there})


@pytest.mark.parametrize(("codec", "root", "version"), CODECS)
@settings(max_examples=200 if LONG else 5, deadline=None)
@given(data=st.data())
def test_a_value_and_its_bytes_survive_a_round_trip(
    codec: Codec[Any], root: type, version: int, data: st.DataObject
) -> None:
    value = data.draw(structs(root, version))
    body = codec.encode(value)
    decoded = codec.decode(body)

    assert decoded == carried(value, version)
    assert codec.encode(decoded) == body


@pytest.mark.parametrize("version", range(PRODUCE.min_version, PRODUCE.max_version + 1))
@settings(max_examples=500 if LONG else 12, deadline=None)
@given(data=st.data(), cut=st.integers(0, 150))
def test_a_gathered_produce_request_equals_the_encoded_one(version: int, data: st.DataObject, cut: int) -> None:
    request: ProduceRequest = data.draw(structs(ProduceRequest, version))
    for topic in request.topic_data:
        topic.partition_data = [attrs.evolve(p, records=p.records or b"") for p in topic.partition_data]

    chunks = produce_request(
        version,
        transactional_id=request.transactional_id,
        acks=request.acks,
        timeout_ms=request.timeout_ms,
        topics=[
            (
                topic.name,
                topic.topic_id,
                [
                    (p.index, [memoryview(p.records or b"")[:cut], bytearray(p.records or b"")[cut:]])
                    for p in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ],
    )

    assert b"".join(chunks) == PRODUCE.request(version).encode(request)
