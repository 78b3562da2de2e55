"""Produce requests at a simulated broker: checks, the append, and the wait for followers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import attrs

from ottla.errors import ErrorCode
from ottla.protocol import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from ottla.recordbatch.parse import Record, RecordBatch, parse_batches
from ottla_testkit.simulation.replicated_partition import ALL_REPLICAS
from ottla_testkit.simulation.topics import SimulatedTopic

if TYPE_CHECKING:
    from ottla_testkit.simulation.brokers import SimulatedBroker

FIRST_THAT_ADDS = 12
"""From this version on, Produce adds partitions to the transaction (KIP-890)."""

FIRST_WITH_HINTS = 10


@attrs.frozen
class AfterAppend:
    """A code that is returned after the batch is written: by a leader that steps down or waits for its followers."""

    code: int


Scripted: TypeAlias = "int | AfterAppend | None"
"""A broker's action for a Produce request: a code to refuse it with before the append, or NONE to accept it.

An `AfterAppend` appends and returns its code; None appends and never responds.
"""


@attrs.frozen(kw_only=True)
class BatchArrival:
    """A batch that has arrived at a broker, with the broker's error code and the batch's base offset or -1.

    `records` is the partition's log at this broker, with the batch if it was appended.
    """

    broker: int
    topic: SimulatedTopic
    partition: int
    batch: RecordBatch
    code: int
    offset: int
    records: list[Record]


@attrs.define(eq=False)
class ProduceAnswer:
    """The answer to one Produce request. `done` gets it when it is complete."""

    broker: SimulatedBroker
    request: ProduceRequest
    scripted: Scripted
    version: int
    done: Callable[[ProduceResponse | None], object]
    _responses: list[TopicProduceResponse] = attrs.field(factory=list)
    _open: int = 1

    @property
    def throttle_ms(self) -> int:
        """The throttle time of the response: as long as the quota needs for the bytes of this request."""
        quota = self.broker.quota
        if quota is None:
            return self.broker.throttle_ms
        data = (data for topic in self.request.topic_data for data in topic.partition_data)
        return self.broker.throttle_ms + round(1000 * sum(len(each.records or b"") for each in data) / quota)

    def begin(self) -> None:
        """Append the batches. The answer may be complete then, or wait for followers."""
        for topic_data in self.request.topic_data:
            topic = self.broker.cluster.find_topic(topic_data.name, topic_data.topic_id)
            responses: list[PartitionProduceResponse] = []
            self._responses.append(
                TopicProduceResponse(name=topic_data.name, topic_id=topic_data.topic_id, partition_responses=responses)
            )
            for place, data in enumerate(topic_data.partition_data):
                responses.append(PartitionProduceResponse(index=data.index, base_offset=-1))
                if topic is None or data.index >= len(topic.leaders):
                    responses[place] = attrs.evolve(responses[place], error_code=_unknown(topic_data.name))
                else:
                    self._take(topic, data, responses, place)
        self._one_less()

    def _take(
        self, topic: SimulatedTopic, data: PartitionProduceData, responses: list[PartitionProduceResponse], place: int
    ) -> None:
        """Append a partition's batches, and put its response in its place, perhaps later."""
        code, offset = self._append(topic, data)

        def respond(final: int) -> None:
            responses[place] = self._response(topic, data.index, final, offset if final == ErrorCode.NONE else -1)
            self._one_less()

        self._open += 1
        replicated = topic.replicated.get(data.index)
        if isinstance(self.scripted, AfterAppend) and code == ErrorCode.NONE:
            respond(self.scripted.code)
        elif replicated is None or code != ErrorCode.NONE or self.request.acks != ALL_REPLICAS:
            respond(code)
        else:
            replicated.wait(self.broker.id, offset, self.request.timeout_ms / 1000, respond)

    def _append(self, topic: SimulatedTopic, data: PartitionProduceData) -> tuple[int, int]:
        """Append a partition's batches; return the error code and the base offset of the first."""
        base_offset = -1
        records = data.records or b""
        replicated = topic.replicated.get(data.index)
        log = topic.log_of(data.index) if replicated is None else replicated.log_at(self.broker.id)
        for batch in parse_batches(records, compressors=self.broker.cluster.compressors):
            self.broker.magics.append(batch.magic)
            refusal, offset = self._refusal(topic, data.index, len(records)), -1
            if refusal == ErrorCode.NONE:
                refusal = self._admit((topic.name, data.index), batch)
            if refusal == ErrorCode.NONE:
                refusal, offset = (
                    topic.append(data.index, batch)
                    if replicated is None
                    else replicated.append(self.broker.id, batch, self.request.acks)
                )
                base_offset = offset if base_offset < 0 else base_offset
            self.broker.cluster.on_batch(
                BatchArrival(
                    broker=self.broker.id,
                    topic=topic,
                    partition=data.index,
                    batch=batch,
                    code=refusal,
                    offset=offset,
                    records=log.records,
                )
            )
            if refusal != ErrorCode.NONE:
                return refusal, -1
        return ErrorCode.NONE, base_offset

    def _refusal(self, topic: SimulatedTopic, partition: int, size: int) -> int:
        """Return the code of the checks that come before those of the producer, NONE if they pass."""
        if topic.name in self.broker.cluster.denied_topics:
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        if isinstance(self.scripted, int) and self.scripted != ErrorCode.NONE:
            return self.scripted
        if self._known_leader(topic, partition)[0] != self.broker.id:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        too_large = topic.max_message_bytes is not None and size > topic.max_message_bytes
        return ErrorCode.MESSAGE_TOO_LARGE if too_large else ErrorCode.NONE

    def _known_leader(self, topic: SimulatedTopic, partition: int) -> tuple[int, int]:
        """Return the leader of a partition and its epoch, as this broker knows them."""
        if partition in topic.replicated:
            return topic.replicated[partition].known_leader(self.broker.id)
        return topic.leaders[partition], topic.epoch

    def _response(self, topic: SimulatedTopic, partition: int, code: int, base_offset: int) -> PartitionProduceResponse:
        leader, epoch = self._known_leader(topic, partition)
        hints = self._gives_hints and code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        return PartitionProduceResponse(
            index=partition,
            error_code=code,
            base_offset=base_offset,
            current_leader=LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch) if hints else LeaderIdAndEpoch(),
            record_errors=[
                BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=message)
                for index, message in self.broker.named_records.items()
                if code == ErrorCode.INVALID_RECORD
            ],
        )

    def _admit(self, partition: tuple[str, int], batch: RecordBatch) -> ErrorCode:
        """Return NONE if the open transaction may write to this partition, otherwise the error code."""
        if not batch.transactional:
            return ErrorCode.NONE
        coordinator = self.broker.cluster.transactions
        check = coordinator.add if self.version >= FIRST_THAT_ADDS else coordinator.is_member
        code = check(self.request.transactional_id or "", batch.producer_id, batch.epoch, partition)
        return ErrorCode.INVALID_PRODUCER_EPOCH if code is ErrorCode.PRODUCER_FENCED else code

    @property
    def _gives_hints(self) -> bool:
        return self.broker.hints and self.version >= FIRST_WITH_HINTS

    def _one_less(self) -> None:
        self._open -= 1
        if self._open:
            return
        if self.scripted is None or self.request.acks == 0:
            self.done(None)
            return
        brokers = self.broker.cluster.brokers.values()
        nodes = [NodeEndpoint(node_id=b.id, host=f"broker-{b.id}", port=9092) for b in brokers]
        self.done(
            ProduceResponse(
                responses=self._responses,
                throttle_time_ms=self.throttle_ms,
                node_endpoints=nodes if self._gives_hints else [],
            )
        )


def _unknown(name: str) -> ErrorCode:
    """The error code for a topic or partition that does not exist; *name* is empty in a request with topic ids."""
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if name else ErrorCode.UNKNOWN_TOPIC_ID
