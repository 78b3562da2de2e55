"""Fetch: records of partitions, as the log has them.

Versions 0 to 3 return records in the formats v0 and v1, later versions also in v2. Records compressed with zstd need
version 10. Version 7 added sessions (KIP-227), 12 detects a truncated log by epochs (KIP-595), 13 has topic ids instead
of names (KIP-516), and 16 adds the addresses of new leaders (KIP-951). Kafka 4 does not support versions 0 to 3.
"""

from __future__ import annotations

from typing import Annotated, Final

import attrs

from ottla.protocol.message import Message
from ottla.protocol.notation import (
    ZERO_UUID,
    Ignorable,
    In,
    Int8,
    Int16,
    Int32,
    Int64,
    Records,
    String,
    Struct,
    Tag,
    Uuid,
)

READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1

HIGH_WATERMARK_UNSUPPORTED: Final = 2**63 - 1
"""Sent by a follower that does not report its high watermark (KIP-1166)."""


@attrs.define(kw_only=True, eq=False, repr=False)
class ReplicaState(Struct):
    """The follower that sends the request, -1 for a consumer (KIP-903)."""

    replica_id: Int32 = -1
    replica_epoch: Int64 = -1


@attrs.define(kw_only=True, eq=False, repr=False)
class FetchPartition(Struct):
    """The offset to start at. Only followers set `log_start_offset`; epochs of -1 are not checked."""

    partition: Int32 = 0
    current_leader_epoch: Annotated[Int32, In(9), Ignorable()] = -1
    fetch_offset: Int64 = 0
    last_fetched_epoch: Annotated[Int32, In(12)] = -1
    log_start_offset: Annotated[Int64, In(5), Ignorable()] = -1
    partition_max_bytes: Int32 = 0
    replica_directory_id: Annotated[Uuid, In(17), Tag(0), Ignorable()] = ZERO_UUID
    high_watermark: Annotated[Int64, In(18), Tag(1), Ignorable()] = HIGH_WATERMARK_UNSUPPORTED


@attrs.define(kw_only=True, eq=False, repr=False)
class FetchTopic(Struct):
    """The partitions of one topic, by name up to version 12 and by id from 13 on."""

    topic: Annotated[String, In(0, 12), Ignorable()] = ""
    topic_id: Annotated[Uuid, In(13), Ignorable()] = ZERO_UUID
    partitions: list[FetchPartition] = attrs.Factory(list)


@attrs.define(kw_only=True, eq=False, repr=False)
class ForgottenTopic(Struct):
    """Partitions to remove from the session."""

    topic: Annotated[String, In(7, 12), Ignorable()] = ""
    topic_id: Annotated[Uuid, In(13), Ignorable()] = ZERO_UUID
    partitions: list[Int32] = attrs.Factory(list)


@attrs.define(kw_only=True, eq=False, repr=False)
class FetchRequest(Struct):
    """A session id of 0 with the epoch -1 means no session: each request names all partitions.

    From version 3 on, a first batch above the limits is returned whole (KIP-74).
    """

    cluster_id: Annotated[String | None, In(12), Tag(0), Ignorable()] = None
    replica_id: Annotated[Int32, In(0, 14)] = -1
    replica_state: Annotated[ReplicaState, In(15), Tag(1)] = attrs.Factory(ReplicaState)
    max_wait_ms: Int32 = 0
    min_bytes: Int32 = 0
    max_bytes: Annotated[Int32, In(3), Ignorable()] = 2**31 - 1
    isolation_level: Annotated[Int8, In(4), Ignorable()] = READ_UNCOMMITTED
    session_id: Annotated[Int32, In(7), Ignorable()] = 0
    session_epoch: Annotated[Int32, In(7), Ignorable()] = -1
    topics: list[FetchTopic] = attrs.Factory(list)
    forgotten_topics_data: Annotated[list[ForgottenTopic], In(7)] = attrs.Factory(list)
    rack_id: Annotated[String, In(11), Ignorable()] = ""


@attrs.define(kw_only=True, eq=False, repr=False)
class EpochEndOffset(Struct):
    """The offset after the last record of an epoch."""

    epoch: Int32 = -1
    end_offset: Int64 = -1


@attrs.define(kw_only=True, eq=False, repr=False)
class LeaderIdAndEpoch(Struct):
    """The current leader of the partition; -1 if the broker does not know it."""

    leader_id: Int32 = -1
    leader_epoch: Int32 = -1


@attrs.define(kw_only=True, eq=False, repr=False)
class SnapshotId(Struct):
    """The snapshot to fetch instead of a log that begins later."""

    end_offset: Int64 = -1
    epoch: Int32 = -1


@attrs.define(kw_only=True, eq=False, repr=False)
class AbortedTransaction(Struct):
    """A producer's records from this offset up to its next abort marker belong to an aborted transaction."""

    producer_id: Int64 = 0
    first_offset: Int64 = 0


@attrs.define(kw_only=True, eq=False, repr=False)
class PartitionData(Struct):
    """The records of one partition: whole batches, of which the last may be cut off.

    `aborted_transactions` is None under READ_UNCOMMITTED. Records before `last_stable_offset` have their outcome.
    """

    partition_index: Int32 = 0
    error_code: Int16 = 0
    high_watermark: Int64 = 0
    last_stable_offset: Annotated[Int64, In(4), Ignorable()] = -1
    log_start_offset: Annotated[Int64, In(5), Ignorable()] = -1
    diverging_epoch: Annotated[EpochEndOffset, In(12), Tag(0)] = attrs.Factory(EpochEndOffset)
    current_leader: Annotated[LeaderIdAndEpoch, In(12), Tag(1)] = attrs.Factory(LeaderIdAndEpoch)
    snapshot_id: Annotated[SnapshotId, In(12), Tag(2)] = attrs.Factory(SnapshotId)
    aborted_transactions: Annotated[list[AbortedTransaction] | None, In(4), Ignorable()] = attrs.Factory(list)
    preferred_read_replica: Annotated[Int32, In(11)] = -1
    records: Records | None = None


@attrs.define(kw_only=True, eq=False, repr=False)
class FetchableTopicResponse(Struct):
    """The partitions of one topic."""

    topic: Annotated[String, In(0, 12), Ignorable()] = ""
    topic_id: Annotated[Uuid, In(13), Ignorable()] = ZERO_UUID
    partitions: list[PartitionData] = attrs.Factory(list)


@attrs.define(kw_only=True, eq=False, repr=False)
class NodeEndpoint(Struct):
    """The address of a leader in the response (KIP-951)."""

    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: String | None = None


@attrs.define(kw_only=True, eq=False, repr=False)
class FetchResponse(Struct):
    """In a session it only has partitions with changes."""

    throttle_time_ms: Annotated[Int32, In(1), Ignorable()] = 0
    error_code: Annotated[Int16, In(7), Ignorable()] = 0
    session_id: Annotated[Int32, In(7)] = 0
    responses: list[FetchableTopicResponse] = attrs.Factory(list)
    node_endpoints: Annotated[list[NodeEndpoint], In(16), Tag(0)] = attrs.Factory(list)


FETCH = Message(
    name="Fetch",
    key=1,
    min_version=0,
    max_version=18,
    flexible_from=12,
    request_type=FetchRequest,
    response_type=FetchResponse,
)
