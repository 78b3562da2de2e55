"""Metadata requests and answers: from the wire to the values of `ottla.network.cluster`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from ottla.errors import BrokerError, ErrorCode, NetworkError, ProtocolError, error_code, quoted
from ottla.network.cluster import NO_LEADER, Broker, Topic
from ottla.network.request import Completion, Request
from ottla.protocol import (
    METADATA,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)


def metadata_request(topics: Sequence[str], *, on_complete: Callable[[Completion], object]) -> Request:
    """Ask for the brokers and for these topics; a broker that allows it makes a topic that does not exist."""

    def body(version: int) -> Sequence[bytes]:
        wanted = [MetadataRequestTopic(name=name) for name in topics]
        return [METADATA.request(version).encode(MetadataRequest(topics=wanted, allow_auto_topic_creation=True))]

    # Version 0 knows no "none": an empty list there means all topics.
    return Request(message=METADATA, body=body, on_complete=on_complete, floor=1)


def read_answer(answer: MetadataResponse, wanted: Collection[str]) -> tuple[Mapping[int, Broker], Mapping[str, Topic]]:
    """The brokers of an answer, and those of its topics that were *wanted*; others take no memory and no log line.

    Raises an OttlaError when it cannot be used.
    """
    code = error_code(answer.error_code)
    if code is not ErrorCode.NONE:
        raise BrokerError(code)
    brokers = {b.node_id: Broker(id=b.node_id, host=b.host, port=b.port) for b in answer.brokers}
    if not brokers:
        raise NetworkError("the answer to a metadata request names no broker")
    names = frozenset(wanted)
    return brokers, {topic.name: _topic(topic) for topic in answer.topics if topic.name in names}


def _topic(topic: MetadataResponseTopic) -> Topic:
    ordered = sorted(topic.partitions, key=lambda partition: partition.partition_index)
    if any(number != partition.partition_index for number, partition in enumerate(ordered)):
        raise ProtocolError(
            f"the answer to a metadata request does not count the partitions of {quoted(topic.name or '')} from 0"
        )
    return Topic(
        name=topic.name or "",
        id=topic.topic_id,
        error=error_code(topic.error_code),
        leaders=tuple(max(partition.leader_id, NO_LEADER) for partition in ordered),
        epochs=tuple(partition.leader_epoch for partition in ordered),
    )
