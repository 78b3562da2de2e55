"""ListOffsets: the offset for a timestamp, or for one of the ends of a partition.

Version 0 returns first offsets of log segments, up to a number; all others return one offset and its timestamp. Later
versions add requests: MAX_TIMESTAMP from 7 (KIP-734), EARLIEST_LOCAL from 8 (KIP-405), LATEST_TIERED from 9 (KIP-1005),
EARLIEST_PENDING_UPLOAD from 11 (KIP-1023).
"""

from __future__ import annotations

from typing import Annotated, Final

import attrs

from ottla.protocol.message import Message
from ottla.protocol.notation import Ignorable, In, Int8, Int16, Int32, Int64, String, Struct

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6


@attrs.define(kw_only=True, eq=False, repr=False)
class ListOffsetsPartition(Struct):
    """`timestamp` is in milliseconds, or one of the negative constants of this module."""

    partition_index: Int32 = 0
    current_leader_epoch: Annotated[Int32, In(4), Ignorable()] = -1
    timestamp: Int64 = 0
    max_num_offsets: Annotated[Int32, In(0, 0)] = 1


@attrs.define(kw_only=True, eq=False, repr=False)
class ListOffsetsTopic(Struct):
    """Partitions of one topic."""

    name: String = ""
    partitions: list[ListOffsetsPartition] = attrs.Factory(list)


@attrs.define(kw_only=True, eq=False, repr=False)
class ListOffsetsRequest(Struct):
    """A client has the `replica_id` -1, which is not the default.

    With `isolation_level` 1, READ_COMMITTED, the latest offset is that of the first open transaction.
    """

    replica_id: Int32 = 0
    isolation_level: Annotated[Int8, In(2)] = 0
    topics: list[ListOffsetsTopic] = attrs.Factory(list)
    timeout_ms: Annotated[Int32, In(10), Ignorable()] = 0


@attrs.define(kw_only=True, eq=False, repr=False)
class ListOffsetsPartitionResponse(Struct):
    """`offset=-1` without an error: no record is that late. Version 0 has `old_style_offsets`, latest first."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    old_style_offsets: Annotated[list[Int64], In(0, 0)] = attrs.Factory(list)
    timestamp: Annotated[Int64, In(1)] = -1
    offset: Annotated[Int64, In(1)] = -1
    leader_epoch: Annotated[Int32, In(4)] = -1


@attrs.define(kw_only=True, eq=False, repr=False)
class ListOffsetsTopicResponse(Struct):
    """The offsets of one topic's partitions."""

    name: String = ""
    partitions: list[ListOffsetsPartitionResponse] = attrs.Factory(list)


@attrs.define(kw_only=True, eq=False, repr=False)
class ListOffsetsResponse(Struct):
    """The offsets by topic."""

    throttle_time_ms: Annotated[Int32, In(2), Ignorable()] = 0
    topics: list[ListOffsetsTopicResponse] = attrs.Factory(list)


LIST_OFFSETS = Message(
    name="ListOffsets",
    key=2,
    min_version=0,
    max_version=11,
    flexible_from=6,
    request_type=ListOffsetsRequest,
    response_type=ListOffsetsResponse,
)
