"""CreateTopics: new topics. It goes to the controller; brokers on KRaft forward it.

From version 4 on -1 stands for the broker's default number of partitions or replicas (KIP-464). From 5 on the response
has the topic's settings (KIP-525), from 7 on its id. Kafka 4 removed versions 0 and 1.
"""

from __future__ import annotations

from typing import Annotated

import attrs

from ottla.protocol.message import Message
from ottla.protocol.notation import ZERO_UUID, Bool, Ignorable, In, Int8, Int16, Int32, String, Struct, Tag, Uuid


@attrs.define(kw_only=True, eq=False, repr=False)
class CreatableReplicaAssignment(Struct):
    """The brokers of one partition, the preferred leader first."""

    partition_index: Int32 = 0
    broker_ids: list[Int32] = attrs.Factory(list)


@attrs.define(kw_only=True, eq=False, repr=False)
class CreatableTopicConfig(Struct):
    """A setting of the topic, such as `cleanup.policy`."""

    name: String = ""
    value: String | None = ""


@attrs.define(kw_only=True, eq=False, repr=False)
class CreatableTopic(Struct):
    """A topic to create. With `assignments` both numbers are -1."""

    name: String = ""
    num_partitions: Int32 = 0
    replication_factor: Int16 = 0
    assignments: list[CreatableReplicaAssignment] = attrs.Factory(list)
    configs: list[CreatableTopicConfig] = attrs.Factory(list)


@attrs.define(kw_only=True, eq=False, repr=False)
class CreateTopicsRequest(Struct):
    """The response waits for the topics up to `timeout_ms`; after an error 7 they may still be created."""

    topics: list[CreatableTopic] = attrs.Factory(list)
    timeout_ms: Int32 = 60_000
    validate_only: Annotated[Bool, In(1)] = False


@attrs.define(kw_only=True, eq=False, repr=False)
class CreatableTopicConfigs(Struct):
    """A setting that the topic has. `config_source` is that of DescribeConfigs."""

    name: String = ""
    value: String | None = ""
    read_only: Bool = False
    config_source: Int8 = -1
    is_sensitive: Bool = False


@attrs.define(kw_only=True, eq=False, repr=False)
class CreatableTopicResult(Struct):
    """One topic's outcome; `configs` is None if the client may not see them, and the code next to it says why."""

    name: String = ""
    topic_id: Annotated[Uuid, In(7), Ignorable()] = ZERO_UUID
    error_code: Int16 = 0
    error_message: Annotated[String | None, In(1), Ignorable()] = ""
    topic_config_error_code: Annotated[Int16, In(5), Tag(0), Ignorable()] = 0
    num_partitions: Annotated[Int32, In(5), Ignorable()] = -1
    replication_factor: Annotated[Int16, In(5), Ignorable()] = -1
    configs: Annotated[list[CreatableTopicConfigs] | None, In(5), Ignorable()] = attrs.Factory(list)


@attrs.define(kw_only=True, eq=False, repr=False)
class CreateTopicsResponse(Struct):
    """The outcomes, topic by topic."""

    throttle_time_ms: Annotated[Int32, In(2), Ignorable()] = 0
    topics: list[CreatableTopicResult] = attrs.Factory(list)


CREATE_TOPICS = Message(
    name="CreateTopics",
    key=19,
    min_version=0,
    max_version=7,
    flexible_from=5,
    request_type=CreateTopicsRequest,
    response_type=CreateTopicsResponse,
)
