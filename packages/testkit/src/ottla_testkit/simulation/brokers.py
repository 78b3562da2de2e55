"""Simulated brokers that speak Kafka's protocol: ApiVersions, Metadata, Produce, transactions.

They follow the test's script: refuse, stay silent, respond with an error code. Produced batches are parsed and stored.
Topics can be deleted and created again, get partitions, refuse large batches, and lose the state of producers. Not
simulated are acks other than "response or none", followers, and the waiting of throttled brokers.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import attrs

from ottla.errors import ErrorCode
from ottla.interfaces import Compressor
from ottla.protocol import (
    API_VERSIONS,
    METADATA,
    PRODUCE,
    ApiVersion,
    ApiVersionsResponse,
    BatchIndexAndErrorMessage,
    FinalizedFeatureKey,
    LeaderIdAndEpoch,
    Message,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from ottla.protocol.messages.init_producer_id import INIT_PRODUCER_ID
from ottla.recordbatch.parse import Record, RecordBatch, parse_batches
from ottla_testkit.simulation.coordinator_requests import COORDINATING, coordinate
from ottla_testkit.simulation.login import Session, SimulatedLogin
from ottla_testkit.simulation.producers import PartitionProducers
from ottla_testkit.simulation.transactions import TransactionCoordinator

ALL: Sequence[Message[Any, Any]] = (PRODUCE, METADATA, API_VERSIONS, *COORDINATING)
MESSAGES: Mapping[int, Message[Any, Any]] = {m.key: m for m in ALL}


@attrs.frozen
class AfterAppend:
    """A code that is returned after the batch is written: by a leader that steps down or waits for its followers."""

    code: int


Scripted: TypeAlias = "int | AfterAppend | None"
"""A broker's action for a Produce request: a code to refuse it with before the append, or NONE to accept it.

An `AfterAppend` appends and returns its code; None appends and never responds.
"""

FIRST_THAT_ADDS = 12
"""From this version on, Produce adds partitions to the transaction (KIP-890)."""

FIRST_WITH_HINTS = 10


@attrs.define(kw_only=True)
class SimulatedTopic:
    """A topic: its id, and the leader and contents of each partition.

    A batch of more than `max_message_bytes` is refused.
    """

    name: str
    id: bytes
    leaders: list[int]
    epoch: int = 0
    max_message_bytes: int | None = None
    log: dict[int, list[Record]] = attrs.field(factory=dict)
    producers: dict[int, PartitionProducers] = attrs.field(factory=dict)
    undecided: dict[int, dict[int, list[int]]] = attrs.field(factory=dict)  # places in the log by producer id
    aborted: dict[int, set[int]] = attrs.field(factory=dict)

    def move_leader(self, partition: int, leader: int) -> None:
        """Make another broker the leader of a partition, in a new epoch."""
        self.leaders[partition] = leader
        self.epoch += 1

    def committed(self, partition: int) -> list[bytes | None]:
        """Return the values that a read_committed consumer gets, including those behind open transactions."""
        hidden = set(self.aborted.get(partition, ()))
        hidden.update(*self.undecided.get(partition, {}).values())
        log = self.log.get(partition, [])
        return [record.value for place, record in enumerate(log) if place not in hidden]

    def append(self, partition: int, batch: RecordBatch) -> tuple[ErrorCode, int]:
        """Append a batch unless its sequence number is refused; return the error code and the batch's base offset."""
        log = self.log.setdefault(partition, [])
        producers = self.producers.setdefault(partition, PartitionProducers())
        code, repeated = producers.judge(batch)
        if code is not ErrorCode.NONE or repeated is not None:
            return code, -1 if repeated is None else repeated
        base_offset = len(log)
        log.extend(batch.records)
        producers.append(batch, base_offset)
        if batch.transactional:
            places = self.undecided.setdefault(partition, {}).setdefault(batch.producer_id, [])
            places.extend(range(base_offset, len(log)))
        return ErrorCode.NONE, base_offset

    def mark(self, partition: int, producer_id: int, epoch: int, committed: bool) -> None:
        """Write the marker that ends a transaction."""
        places = self.undecided.get(partition, {}).pop(producer_id, [])
        if not committed:
            self.aborted.setdefault(partition, set()).update(places)
        self.producers.setdefault(partition, PartitionProducers()).mark(producer_id, epoch)


@attrs.define(kw_only=True, slots=False)
class SimulatedBroker:
    """One broker. `codes` are its actions for the next Produce requests, in turn; afterwards it accepts them.

    `errand_codes` has error codes for other requests, by name: the broker returns them and does nothing else.
    """

    cluster: SimulatedCluster
    id: int
    rack: str | None = None
    up: bool = True
    silent: bool = False
    codes: deque[Scripted] = attrs.field(factory=deque)
    errand_codes: dict[str, deque[ErrorCode]] = attrs.field(factory=dict)
    requests: list[tuple[str, int]] = attrs.field(factory=list)
    throttle_ms: int = 0
    produce_version: int = -1  # of the last Produce request
    hints: bool = False  # Produce responses name the leader (KIP-951)
    named_records: Mapping[int, str] = attrs.field(factory=dict)  # records that it names for INVALID_RECORD (KIP-467)
    magics: list[int] = attrs.field(factory=list)
    outdated_metadata: MetadataResponse | None = None
    """The metadata that it returns, if it has not got the newest yet."""
    login: SimulatedLogin | None = None
    versions: dict[int, tuple[int, int]] = attrs.field(
        factory=lambda: {
            m.key: (m.min_version, 5 if m is INIT_PRODUCER_ID else m.max_version) for m in MESSAGES.values()
        }
    )

    def converse(self, session: Session, frame: bytes, now: float) -> bytes | None:
        """Return the response to a request on a connection that may require a login first. Raises HangUpError."""
        if self.login is None or not self.login.belongs(session, frame, now):
            return self.answer(frame)
        return self.login.answer(session, frame, now)

    def require(self, login: SimulatedLogin) -> None:
        """Require this login from now on."""
        self.login = login
        self.versions.update(login.versions())

    def answer(self, frame: bytes) -> bytes | None:
        """Return the response without its length field, or None if there is no response."""
        api_key, version, correlation_id, client_size = struct.unpack_from(">hhih", frame)
        message = MESSAGES[api_key]
        self.requests.append((message.name, version))
        if self.silent:
            return None
        body = frame[10 + client_size + message.flexible(version) :]
        prefix: bytes = correlation_id.to_bytes(4, "big")
        low, high = self.versions[message.key]
        if message is API_VERSIONS:
            if not low <= version <= high:
                return prefix + API_VERSIONS.response(0).encode(_unknown_version(low, high))
            return prefix + API_VERSIONS.response(version).encode(self._api_versions())
        assert low <= version <= high, "a real broker would cut the connection"
        if message is METADATA:
            tags = bytes(message.flexible(version))
            asked = METADATA.request(version).decode(body).topics or ()
            names = [topic.name for topic in asked if topic.name]
            metadata = self.outdated_metadata or self.cluster.answer_metadata(names)
            return prefix + tags + METADATA.response(version).encode(metadata)
        if message in COORDINATING:
            codes = self.errand_codes.get(message.name)
            code = codes.popleft() if codes else ErrorCode.NONE
            content = coordinate(
                self.cluster.transactions,
                message,
                message.request(version).decode(body),
                version=version,
                node=self.id,
                coordinates=self.cluster.coordinates,
                code=code,
            )
            tags = bytes(message.flexible(version))
            return prefix + tags + message.response(version).encode(content)
        self.produce_version = version
        request = PRODUCE.request(version).decode(body)
        response = self._produce(request)
        if response is None or request.acks == 0:
            return None
        tags = bytes(message.flexible(version))
        return prefix + tags + PRODUCE.response(version).encode(response)

    @property
    def _gives_hints(self) -> bool:
        return self.hints and self.produce_version >= FIRST_WITH_HINTS

    def _api_versions(self) -> ApiVersionsResponse:
        return ApiVersionsResponse(
            api_keys=[
                ApiVersion(api_key=key, min_version=low, max_version=high) for key, (low, high) in self.versions.items()
            ],
            finalized_features_epoch=self.cluster.features_epoch,
            finalized_features=[
                FinalizedFeatureKey(
                    name="transaction.version",
                    max_version_level=self.cluster.transaction_version,
                    min_version_level=self.cluster.transaction_version,
                )
            ],
        )

    def _produce(self, request: ProduceRequest) -> ProduceResponse | None:
        scripted = self.codes.popleft() if self.codes else ErrorCode.NONE
        responses = []
        for topic_data in request.topic_data:
            topic = self.cluster.find_topic(topic_data.name, topic_data.topic_id)
            partitions = [
                PartitionProduceResponse(index=data.index, error_code=_unknown(topic_data.name), base_offset=-1)
                if topic is None or data.index >= len(topic.leaders)
                else self._partition_answer(
                    topic, data.index, *self._take(topic, data, request.transactional_id, scripted=scripted)
                )
                for data in topic_data.partition_data
            ]
            responses.append(
                TopicProduceResponse(name=topic_data.name, topic_id=topic_data.topic_id, partition_responses=partitions)
            )
        nodes = [NodeEndpoint(node_id=b.id, host=f"broker-{b.id}", port=9092) for b in self.cluster.brokers.values()]
        if scripted is None:
            return None
        return ProduceResponse(
            responses=responses, throttle_time_ms=self.throttle_ms, node_endpoints=nodes if self._gives_hints else []
        )

    def _take(
        self, topic: SimulatedTopic, data: PartitionProduceData, transactional_id: str | None, *, scripted: Scripted
    ) -> tuple[int, int]:
        """Append a partition's batches; return the error code and the base offset."""
        base_offset = -1
        records = data.records or b""
        for batch in parse_batches(records, compressors=self.cluster.compressors):
            self.magics.append(batch.magic)
            refusal, offset = self._refusal(topic, data.index, len(records), scripted), -1
            if refusal is ErrorCode.NONE:
                refusal = self._admit(transactional_id, (topic.name, data.index), batch)
            if refusal is ErrorCode.NONE:
                refusal, offset = topic.append(data.index, batch)
                base_offset = offset if base_offset < 0 else base_offset
            self.cluster.on_batch(topic, data.index, batch, refusal, offset)
            if refusal != ErrorCode.NONE:
                return refusal, -1
        return (scripted.code, -1) if isinstance(scripted, AfterAppend) else (ErrorCode.NONE, base_offset)

    def _refusal(self, topic: SimulatedTopic, partition: int, size: int, scripted: Scripted) -> int:
        """Return the code of the checks that come before those of the producer, NONE if they pass."""
        if isinstance(scripted, int) and scripted != ErrorCode.NONE:
            return scripted
        if topic.leaders[partition] != self.id:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        too_large = topic.max_message_bytes is not None and size > topic.max_message_bytes
        return ErrorCode.MESSAGE_TOO_LARGE if too_large else ErrorCode.NONE

    def _partition_answer(
        self, topic: SimulatedTopic, partition: int, code: int, base_offset: int
    ) -> PartitionProduceResponse:
        response = self._gives_hints and code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        hint = LeaderIdAndEpoch(leader_id=topic.leaders[partition], leader_epoch=topic.epoch)
        return PartitionProduceResponse(
            index=partition,
            error_code=code,
            base_offset=base_offset,
            current_leader=hint if response else LeaderIdAndEpoch(),
            record_errors=[
                BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=message)
                for index, message in self.named_records.items()
                if code == ErrorCode.INVALID_RECORD
            ],
        )

    def _admit(self, transactional_id: str | None, partition: tuple[str, int], batch: RecordBatch) -> ErrorCode:
        """Return NONE if the open transaction may write to this partition, otherwise the error code."""
        if not batch.transactional:
            return ErrorCode.NONE
        coordinator = self.cluster.transactions
        check = coordinator.add if self.produce_version >= FIRST_THAT_ADDS else coordinator.is_member
        code = check(transactional_id or "", batch.producer_id, batch.epoch, partition)
        return ErrorCode.INVALID_PRODUCER_EPOCH if code is ErrorCode.PRODUCER_FENCED else code


def _unknown(name: str) -> ErrorCode:
    """The error code for a topic or partition that does not exist; *name* is empty in a request with topic ids."""
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if name else ErrorCode.UNKNOWN_TOPIC_ID


def _unknown_version(low: int, high: int) -> ApiVersionsResponse:
    """Refuse a version of ApiVersions; brokers that know version 3 return the supported ones (KIP-511)."""
    own = [ApiVersion(api_key=API_VERSIONS.key, min_version=low, max_version=high)] if high >= 3 else []
    return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=own)


@attrs.define
class SimulatedCluster:
    """Brokers with ids from 1, and topics."""

    brokers: dict[int, SimulatedBroker] = attrs.field(factory=dict)
    topics: dict[str, SimulatedTopic] = attrs.field(factory=dict)
    seed: int | None = None  # the broker behind the bootstrap server's name; None: the first
    metadata_code: ErrorCode = ErrorCode.NONE
    unlisted: set[int] = attrs.field(factory=set)  # brokers that metadata leaves out: fenced, or about to shut down
    address: tuple[str, int] | None = None  # what every broker advertises; None: a name of its own
    transaction_version: int = 2
    features_epoch: int = 1
    coordinator: int | None = None  # the broker that coordinates all transactions and groups; None: the first
    compressors: Mapping[int, Compressor] = attrs.field(factory=dict)
    """The codecs of compressed batches that the brokers read, by Kafka's number."""
    deleted: list[SimulatedTopic] = attrs.field(factory=list)
    """Topics that no longer exist, with what was written to them."""
    on_batch: Callable[[SimulatedTopic, int, RecordBatch, int, int], object] = lambda *_given: None
    """Called for each batch that arrives at a broker: topic, partition, batch, error code, base offset or -1."""
    transactions: TransactionCoordinator = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.transactions = TransactionCoordinator(
            lambda partition, producer_id, epoch, committed: self.topics[partition[0]].mark(
                partition[1], producer_id, epoch, committed
            )
        )

    @property
    def coordinates(self) -> int:
        """The broker that coordinates transactions and groups."""
        return next(iter(self.brokers)) if self.coordinator is None else self.coordinator

    @classmethod
    def of(cls, *ids: int) -> SimulatedCluster:
        cluster = cls()
        cluster.brokers = {node: SimulatedBroker(cluster=cluster, id=node) for node in ids}
        return cluster

    def create(self, name: str, *leaders: int) -> SimulatedTopic:
        number = len(self.topics) + len(self.deleted) + 1
        topic = SimulatedTopic(name=name, id=bytes([number]) * 16, leaders=list(leaders))
        self.topics[name] = topic
        return topic

    def delete(self, name: str) -> SimulatedTopic:
        """Delete a topic; `create` makes one of the same name, with another id."""
        topic = self.topics.pop(name)
        self.deleted.append(topic)
        return topic

    def find_topic(self, name: str, topic_id: bytes) -> SimulatedTopic | None:
        """Return a topic by its name or, if that is empty, by its id; None: it does not exist."""
        if name:
            return self.topics.get(name)
        return next((topic for topic in self.topics.values() if topic.id == topic_id), None)

    def answer_metadata(self, asked: Sequence[str]) -> MetadataResponse:
        """Return the metadata of all topics, and an error for each topic that was *asked* for and does not exist."""
        response = self.metadata()
        response.topics += [
            MetadataResponseTopic(name=name, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            for name in asked
            if name not in self.topics
        ]
        return response

    def metadata(self) -> MetadataResponse:
        return MetadataResponse(
            error_code=self.metadata_code,
            brokers=[
                MetadataResponseBroker(node_id=b.id, host=host, port=port, rack=b.rack)
                for b in self.brokers.values()
                if b.up and b.id not in self.unlisted
                for host, port in [self.address or (f"broker-{b.id}", 9092)]
            ],
            topics=[
                MetadataResponseTopic(
                    name=topic.name,
                    topic_id=topic.id,
                    partitions=[
                        MetadataResponsePartition(partition_index=p, leader_id=leader, leader_epoch=topic.epoch)
                        for p, leader in enumerate(topic.leaders)
                    ],
                )
                for topic in self.topics.values()
            ],
        )
