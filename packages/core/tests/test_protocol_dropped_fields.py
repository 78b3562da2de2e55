"""A field that a version lacks is refused, unless the message means the same without it (Kafka's *ignorable*)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs
import pytest
from golden import KINDS, codec_of, root_of

from ottla.errors import UnsupportedVersionError
from ottla.protocol import METADATA, PRODUCE, Codec, Message, MetadataRequest, ProduceRequest, produce_request
from ottla.protocol.catalogue import MESSAGES
from ottla.protocol.messages.find_coordinator import FIND_COORDINATOR, FindCoordinatorRequest
from ottla.protocol.messages.init_producer_id import INIT_PRODUCER_ID, InitProducerIdRequest
from ottla.protocol.messages.txn_offset_commit import TXN_OFFSET_COMMIT, TxnOffsetCommitRequest
from ottla.protocol.notation import ArrayOf, Blob, Fixed, StructOf, Text, WireType, fields_of


@pytest.mark.parametrize(
    ("codec", "value", "field"),
    [
        (FIND_COORDINATOR.request(4), FindCoordinatorRequest(key="orders"), "key"),
        (FIND_COORDINATOR.request(3), FindCoordinatorRequest(coordinator_keys=["orders"]), "coordinator_keys"),
        (INIT_PRODUCER_ID.request(2), InitProducerIdRequest(producer_id=0), "producer_id"),
        (INIT_PRODUCER_ID.request(5), InitProducerIdRequest(keep_prepared_txn=True), "keep_prepared_txn"),
        (METADATA.request(3), MetadataRequest(allow_auto_topic_creation=False), "allow_auto_topic_creation"),
        (TXN_OFFSET_COMMIT.request(2), TxnOffsetCommitRequest(member_id="m"), "member_id"),
        (PRODUCE.request(2), ProduceRequest(transactional_id="t"), "transactional_id"),
    ],
)
def test_a_request_never_changes_its_meaning_with_its_version(codec: Codec[Any], value: Any, field: str) -> None:
    with pytest.raises(UnsupportedVersionError, match=f"{codec.label} cannot carry {field}"):
        codec.encode(value)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.name)
def test_a_field_missing_in_a_version_is_refused_by_name_or_ignorable(message: Message[Any, Any], kind: str) -> None:
    for version in range(message.min_version, message.max_version + 1):
        codec = codec_of(message, kind, version)
        value = one_of_each(root_of(message, kind), version)
        body = codec.encode(value)
        for holder in structs_in(value):
            struct: type = type(holder)
            for field in fields_of(struct):
                if version not in field.versions:
                    setattr(holder, field.name, other_than(field.default, field.type))
                    if field.ignorable:
                        assert codec.encode(value) == body
                    else:
                        with pytest.raises(UnsupportedVersionError, match=f"{codec.label} cannot carry {field.name},"):
                            codec.encode(value)
                    setattr(holder, field.name, field.default)


def one_of_each(struct: type, version: int) -> Any:
    """A struct with one item in every array."""
    value = struct()
    for field in fields_of(struct):
        if version in field.versions and isinstance(field.type, ArrayOf):
            item = field.type.item
            one = one_of_each(item.type, version) if isinstance(item, StructOf) else other_than(0, item)
            setattr(value, field.name, [one])
    return value


def structs_in(value: Any) -> Iterator[Any]:
    yield value
    struct: type = type(value)
    for field in fields_of(struct):
        found = getattr(value, field.name)
        for each in found if isinstance(found, list) else [found]:
            if attrs.has(type(each)):
                yield from structs_in(each)


def other_than(default: Any, kind: WireType) -> Any:
    match kind:
        case Fixed("?"):
            return not default
        case Fixed("16s"):
            return b"0123456789abcdef"
        case Fixed():
            return default + 1 if default < 100 else default - 1
        case Text():
            return "something"
        case Blob():
            return b"something"
        case ArrayOf():
            return ["something"]
        case StructOf(inner):
            first = fields_of(inner)[0]
            return inner(**{first.name: other_than(first.default, first.type)})


def test_a_gathered_produce_request_never_loses_its_transaction() -> None:
    with pytest.raises(UnsupportedVersionError, match="v2 cannot carry a transactional id; version 3 is the first"):
        produce_request(2, transactional_id="t", acks=-1, timeout_ms=1, topics=[])
