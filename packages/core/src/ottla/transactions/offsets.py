"""A consumer's offsets, committed together with a transaction's records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import attrs

from ottla.errors import InvalidRecordError


@attrs.frozen
class OffsetAndMetadata:
    """The next offset to read of a partition, a metadata string, and the leader epoch (-1: unknown)."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


@attrs.frozen
class ConsumerGroupMetadata:
    """A consumer's membership of its group; lets brokers fence a consumer that was replaced (KIP-447).

    The defaults only name the group, and fence no consumer. Brokers check the other fields from 2.5 on.
    """

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


TopicPartition: TypeAlias = tuple[str, int]


@attrs.frozen(kw_only=True)
class OffsetsToSend:
    """The validated offsets of one group."""

    group: ConsumerGroupMetadata
    offsets: Mapping[TopicPartition, OffsetAndMetadata]

    @classmethod
    def checked(cls, offsets: Mapping[object, object], group: object) -> OffsetsToSend:
        """Validate what a caller passed; also accepts the objects of other Kafka clients. Raises InvalidRecordError."""
        if isinstance(group, str):
            group = ConsumerGroupMetadata(group)
        elif not isinstance(group, ConsumerGroupMetadata):
            group = _group(group)
        if not group.group_id:
            raise InvalidRecordError("group_metadata needs a group id: the consumer's group.id")
        checked = {_partition(partition): _position(position) for partition, position in offsets.items()}
        return cls(group=group, offsets=checked)


def _group(group: object) -> ConsumerGroupMetadata:
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


def _partition(partition: object) -> TopicPartition:
    if not isinstance(partition, tuple) and hasattr(partition, "topic") and hasattr(partition, "partition"):
        partition = (partition.topic, partition.partition)
    match partition:
        case (str(topic), int(number)) if topic and number >= 0:
            return topic, number
    raise InvalidRecordError(
        f"the keys of offsets must be (topic, partition), with a partition of at least 0, not {partition!r}"
    )


def _position(position: object) -> OffsetAndMetadata:
    match position:
        case OffsetAndMetadata():
            found = position
        case int():
            found = OffsetAndMetadata(position)
        case _ if isinstance(getattr(position, "offset", None), int):
            found = OffsetAndMetadata(
                position.offset,  # type: ignore[attr-defined]  # an object of another client with these fields
                getattr(position, "metadata", None) or "",
            )
        case _:
            raise InvalidRecordError(f"an offset must be an int or an OffsetAndMetadata, not {position!r}")
    if isinstance(found.offset, bool) or found.offset < 0:
        raise InvalidRecordError(f"an offset must be at least 0, not {found.offset!r}")
    return found
