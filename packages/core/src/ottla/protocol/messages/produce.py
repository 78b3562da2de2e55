"""Produce: record batches for partitions, and the offsets at which they were written.

Brokers from 4.0 on list versions 0 to 2 and refuse them (KAFKA-18659); they are here for brokers before 0.11. Record
batches v2 need version 3, zstd needs 7; 13 has topic ids instead of names. `ottla.protocol.produce_request` encodes the
request without copying the records.
"""

from __future__ import annotations

from typing import Annotated

import attrs

from ottla.protocol.message import Message
from ottla.protocol.notation import ZERO_UUID, Ignorable, In, Int16, Int32, Int64, Records, String, Struct, Tag, Uuid


@attrs.define(kw_only=True, eq=False, repr=False)
class PartitionProduceData(Struct):
    """The records for one partition: one batch, or before version 3 any number of messages."""

    index: Int32 = 0
    records: Records | None = None


@attrs.define(kw_only=True, eq=False, repr=False)
class TopicProduceData(Struct):
    """The partitions of one topic, by name up to version 12 and by id from 13 on."""

    name: Annotated[String, In(0, 12), Ignorable()] = ""
    topic_id: Annotated[Uuid, In(13), Ignorable()] = ZERO_UUID
    partition_data: list[PartitionProduceData] = attrs.Factory(list)


@attrs.define(kw_only=True, eq=False, repr=False)
class ProduceRequest(Struct):
    """With `acks=0` the broker sends no response at all."""

    transactional_id: Annotated[String | None, In(3)] = None
    acks: Int16 = 0
    timeout_ms: Int32 = 0
    topic_data: list[TopicProduceData] = attrs.Factory(list)


@attrs.define(kw_only=True, eq=False, repr=False)
class BatchIndexAndErrorMessage(Struct):
    """A record, by its index in the batch, for which the broker refused the whole batch (KIP-467)."""

    batch_index: Int32 = 0
    batch_index_error_message: String | None = None


@attrs.define(kw_only=True, eq=False, repr=False)
class LeaderIdAndEpoch(Struct):
    """The current leader of the partition, sent with error 6 (KIP-951); -1 if the broker does not know it."""

    leader_id: Int32 = -1
    leader_epoch: Int32 = -1


@attrs.define(kw_only=True, eq=False, repr=False)
class PartitionProduceResponse(Struct):
    """The offset of one partition's batch, or the error. `log_append_time_ms` is -1 under CreateTime."""

    index: Int32 = 0
    error_code: Int16 = 0
    base_offset: Int64 = 0
    log_append_time_ms: Annotated[Int64, In(2), Ignorable()] = -1
    log_start_offset: Annotated[Int64, In(5), Ignorable()] = -1
    record_errors: Annotated[list[BatchIndexAndErrorMessage], In(8), Ignorable()] = attrs.Factory(list)
    error_message: Annotated[String | None, In(8), Ignorable()] = None
    current_leader: Annotated[LeaderIdAndEpoch, In(10), Tag(0)] = attrs.Factory(LeaderIdAndEpoch)


@attrs.define(kw_only=True, eq=False, repr=False)
class TopicProduceResponse(Struct):
    """The results for the partitions of one topic."""

    name: Annotated[String, In(0, 12), Ignorable()] = ""
    topic_id: Annotated[Uuid, In(13), Ignorable()] = ZERO_UUID
    partition_responses: list[PartitionProduceResponse] = attrs.Factory(list)


@attrs.define(kw_only=True, eq=False, repr=False)
class NodeEndpoint(Struct):
    """The address of a leader in the response (KIP-951)."""

    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: String | None = None


@attrs.define(kw_only=True, eq=False, repr=False)
class ProduceResponse(Struct):
    """The results by topic; `node_endpoints` contains an address for each `current_leader`."""

    responses: list[TopicProduceResponse] = attrs.Factory(list)
    throttle_time_ms: Annotated[Int32, In(1), Ignorable()] = 0
    node_endpoints: Annotated[list[NodeEndpoint], In(10), Tag(0)] = attrs.Factory(list)


PRODUCE = Message(
    name="Produce",
    key=0,
    min_version=0,
    max_version=13,
    flexible_from=9,
    request_type=ProduceRequest,
    response_type=ProduceResponse,
)
