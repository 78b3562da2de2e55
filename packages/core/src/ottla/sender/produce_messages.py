"""Produce requests made of batches, and Produce responses read as one response for each partition."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

import attrs

from ottla.accumulator.batch import ProducerBatch
from ottla.accumulator.batch_outcome import Acknowledged
from ottla.accumulator.sealing import SupportedFormats
from ottla.errors import ErrorCode, error_code
from ottla.interfaces import Buffer
from ottla.network import Completion, Request
from ottla.network.cluster import Broker
from ottla.protocol import PRODUCE, PartitionProduceResponse, ProduceResponse, read_acknowledgement
from ottla.protocol import produce_request as encode_request
from ottla.protocol.produce_request import FIRST_WITH_TOPIC_IDS
from ottla.recordbatch.codecs import ZSTD
from ottla.results.value_methods import ValueMethods

NO_ID: Final = bytes(16)
FIRST_WITH_ZSTD: Final = 7
LAST_WITH_NAMES: Final = FIRST_WITH_TOPIC_IDS - 1
LAST_THAT_ADDS_NOTHING: Final = 11
"""Later versions add partitions to the transaction, for `transaction.version` 2 (KIP-890)."""
NEWEST_MAGIC: Final = 2
VERSIONS: Final[Mapping[int, tuple[int, int]]] = {0: (0, 1), 1: (2, 2), 2: (3, PRODUCE.max_version)}
"""The versions that carry each record format: 0.9 brokers know 0 and 1, 0.10 ones 2."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class PartitionRefusal(ValueMethods):
    """The error code of a Produce response for one partition's batch; it may mean that the broker has the batch.

    `record_errors` maps the index of each record that the response names to the message for it. `leader` and
    `leader_epoch` are those of the partition's new leader, if the response names one.
    """

    code: ErrorCode
    message: str | None
    record_errors: Mapping[int, str | None]
    leader: Broker | None = None
    leader_epoch: int = -1


PartitionResponse: TypeAlias = Acknowledged | PartitionRefusal


def produce_request(
    batches: Sequence[ProducerBatch],
    *,
    acks: int,
    timeout: float,
    topic_ids: Mapping[str, bytes],
    on_complete: Callable[[Completion], object],
    transactional_id: str | None = None,
    newest: int = PRODUCE.max_version,
) -> Request:
    """Make a request of sealed batches, at most one for each partition, without copying their records.

    *newest* is the highest version that may be used.
    """
    by_topic: dict[str, list[tuple[int, Sequence[Buffer]]]] = {}
    magic = NEWEST_MAGIC
    zstd = False
    for batch in batches:
        sealed = batch.sealed
        assert sealed is not None, "only sealed batches are sent"
        magic = min(magic, sealed.magic)
        zstd |= sealed.codec_id == ZSTD
        by_topic.setdefault(batch.topic, []).append((batch.partition, sealed.wire_chunks_for(batch.sequence)))
    floor, ceiling = VERSIONS[magic]
    ids = {topic: topic_ids.get(topic, NO_ID) for topic in by_topic}

    def body(version: int) -> Sequence[Buffer]:
        return encode_request(
            version,
            transactional_id=transactional_id,
            acks=acks,
            timeout_ms=int(timeout * 1000),
            topics=[(topic, ids[topic], partitions) for topic, partitions in by_topic.items()],
        )

    return Request(
        message=PRODUCE,
        body=body,
        on_complete=on_complete,
        floor=FIRST_WITH_ZSTD if zstd else floor,
        ceiling=min(ceiling, newest, LAST_WITH_NAMES if NO_ID in ids.values() else ceiling),
        expects_response=acks != 0,
        shortcut=_acknowledgement_of(batches[0], ids[batches[0].topic]) if len(batches) == 1 else None,
    )


def _acknowledgement_of(batch: ProducerBatch, topic_id: bytes) -> Callable[[int, Buffer], Acknowledged | None]:
    """A function that reads a response that acknowledges the only batch of a request; None for any other response."""
    topic, partition = batch.topic, batch.partition

    def read(version: int, body: Buffer) -> Acknowledged | None:
        found = read_acknowledgement(version, body, topic=topic, topic_id=topic_id, partition=partition)
        return None if found is None else Acknowledged(base_offset=found[0], log_append_time_ms=found[1])

    return read


@functools.cache
def supported_formats(supported: tuple[int, int] | None) -> SupportedFormats:
    """The formats that a broker takes that supports these versions of Produce; all formats while they are not known."""
    if supported is None:
        return SupportedFormats()
    newest = supported[1]
    magic = next((magic for magic in (2, 1) if newest >= VERSIONS[magic][0]), 0)
    return SupportedFormats(magic=magic, zstd=newest >= FIRST_WITH_ZSTD)


def read_response(
    response: ProduceResponse | Acknowledged, batches: Sequence[ProducerBatch], topic_ids: Mapping[str, bytes]
) -> Mapping[tuple[str, int], PartitionResponse]:
    """The responses by topic and partition; from version 13 on, they have topic ids instead of names.

    Acknowledged: the request's shortcut has read the response for its only batch.
    """
    if isinstance(response, Acknowledged):
        [batch] = batches
        return {(batch.topic, batch.partition): response}
    names = {topic_ids.get(batch.topic, NO_ID): batch.topic for batch in batches}
    brokers = _leaders(response) if response.node_endpoints else {}
    return {
        (topic.name or names.get(topic.topic_id, ""), partition.index): _partition_response(partition, brokers)
        for topic in response.responses
        for partition in topic.partition_responses
    }


def _leaders(response: ProduceResponse) -> Mapping[int, Broker]:
    """The brokers that are named as leaders, by id.

    A leader with a negative id is ignored: -1 is Kafka's "no node", and negative ids are those of our bootstrap
    servers. If two leaders have the same id, the first one is used, as in metadata.
    """
    endpoints = [node for node in reversed(response.node_endpoints) if node.node_id >= 0]
    return {node.node_id: Broker(id=node.node_id, host=node.host, port=node.port, rack=node.rack) for node in endpoints}


def _partition_response(partition: PartitionProduceResponse, brokers: Mapping[int, Broker]) -> PartitionResponse:
    if not partition.error_code:
        return Acknowledged(base_offset=partition.base_offset, log_append_time_ms=partition.log_append_time_ms)
    return PartitionRefusal(
        code=error_code(partition.error_code),
        message=partition.error_message,
        record_errors={record.batch_index: record.batch_index_error_message for record in partition.record_errors},
        leader=brokers.get(partition.current_leader.leader_id),
        leader_epoch=partition.current_leader.leader_epoch,
    )
