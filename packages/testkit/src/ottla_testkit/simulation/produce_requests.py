"""Produce requests at a simulated broker: checks, the append, and the wait for followers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, TypeAlias

import attrs

from ottla.errors import CorruptBatchError, ErrorCode
from ottla.interfaces import Compressor
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
from ottla.recordbatch.parse import Record, RecordBatch
from ottla_testkit.simulation.batch_checks import REJECTED, CheckedRecords, check_records, transaction_owner
from ottla_testkit.simulation.login import HangUpError
from ottla_testkit.simulation.partition_log import PartitionLog
from ottla_testkit.simulation.replicated_partition import ALL_REPLICAS
from ottla_testkit.simulation.topics import SimulatedTopic
from ottla_testkit.simulation.transactions import TransactionCoordinator

FIRST_THAT_ADDS = 12
"""From this version on, Produce adds partitions to the transaction (KIP-890)."""

FIRST_WITH_HINTS = 10
FIRST_WITH_ABORTABLE = 11

ACKS = (-1, 0, 1)
"""The numbers of acknowledgements that a request may ask for."""

FROM_THE_LOG = frozenset({ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID})
"""Codes of the log's own checks: their response contains the log's first offset, which clients need to go on."""

UNVERIFIED = "Unable to verify the partition has been added to the transaction"


@attrs.frozen
class AfterAppend:
    """A code that is returned after the batch is written: by a leader that steps down or waits for its followers."""

    code: int


@attrs.frozen
class OfPartitions:
    """What is done with some partitions' batches, by topic and partition. All others are accepted."""

    scripted: Mapping[tuple[str, int], int | AfterAppend]


Scripted: TypeAlias = "int | AfterAppend | OfPartitions | None"
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


@attrs.frozen(kw_only=True)
class Appended:
    """The outcome of an append: the code, and the first batch's base offset and time, -1 if there is none.

    `at_log`: the response contains the log's first offset. A `message` says more than the code.
    """

    code: int = ErrorCode.NONE
    base_offset: int = -1
    append_time_ms: int = -1
    at_log: bool = False
    message: str | None = None


class ProduceCluster(Protocol):
    """The part of a cluster's interface that Produce requests use."""

    denied_topics: set[str]
    denied_ids: set[str]
    compressors: Mapping[int, Compressor]
    corrupt: list[CorruptBatchError]
    on_batch: Callable[[BatchArrival], object]
    older_logs: bool
    transactions: TransactionCoordinator

    @property
    def now_ms(self) -> int:
        """The time by the clock of the cluster, in milliseconds since 1970."""
        ...

    @property
    def coordinator_serves(self) -> bool:
        """Whether the coordinator of transactions is up, and has loaded its state."""
        ...

    def address_of(self, broker: int) -> tuple[str, int]:
        """Return the host and port that a broker advertises."""
        ...

    def find_topic(self, name: str, topic_id: bytes) -> SimulatedTopic | None:
        """Return a topic by its name or, if that is empty, by its id. Return None if it does not exist."""


class ProduceBroker(Protocol):
    """The part of a broker's interface that Produce requests use."""

    id: int
    throttle_ms: int
    quota: float | None
    hints: bool
    named_records: Mapping[int, str]
    magics: list[int]

    @property
    def cluster(self) -> ProduceCluster:
        """The cluster of the broker."""


@attrs.define(eq=False)
class ProduceAnswer:
    """The answer to one Produce request. `done` gets it when it is complete."""

    broker: ProduceBroker
    request: ProduceRequest
    scripted: Scripted
    version: int
    done: Callable[[ProduceResponse | None], object]
    _responses: list[TopicProduceResponse] = attrs.field(factory=list)
    _open: int = 1
    _refused: Appended | None = None
    """The refusal of all batches, because of one of them."""

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
        self._refused = self._refuse_all()
        for topic_data in self.request.topic_data:
            topic = self.broker.cluster.find_topic(topic_data.name, topic_data.topic_id)
            responses: list[PartitionProduceResponse] = []
            self._responses.append(
                TopicProduceResponse(name=topic_data.name, topic_id=topic_data.topic_id, partition_responses=responses)
            )
            for place, data in enumerate(topic_data.partition_data):
                responses.append(PartitionProduceResponse(index=data.index, base_offset=-1))
                if topic is None or not 0 <= data.index < len(topic.leaders):
                    code = self._refused.code if self._refused else _unknown(topic_data.name, topic)
                    responses[place] = attrs.evolve(responses[place], error_code=code)
                else:
                    self._take(topic, data, responses, place)
        self._one_less()

    def _refuse_all(self) -> Appended | None:
        """Return the refusal of all batches because of the transaction of one, or None if each is judged alone."""
        parts = [data for topic in self.request.topic_data for data in topic.partition_data]
        owners = {owner for data in parts if (owner := transaction_owner(data.records or b"")) is not None}
        name = self.request.transactional_id
        if owners and (name is None or name in self.broker.cluster.denied_ids):
            return Appended(code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        if len(owners) > 1:
            return Appended(code=ErrorCode.INVALID_PRODUCER_ID_MAPPING, message="batches of more than one producer")
        return None

    def _take(
        self, topic: SimulatedTopic, data: PartitionProduceData, responses: list[PartitionProduceResponse], place: int
    ) -> None:
        """Append a partition's batches, and put its response in its place, perhaps later."""
        checked = check_records(
            data.records or b"",
            version=self.version,
            topic=topic,
            now_ms=self.broker.cluster.now_ms,
            compressors=self.broker.cluster.compressors,
        )
        outcome = self._append(topic, data, checked)

        def respond(final: int) -> None:
            # A broker leaves the offset in the response of a batch that it has appended, whatever came later.
            known = attrs.evolve(outcome, code=final)
            responses[place] = self._response(topic, data.index, known, checked.refused)
            self._one_less()

        self._open += 1
        replicated = topic.replicated.get(data.index)
        scripted = self._scripted(topic, data.index)
        if isinstance(scripted, AfterAppend) and outcome.code == ErrorCode.NONE:
            respond(scripted.code)
        elif replicated is None or outcome.code != ErrorCode.NONE or self.request.acks != ALL_REPLICAS:
            respond(outcome.code)
        else:
            replicated.wait(self.broker.id, outcome.base_offset, self.request.timeout_ms / 1000, respond)

    def _append(self, topic: SimulatedTopic, data: PartitionProduceData, checked: CheckedRecords) -> Appended:
        """Append a partition's batches; return the code, and the base offset of the first one."""
        if checked.corrupt is not None:
            self.broker.cluster.corrupt.append(checked.corrupt)
        if checked.code is not ErrorCode.NONE:
            return self._refused or Appended(code=checked.code, at_log=checked.at_log, message=checked.message)
        if self.request.acks not in ACKS:
            return Appended(code=ErrorCode.INVALID_REQUIRED_ACKS)
        first = Appended()
        log = self._log(topic, data.index)
        for batch in checked.batches:
            self.broker.magics.append(batch.magic)
            found = self._refuse(topic, data, batch, log) or self._append_batch(topic, data.index, batch, log)
            self.broker.cluster.on_batch(
                BatchArrival(
                    broker=self.broker.id,
                    topic=topic,
                    partition=data.index,
                    batch=batch,
                    code=found.code,
                    offset=found.base_offset,
                    records=log.records,
                )
            )
            if found.code != ErrorCode.NONE:
                return found
            first = first if first.base_offset >= 0 else found
        return first

    def _log(self, topic: SimulatedTopic, partition: int) -> PartitionLog:
        """Return this broker's log of a partition."""
        replicated = topic.replicated.get(partition)
        return topic.log_of(partition) if replicated is None else replicated.replicas[self.broker.id].log

    def _append_batch(self, topic: SimulatedTopic, partition: int, batch: RecordBatch, log: PartitionLog) -> Appended:
        if self.broker.cluster.older_logs and log.producers.lacks(batch):
            return Appended(code=ErrorCode.UNKNOWN_PRODUCER_ID, at_log=True)
        replicated = topic.replicated.get(partition)
        written = log.producers.written(batch)
        if topic.append_time:
            batch = _at(batch, self.broker.cluster.now_ms)
        if replicated is None:
            code, offset = topic.append(partition, batch)
        else:
            code, offset = replicated.append(self.broker.id, batch, self.request.acks)
        # A broker returns the time of the batch that this one repeats as if it had set the time itself.
        append_time_ms = batch.max_timestamp if topic.append_time else -1
        return Appended(
            code=code,
            base_offset=offset,
            append_time_ms=-1 if code else append_time_ms if written is None else written.timestamp_ms,
            at_log=code not in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS),
        )

    def _refuse(
        self, topic: SimulatedTopic, data: PartitionProduceData, batch: RecordBatch, log: PartitionLog
    ) -> Appended | None:
        """Return the refusal of a batch by the checks that come before those of its log; None if they pass."""
        if self._refused is not None:
            return self._refused
        code = self._refusal(topic, data.index)
        message = None
        if code == ErrorCode.NONE:
            code, message = self._admit((topic.name, data.index), batch, log)
        if code == ErrorCode.NONE and topic.refuses(len(data.records or b"")):
            code = ErrorCode.MESSAGE_TOO_LARGE
        if code == ErrorCode.NONE:
            return None
        return Appended(code=code, message=message, at_log=code in FROM_THE_LOG)

    def _refusal(self, topic: SimulatedTopic, partition: int) -> int:
        """Return the code of the checks that come before those of the producer, NONE if they pass."""
        if topic.name in self.broker.cluster.denied_topics:
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        scripted = self._scripted(topic, partition)
        if isinstance(scripted, int) and scripted != ErrorCode.NONE:
            return scripted
        if self._known_leader(topic, partition)[0] != self.broker.id:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.NONE

    def _scripted(self, topic: SimulatedTopic, partition: int) -> int | AfterAppend | None:
        """Return what is done with a partition's batches."""
        if isinstance(self.scripted, OfPartitions):
            return self.scripted.scripted.get((topic.name, partition), ErrorCode.NONE)
        return self.scripted

    def _known_leader(self, topic: SimulatedTopic, partition: int) -> tuple[int, int]:
        """Return the leader of a partition and its epoch, as this broker knows them."""
        if partition in topic.replicated:
            return topic.replicated[partition].known_leader(self.broker.id)
        return topic.leaders[partition], topic.leader_epoch(partition)

    def _response(
        self, topic: SimulatedTopic, partition: int, outcome: Appended, refused: Mapping[int, str]
    ) -> PartitionProduceResponse:
        leader, epoch = self._known_leader(topic, partition)
        hints = self._gives_hints and outcome.code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        named = {**refused, **self.broker.named_records}
        rejects = outcome.code in (ErrorCode.INVALID_RECORD, ErrorCode.INVALID_TIMESTAMP) and bool(named)
        return PartitionProduceResponse(
            index=partition,
            error_code=outcome.code,
            base_offset=outcome.base_offset,
            log_append_time_ms=outcome.append_time_ms,
            current_leader=LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch) if hints else LeaderIdAndEpoch(),
            log_start_offset=self._log(topic, partition).start if outcome.at_log else -1,
            record_errors=[
                BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=message)
                for index, message in named.items()
                if rejects
            ],
            error_message=REJECTED if rejects else outcome.message,
        )

    def _admit(self, partition: tuple[str, int], batch: RecordBatch, log: PartitionLog) -> tuple[ErrorCode, str | None]:
        """Return NONE if the open transaction may write to this partition, otherwise the error code and a message."""
        if not batch.transactional:
            return ErrorCode.NONE, None
        assert self.request.transactional_id is not None, "otherwise the whole request is refused"
        adds = self.version >= FIRST_THAT_ADDS
        if log.producers.fences(batch):
            return ErrorCode.INVALID_PRODUCER_EPOCH, None
        if not log.verify(batch, from_zero=adds):
            return ErrorCode.NONE, None
        coordinator = self.broker.cluster.transactions
        check = coordinator.add if adds else coordinator.is_member
        if not self.broker.cluster.coordinator_serves:
            return ErrorCode.NOT_ENOUGH_REPLICAS, UNVERIFIED
        code = check(self.request.transactional_id, batch.producer_id, batch.epoch, partition)
        if code is ErrorCode.CONCURRENT_TRANSACTIONS and not adds:
            return ErrorCode.NOT_ENOUGH_REPLICAS, UNVERIFIED
        if code is ErrorCode.TRANSACTION_ABORTABLE and self.version < FIRST_WITH_ABORTABLE:
            return ErrorCode.INVALID_TXN_STATE, UNVERIFIED
        return (ErrorCode.INVALID_PRODUCER_EPOCH if code is ErrorCode.PRODUCER_FENCED else code), None

    @property
    def _gives_hints(self) -> bool:
        return self.broker.hints and self.version >= FIRST_WITH_HINTS

    def _one_less(self) -> None:
        self._open -= 1
        if self._open:
            return
        codes = [response.error_code for topic in self._responses for response in topic.partition_responses]
        if self.request.acks == 0 and any(codes):
            raise HangUpError("a batch was refused, and with acks=0 there is no response that could say so")
        if self.scripted is None or self.request.acks == 0:
            self.done(None)
            return
        leaders = {
            response.current_leader.leader_id
            for topic in self._responses
            for response in topic.partition_responses
            if response.current_leader.leader_id >= 0
        }
        for topic in self._responses:
            topic.partition_responses.reverse()
        self.done(
            ProduceResponse(
                responses=self._responses[::-1],  # a broker keeps no order
                throttle_time_ms=self.throttle_ms,
                node_endpoints=[
                    NodeEndpoint(node_id=leader, host=host, port=port)
                    for leader in sorted(leaders)
                    for host, port in [self.broker.cluster.address_of(leader)]
                ],
            )
        )


def _at(batch: RecordBatch, time_ms: int) -> RecordBatch:
    """Return the batch as a topic with LogAppendTime has it."""
    records = tuple(attrs.evolve(record, timestamp_ms=time_ms) for record in batch.records)
    return attrs.evolve(batch, records=records, max_timestamp=time_ms, log_append_time=True)


def _unknown(name: str, topic: SimulatedTopic | None) -> ErrorCode:
    """The error code for a topic or partition that does not exist; *name* is empty in a request with topic ids."""
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if name or topic is not None else ErrorCode.UNKNOWN_TOPIC_ID
