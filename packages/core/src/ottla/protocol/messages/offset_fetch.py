"""OffsetFetch: committed offsets of a group, with their metadata strings.

From version 2 on `topics=None` asks for all. From 7 on the request may demand that no transaction is about to change an
offset (KIP-447). From 8 on it has several groups, and 10 has topic ids instead of names.
"""

from __future__ import annotations

from typing import Annotated

import attrs

from ottla.protocol.message import Message
from ottla.protocol.notation import ZERO_UUID, Bool, Ignorable, In, Int16, Int32, Int64, Null, String, Struct, Uuid


@attrs.define(kw_only=True, eq=False, repr=False)
class OffsetFetchRequestTopic(Struct):
    """Partitions of one topic."""

    name: Annotated[String, In(0, 7)] = ""
    partition_indexes: Annotated[list[Int32], In(0, 7)] = attrs.Factory(list)


@attrs.define(kw_only=True, eq=False, repr=False)
class OffsetFetchRequestTopics(Struct):
    """Partitions of one topic, for one of several groups."""

    name: Annotated[String, In(8, 9), Ignorable()] = ""
    topic_id: Annotated[Uuid, In(10), Ignorable()] = ZERO_UUID
    partition_indexes: Annotated[list[Int32], In(8)] = attrs.Factory(list)


@attrs.define(kw_only=True, eq=False, repr=False)
class OffsetFetchRequestGroup(Struct):
    """One group; only members of the new kind of groups (KIP-848) name themselves."""

    group_id: Annotated[String, In(8)] = ""
    member_id: Annotated[String | None, In(9), Ignorable()] = None
    member_epoch: Annotated[Int32, In(9), Ignorable()] = -1
    topics: Annotated[list[OffsetFetchRequestTopics] | None, In(8)] = attrs.Factory(list)


@attrs.define(kw_only=True, eq=False, repr=False)
class OffsetFetchRequest(Struct):
    """Goes to the coordinator of the group, or groups."""

    group_id: Annotated[String, In(0, 7)] = ""
    topics: Annotated[list[OffsetFetchRequestTopic] | None, In(0, 7), Null(2, 7)] = attrs.Factory(list)
    groups: Annotated[list[OffsetFetchRequestGroup], In(8)] = attrs.Factory(list)
    require_stable: Annotated[Bool, In(7)] = False


@attrs.define(kw_only=True, eq=False, repr=False)
class OffsetFetchResponsePartition(Struct):
    """`committed_offset=-1`: there is none."""

    partition_index: Annotated[Int32, In(0, 7)] = 0
    committed_offset: Annotated[Int64, In(0, 7)] = 0
    committed_leader_epoch: Annotated[Int32, In(5, 7), Ignorable()] = -1
    metadata: Annotated[String | None, In(0, 7)] = ""
    error_code: Annotated[Int16, In(0, 7)] = 0


@attrs.define(kw_only=True, eq=False, repr=False)
class OffsetFetchResponseTopic(Struct):
    """The offsets of one topic's partitions."""

    name: Annotated[String, In(0, 7)] = ""
    partitions: Annotated[list[OffsetFetchResponsePartition], In(0, 7)] = attrs.Factory(list)


@attrs.define(kw_only=True, eq=False, repr=False)
class OffsetFetchResponsePartitions(Struct):
    """One partition's offset, for one of several groups, or -1 if there is none."""

    partition_index: Annotated[Int32, In(8)] = 0
    committed_offset: Annotated[Int64, In(8)] = 0
    committed_leader_epoch: Annotated[Int32, In(8)] = -1
    metadata: Annotated[String | None, In(8)] = ""
    error_code: Annotated[Int16, In(8)] = 0


@attrs.define(kw_only=True, eq=False, repr=False)
class OffsetFetchResponseTopics(Struct):
    """The offsets of one topic's partitions, for one of several groups."""

    name: Annotated[String, In(8, 9), Ignorable()] = ""
    topic_id: Annotated[Uuid, In(10), Ignorable()] = ZERO_UUID
    partitions: Annotated[list[OffsetFetchResponsePartitions], In(8)] = attrs.Factory(list)


@attrs.define(kw_only=True, eq=False, repr=False)
class OffsetFetchResponseGroup(Struct):
    """One of several groups, with its own error."""

    group_id: Annotated[String, In(8)] = ""
    topics: Annotated[list[OffsetFetchResponseTopics], In(8)] = attrs.Factory(list)
    error_code: Annotated[Int16, In(8)] = 0


@attrs.define(kw_only=True, eq=False, repr=False)
class OffsetFetchResponse(Struct):
    """The offsets of one group up to version 7, of several from 8 on."""

    throttle_time_ms: Annotated[Int32, In(3), Ignorable()] = 0
    topics: Annotated[list[OffsetFetchResponseTopic], In(0, 7)] = attrs.Factory(list)
    error_code: Annotated[Int16, In(2, 7), Ignorable()] = 0
    groups: Annotated[list[OffsetFetchResponseGroup], In(8)] = attrs.Factory(list)


OFFSET_FETCH = Message(
    name="OffsetFetch",
    key=9,
    min_version=0,
    max_version=10,
    flexible_from=6,
    request_type=OffsetFetchRequest,
    response_type=OffsetFetchResponse,
)
