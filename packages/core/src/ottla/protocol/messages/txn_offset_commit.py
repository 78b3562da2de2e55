"""TxnOffsetCommit: a consumer's offsets, committed with the transaction.

From version 3 on it has the consumer's membership, so that a group with a newer generation refuses (KIP-447). Version 5
has the bytes of version 4, but also does the work of AddOffsetsToTxn: it is only for transactions with
`transaction.version` 2 (KIP-890).
"""

from __future__ import annotations

from typing import Annotated

import attrs

from ottla.protocol.message import Message
from ottla.protocol.notation import Ignorable, In, Int16, Int32, Int64, String, Struct


@attrs.define(kw_only=True, eq=False, repr=False)
class TxnOffsetCommitRequestPartition(Struct):
    """The next offset to read of one partition; a leader epoch of -1 is unknown."""

    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Annotated[Int32, In(2), Ignorable()] = -1
    committed_metadata: String | None = ""


@attrs.define(kw_only=True, eq=False, repr=False)
class TxnOffsetCommitRequestTopic(Struct):
    """The offsets of one topic."""

    name: String = ""
    partitions: list[TxnOffsetCommitRequestPartition] = attrs.Factory(list)


@attrs.define(kw_only=True, eq=False, repr=False)
class TxnOffsetCommitRequest(Struct):
    """Goes to the coordinator of the group. `generation_id=-1` and no member: the group checks no membership."""

    transactional_id: String = ""
    group_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    generation_id: Annotated[Int32, In(3)] = -1
    member_id: Annotated[String, In(3)] = ""
    group_instance_id: Annotated[String | None, In(3)] = None
    topics: list[TxnOffsetCommitRequestTopic] = attrs.Factory(list)


@attrs.define(kw_only=True, eq=False, repr=False)
class TxnOffsetCommitResponsePartition(Struct):
    """One partition's outcome."""

    partition_index: Int32 = 0
    error_code: Int16 = 0


@attrs.define(kw_only=True, eq=False, repr=False)
class TxnOffsetCommitResponseTopic(Struct):
    """The outcomes of one topic's partitions."""

    name: String = ""
    partitions: list[TxnOffsetCommitResponsePartition] = attrs.Factory(list)


@attrs.define(kw_only=True, eq=False, repr=False)
class TxnOffsetCommitResponse(Struct):
    """There is no error for the whole request: instead every partition has the same one."""

    throttle_time_ms: Int32 = 0
    topics: list[TxnOffsetCommitResponseTopic] = attrs.Factory(list)


TXN_OFFSET_COMMIT = Message(
    name="TxnOffsetCommit",
    key=28,
    min_version=0,
    max_version=5,
    flexible_from=3,
    request_type=TxnOffsetCommitRequest,
    response_type=TxnOffsetCommitResponse,
)
