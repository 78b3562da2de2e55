"""The body of a Produce request as a list of chunks: the records are referenced, never copied or joined.

The bytes are those of `PRODUCE.request(version).encode`; this implementation exists because records are large.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Sequence
from typing import Final, TypeAlias

from ottla.errors import UnsupportedVersionError
from ottla.interfaces import Buffer
from ottla.protocol.messages.produce import PRODUCE
from ottla.protocol.primitives import uvarint

PartitionRecords: TypeAlias = tuple[int, Sequence[Buffer]]
"""A partition and its records, in chunks of bytes."""

TopicRecords: TypeAlias = tuple[str, bytes, Sequence[PartitionRecords]]
"""A topic's name, its id, and the records for its partitions."""

_FIRST_WITH_TRANSACTIONS: Final = 3
FIRST_WITH_TOPIC_IDS: Final = 13

_ACKS_AND_TIMEOUT: Final = struct.Struct(">hi")
_pack_int16: Final = struct.Struct(">h").pack
_pack_int32: Final = struct.Struct(">i").pack


def produce_request(
    version: int,
    *,
    transactional_id: str | None,
    acks: int,
    timeout_ms: int,
    topics: Sequence[TopicRecords],
) -> list[Buffer]:
    """The body; topics have their ids from version 13 on, before that their names. Raises UnsupportedVersionError."""
    between = _before_topics(version, transactional_id, acks, timeout_ms)
    flexible = PRODUCE.flexible(version)
    length = uvarint if flexible else _pack_int32
    more = 1 if flexible else 0  # a compact length is the length plus one
    end_of_struct = b"\0" if flexible else b""

    between += length(len(topics) + more)
    chunks: list[Buffer] = []
    for name, topic_id, partitions in topics:
        between += encoded_topic(version, name, topic_id)
        between += length(len(partitions) + more)
        for partition, records in partitions:
            chunks.append(between + _pack_int32(partition) + length(sum(map(len, records)) + more))
            chunks += records
            between = end_of_struct
        between += end_of_struct
    chunks.append(between + end_of_struct)
    return chunks


def encoded_topic(version: int, name: str, topic_id: bytes) -> bytes:
    """A topic as requests and responses of this version have it: its id, or before version 13 its name."""
    return topic_id if version >= FIRST_WITH_TOPIC_IDS else _text(name, PRODUCE.flexible(version))


@functools.lru_cache(maxsize=64)
def _before_topics(version: int, transactional_id: str | None, acks: int, timeout_ms: int) -> bytes:
    """The fields before the topics, which are the same in nearly all requests of a producer."""
    if not PRODUCE.min_version <= version <= PRODUCE.max_version:
        raise UnsupportedVersionError(f"Produce request v{version} is not declared")
    if transactional_id is not None and version < _FIRST_WITH_TRANSACTIONS:
        raise UnsupportedVersionError(
            f"Produce request v{version} cannot carry a transactional id; version 3 is the first"
        )
    text = _text(transactional_id, PRODUCE.flexible(version)) if version >= _FIRST_WITH_TRANSACTIONS else b""
    return text + _ACKS_AND_TIMEOUT.pack(acks, timeout_ms)


@functools.lru_cache(maxsize=4_096)
def _text(value: str | None, flexible: bool) -> bytes:
    if value is None:
        return b"\0" if flexible else _pack_int16(-1)
    encoded = value.encode()
    return (uvarint(len(encoded) + 1) if flexible else _pack_int16(len(encoded))) + encoded
