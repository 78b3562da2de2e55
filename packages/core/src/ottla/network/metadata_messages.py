"""Metadata requests and responses: from the wire to the values of `ottla.network.cluster`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

import attrs

from ottla.config.hosts import with_port
from ottla.errors import BrokerError, ErrorCode, NetworkError, ProtocolError, error_code, printable, quoted
from ottla.errors.outages import SHOWN
from ottla.network.cluster import NO_LEADER, Broker, Topic
from ottla.network.request import Completion, Request
from ottla.protocol import (
    METADATA,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponseTopic,
)
from ottla.protocol.notation import ZERO_UUID
from ottla.results.value_methods import ValueMethods

FIRST_WITH_TOPIC_IDS: Final = 10


@attrs.frozen(kw_only=True, eq=False, repr=False)
class MetadataUpdate(ValueMethods):
    """The brokers and topics of a response; `left_out` describes brokers with impossible values: at most one more than
    are shown. `cluster_id` is None before Kafka 0.10.1.
    """

    brokers: Mapping[int, Broker]
    topics: Mapping[str, Topic]
    left_out: Sequence[str] = ()
    cluster_id: str | None = None


def metadata_request(topics: Sequence[str], *, on_complete: Callable[[Completion], object]) -> Request:
    """Request the brokers and these topics; a broker with auto-creation makes a topic that does not exist."""

    def body(version: int) -> Sequence[bytes]:
        wanted = [MetadataRequestTopic(name=name) for name in topics]
        return [METADATA.request(version).encode(MetadataRequest(topics=wanted, allow_auto_topic_creation=True))]

    # Version 0 cannot ask for no topics: an empty list there means all topics.
    return Request(message=METADATA, body=body, on_complete=on_complete, floor=1)


def cluster_question(topics: Collection[str], version: int) -> MetadataRequest:
    """Ask for the id of the cluster, and those of these topics if the broker has ids of topics (KIP-516).

    Earlier versions are asked for the cluster alone: some of them create topics that they name.
    """
    has_ids = version >= FIRST_WITH_TOPIC_IDS
    wanted = [MetadataRequestTopic(name=name) for name in topics] if has_ids else []
    return MetadataRequest(topics=wanted, allow_auto_topic_creation=not has_ids)


def cluster_request(topics: Collection[str], *, on_complete: Callable[[Completion], object]) -> Request:
    """Request what `cluster_question` asks for."""

    def body(version: int) -> Sequence[bytes]:
        return [METADATA.request(version).encode(cluster_question(topics, version))]

    return Request(message=METADATA, body=body, on_complete=on_complete, floor=1)  # as above


def read_response(response: MetadataResponse, wanted: Collection[str]) -> MetadataUpdate:
    """Read the brokers of a response, and its *wanted* topics; other topics take no memory and no log line.

    Raises an OttlaError when the response cannot be used.
    """
    code = error_code(response.error_code)
    if code is not ErrorCode.NONE:
        raise BrokerError(code)
    usable, unusable = usable_brokers(response.brokers)
    brokers = {node: Broker(id=node, host=each.host, port=each.port, rack=each.rack) for node, each in usable.items()}
    # At most one more than are shown: quoting the hosts of 20,000 brokers takes seconds.
    left_out = [_left_out(each, brokers) for each in unusable[: SHOWN + 1]]
    if not brokers:
        why = f" that can be used: {left_out[0]}" if left_out else ""
        raise NetworkError(f"the response to a metadata request names no broker{why}")
    names = frozenset(wanted)
    topics = {topic.name: _topic(topic) for topic in response.topics if topic.name in names}
    return MetadataUpdate(brokers=brokers, topics=topics, left_out=left_out, cluster_id=response.cluster_id or None)


def usable_brokers(
    listed: Iterable[MetadataResponseBroker],
) -> tuple[Mapping[int, MetadataResponseBroker], Sequence[MetadataResponseBroker]]:
    """The brokers of a response by id, and those that cannot be used.

    Kafka's -1 is "no node", and negative ids are those of our bootstrap servers, which a response must not replace. If
    two brokers have the same id, the first one is used.
    """
    brokers: dict[int, MetadataResponseBroker] = {}
    left_out: list[MetadataResponseBroker] = []
    for broker in listed:
        first = brokers.setdefault(broker.node_id, broker) if broker.node_id >= 0 else None
        if first is None or (first.host, first.port) != (broker.host, broker.port):
            left_out.append(broker)
    return brokers, left_out


def _left_out(left_out: MetadataResponseBroker, brokers: Mapping[int, Broker]) -> str:
    where = with_port(printable(left_out.host), left_out.port)
    if left_out.node_id < 0:
        return f"a broker at {where} with the id {left_out.node_id}, which no broker can have"
    return f"another broker {left_out.node_id} at {where}; {brokers[left_out.node_id]} was listed before"


def _topic(topic: MetadataResponseTopic) -> Topic:
    ordered = sorted(topic.partitions, key=lambda partition: partition.partition_index)
    if any(number != partition.partition_index for number, partition in enumerate(ordered)):
        raise ProtocolError(
            f"the response to a metadata request does not number the partitions of {quoted(topic.name or '')} from 0"
        )
    return Topic(
        name=topic.name or "",
        id=topic.topic_id,
        error=error_code(topic.error_code),
        leaders=tuple(max(partition.leader_id, NO_LEADER) for partition in ordered),
        # Without ids (before Kafka 2.8) a topic that was deleted and created again looks like the earlier one. Its
        # epochs begin again, so its leaders would be taken for outdated ones until its epochs are higher (KAFKA-12257).
        epochs=tuple(partition.leader_epoch if topic.topic_id != ZERO_UUID else -1 for partition in ordered),
    )
