"""A consumer's membership of its group, also as other Kafka clients give it."""

from __future__ import annotations

import struct
from typing import Final

import attrs

from ottla.errors import InvalidRecordError

_LIBRDKAFKA: Final = b"CGMDv2:"
"""The first bytes of `Consumer.consumer_group_metadata()` of confluent-kafka."""

_GENERATION: Final = struct.Struct("=i")  # librdkafka copies its memory


@attrs.frozen
class ConsumerGroupMetadata:
    """A consumer's membership of its group; lets brokers fence a consumer that was replaced (KIP-447).

    The defaults only name the group, and fence no consumer. Brokers check the other fields from 2.5 on.
    """

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


def group_of(group: object) -> ConsumerGroupMetadata:
    """Return the membership in a group's id, or in an object of another client. Raises InvalidRecordError."""
    match group:
        case ConsumerGroupMetadata():
            return group
        case str():
            return ConsumerGroupMetadata(group)
        case bytes() if group.startswith(_LIBRDKAFKA):
            return _of_librdkafka(group)
    try:
        return ConsumerGroupMetadata(
            group.group_id,  # type: ignore[attr-defined]  # an object of another client with these fields
            group.generation_id,  # type: ignore[attr-defined]
            group.member_id,  # type: ignore[attr-defined]
            getattr(group, "group_instance_id", None),
        )
    except AttributeError:
        raise InvalidRecordError(
            f"group_metadata must be a group id or a ConsumerGroupMetadata, not {type(group).__name__}"
        ) from None


def _of_librdkafka(data: bytes) -> ConsumerGroupMetadata:
    """Read librdkafka's form: the generation, the ids of group and member, whether there is no instance id, this id.

    Ids end with a zero byte. Written by `rd_kafka_consumer_group_metadata_write`.
    """
    try:
        start = len(_LIBRDKAFKA) + _GENERATION.size
        [generation] = _GENERATION.unpack(data[len(_LIBRDKAFKA) : start])
        group, member, rest = data[start:].split(b"\0", 2)
        match rest[:1], rest[1:]:
            case b"\1", b"":
                instance = None
            case b"\0", named if named.endswith(b"\0"):
                instance = named[:-1].decode()
            case _:
                raise ValueError("its end is wrong")
        return ConsumerGroupMetadata(group.decode(), generation, member.decode(), instance)
    except (ValueError, struct.error) as cause:  # UnicodeDecodeError among them
        raise InvalidRecordError(f"group_metadata is not as confluent-kafka writes it: {cause}") from None
