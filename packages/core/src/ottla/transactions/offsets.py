"""A consumer's offsets, committed together with a transaction's records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, TypeAlias

import attrs

from ottla.config.value_types import SHORT_MAX
from ottla.errors import InvalidRecordError
from ottla.transactions.group_metadata import ConsumerGroupMetadata, group_of


@attrs.frozen
class OffsetAndMetadata:
    """The next offset to read of a partition, a metadata string, and the leader epoch (-1: unknown)."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


TopicPartition: TypeAlias = tuple[str, int]

_NO_OFFSET: Final = -1001
"""The offset of librdkafka for a partition of which the consumer has read nothing, so that there is none to commit."""


@attrs.frozen(kw_only=True)
class OffsetsToSend:
    """The validated offsets of one group."""

    group: ConsumerGroupMetadata
    offsets: Mapping[TopicPartition, OffsetAndMetadata]

    @classmethod
    def checked(cls, offsets: object, group: object) -> OffsetsToSend:
        """Validate what a caller passed; also accepts the objects of other Kafka clients. Raises InvalidRecordError."""
        checked_group = group_of(group)
        if not checked_group.group_id:
            raise InvalidRecordError("group_metadata needs a group id: the consumer's group.id")
        _check_length("a group id", checked_group.group_id)
        return cls(group=checked_group, offsets=dict(_positions(offsets)))


def _check_length(what: str, text: str) -> None:
    """Raise InvalidRecordError for a text that no request can hold: brokers close the connection, again and again."""
    try:
        size = len(text.encode())
    except UnicodeEncodeError as cause:
        raise InvalidRecordError(f"{what} cannot be encoded as UTF-8: {cause}") from None
    if size > SHORT_MAX:
        raise InvalidRecordError(f"{what} can have at most {SHORT_MAX:,} bytes, not {size:,}")


def _positions(offsets: object) -> Iterator[tuple[TopicPartition, OffsetAndMetadata]]:
    """Yield the positions in a mapping, or in a list of objects with topic, partition and offset."""
    if isinstance(offsets, Mapping):
        for partition, position in offsets.items():
            yield _partition(partition), _position(position)
        return
    if not isinstance(offsets, Iterable) or isinstance(offsets, str | bytes):
        raise InvalidRecordError(
            "offsets must be a mapping of (topic, partition) to the next offset, or a list of objects with topic, "
            f"partition and offset, not {type(offsets).__name__}"
        )
    for item in offsets:
        if getattr(item, "error", None) is not None:
            raise InvalidRecordError(f"the position {item!r} has an error")
        if getattr(item, "offset", None) != _NO_OFFSET:
            yield _partition(item), _position(item)


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
        case _ if isinstance(getattr(position, "offset", None), int):  # an object of another client
            epoch = getattr(position, "leader_epoch", None)
            found = OffsetAndMetadata(
                position.offset,  # type: ignore[attr-defined]
                getattr(position, "metadata", None) or "",
                -1 if epoch is None else epoch,
            )
        case _:
            raise InvalidRecordError(f"an offset must be an int or an OffsetAndMetadata, not {position!r}")
    if isinstance(found.offset, bool) or found.offset < 0:
        raise InvalidRecordError(f"an offset must be at least 0, not {found.offset!r}")
    if not isinstance(found.metadata, str):
        raise InvalidRecordError(f"the metadata of an offset must be a str, not {type(found.metadata).__name__}")
    _check_length("the metadata of an offset", found.metadata)
    return found
