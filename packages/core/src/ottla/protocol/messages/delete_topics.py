"""DeleteTopics: topics by name, or from version 6 on by id. It goes to the controller; brokers on KRaft forward it.

Kafka 4 removed version 0.
"""

from __future__ import annotations

from typing import Annotated

import attrs

from ottla.protocol.message import Message
from ottla.protocol.notation import ZERO_UUID, Ignorable, In, Int16, Int32, Null, String, Struct, Uuid


@attrs.define(kw_only=True, eq=False, repr=False)
class DeleteTopicState(Struct):
    """A topic by its name, or by its id with None as the name."""

    name: String | None = None
    topic_id: Uuid = ZERO_UUID


@attrs.define(kw_only=True, eq=False, repr=False)
class DeleteTopicsRequest(Struct):
    """`topic_names` up to version 5, `topics` from 6 on."""

    topics: Annotated[list[DeleteTopicState], In(6)] = attrs.Factory(list)
    topic_names: Annotated[list[String], In(0, 5), Ignorable()] = attrs.Factory(list)
    timeout_ms: Int32 = 0


@attrs.define(kw_only=True, eq=False, repr=False)
class DeletableTopicResult(Struct):
    """One topic's outcome.

    The name is None only if the request gave no name. Then the broker does not know or accept the id, or the client
    may not describe the topic.
    """

    name: Annotated[String | None, Null(6)] = ""
    topic_id: Annotated[Uuid, In(6), Ignorable()] = ZERO_UUID
    error_code: Int16 = 0
    error_message: Annotated[String | None, In(5), Ignorable()] = None


@attrs.define(kw_only=True, eq=False, repr=False)
class DeleteTopicsResponse(Struct):
    """The outcomes, topic by topic."""

    throttle_time_ms: Annotated[Int32, In(1), Ignorable()] = 0
    responses: list[DeletableTopicResult] = attrs.Factory(list)


DELETE_TOPICS = Message(
    name="DeleteTopics",
    key=20,
    min_version=0,
    max_version=6,
    flexible_from=4,
    request_type=DeleteTopicsRequest,
    response_type=DeleteTopicsResponse,
)
