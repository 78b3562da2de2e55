"""Metadata: the brokers, topics, partitions and leaders of a cluster."""

from __future__ import annotations

from typing import Annotated, Final

import attrs

from ottla.protocol.message import Message
from ottla.protocol.notation import ZERO_UUID, AtMost, Bool, Ignorable, In, Int16, Int32, Null, String, Struct, Uuid

NOT_ASKED: Final = -(2**31)
"""The authorized operations in a response if the request did not ask for them."""

MAX_BROKERS: Final = 20_000
MAX_TOPICS: Final = 250_000
MAX_PARTITIONS: Final = 250_000
"""Maximum partitions of one topic.

Each limit is several times that of any cluster; without them a response of 100 MB takes a gigabyte.
"""


@attrs.define(kw_only=True, eq=False, repr=False)
class MetadataRequestTopic(Struct):
    """A topic by name, or from version 12 on by id with None as the name."""

    topic_id: Annotated[Uuid, In(10), Ignorable()] = ZERO_UUID
    name: Annotated[String | None, Null(10)] = ""


@attrs.define(kw_only=True, eq=False, repr=False)
class MetadataRequest(Struct):
    """`topics=None` asks for all topics, `[]` for none; version 0 has no null, and there `[]` means all."""

    topics: Annotated[list[MetadataRequestTopic] | None, Null(1)] = attrs.Factory(list)
    allow_auto_topic_creation: Annotated[Bool, In(4)] = True
    include_cluster_authorized_operations: Annotated[Bool, In(8, 10)] = False
    include_topic_authorized_operations: Annotated[Bool, In(8)] = False


@attrs.define(kw_only=True, eq=False, repr=False)
class MetadataResponseBroker(Struct):
    """The address of one broker."""

    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: Annotated[String | None, In(1), Ignorable()] = None


@attrs.define(kw_only=True, eq=False, repr=False)
class MetadataResponsePartition(Struct):
    """The leader and replicas of one partition; `leader_id` is -1 when there is none."""

    error_code: Int16 = 0
    partition_index: Int32 = 0
    leader_id: Int32 = 0
    leader_epoch: Annotated[Int32, In(7), Ignorable()] = -1
    replica_nodes: Annotated[list[Int32], AtMost(MAX_BROKERS)] = attrs.Factory(list)
    isr_nodes: Annotated[list[Int32], AtMost(MAX_BROKERS)] = attrs.Factory(list)
    offline_replicas: Annotated[list[Int32], In(5), Ignorable(), AtMost(MAX_BROKERS)] = attrs.Factory(list)


@attrs.define(kw_only=True, eq=False, repr=False)
class MetadataResponseTopic(Struct):
    """One topic. The name is None only for an unknown id, the id is zero only for an unknown name."""

    error_code: Int16 = 0
    name: Annotated[String | None, Null(12)] = ""
    topic_id: Annotated[Uuid, In(10), Ignorable()] = ZERO_UUID
    is_internal: Annotated[Bool, In(1), Ignorable()] = False
    partitions: Annotated[list[MetadataResponsePartition], AtMost(MAX_PARTITIONS)] = attrs.Factory(list)
    topic_authorized_operations: Annotated[Int32, In(8)] = NOT_ASKED


@attrs.define(kw_only=True, eq=False, repr=False)
class MetadataResponse(Struct):
    """`error_code` may be 129: start again from the bootstrap servers (KIP-1102)."""

    throttle_time_ms: Annotated[Int32, In(3), Ignorable()] = 0
    brokers: Annotated[list[MetadataResponseBroker], AtMost(MAX_BROKERS)] = attrs.Factory(list)
    cluster_id: Annotated[String | None, In(2), Ignorable()] = None
    controller_id: Annotated[Int32, In(1), Ignorable()] = -1
    topics: Annotated[list[MetadataResponseTopic], AtMost(MAX_TOPICS)] = attrs.Factory(list)
    cluster_authorized_operations: Annotated[Int32, In(8, 10)] = NOT_ASKED
    error_code: Annotated[Int16, In(13), Ignorable()] = 0


METADATA = Message(
    name="Metadata",
    key=3,
    min_version=0,
    max_version=13,
    flexible_from=9,
    request_type=MetadataRequest,
    response_type=MetadataResponse,
)
