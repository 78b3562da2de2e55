"""Brokers that exist only in a test and speak Kafka's bytes: ApiVersions, Metadata, Produce.

They do what the test scripted: refuse, stay silent, answer with an error code. What is produced is parsed and kept.
What they leave out: acks other than "answer or not", quotas, idempotence, transactions, sizes of topics.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Mapping
from typing import Any

import attrs

from ottla.errors import ErrorCode
from ottla.protocol import (
    API_VERSIONS,
    METADATA,
    PRODUCE,
    ApiVersion,
    ApiVersionsResponse,
    LeaderIdAndEpoch,
    Message,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from ottla.recordbatch.parse import Record, parse_batches
from ottla_testkit.simulation.login import Session, SimulatedLogin

MESSAGES: Mapping[int, Message[Any, Any]] = {m.key: m for m in (PRODUCE, METADATA, API_VERSIONS)}


@attrs.define(kw_only=True)
class SimulatedTopic:
    """A topic: its id, the leader of each partition, what each partition holds."""

    name: str
    id: bytes
    leaders: list[int]
    epoch: int = 0
    log: dict[int, list[Record]] = attrs.field(factory=dict)


@attrs.define(kw_only=True, slots=False)
class SimulatedBroker:
    """One broker. `codes` are answered to Produce one after the other, then NONE; None: no answer at all."""

    cluster: SimulatedCluster
    id: int
    up: bool = True
    silent: bool = False
    codes: deque[ErrorCode | None] = attrs.field(factory=deque)
    requests: list[tuple[str, int]] = attrs.field(factory=list)
    throttle_ms: int = 0
    hints: bool = False  # say in Produce answers who leads (KIP-951)
    magics: list[int] = attrs.field(factory=list)
    login: SimulatedLogin | None = None
    versions: dict[int, tuple[int, int]] = attrs.field(
        factory=lambda: {m.key: (m.min_version, m.max_version) for m in MESSAGES.values()}
    )

    def converse(self, session: Session, frame: bytes, now: float) -> bytes | None:
        """As `answer`, on a connection that wants a login first where the broker has one. Raises HangUp."""
        if self.login is None or not self.login.belongs(session, frame, now):
            return self.answer(frame)
        return self.login.answer(session, frame, now)

    def require(self, login: SimulatedLogin) -> None:
        """Let in from now on who logs in."""
        self.login = login
        self.versions.update(login.versions())

    def answer(self, frame: bytes) -> bytes | None:
        """The framed answer's content, or None when there is none."""
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
                return prefix + API_VERSIONS.response(0).encode(
                    ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
                )
            return prefix + API_VERSIONS.response(version).encode(self._api_versions())
        assert low <= version <= high, "a real broker would cut the connection"
        if message is METADATA:
            tags = bytes(message.flexible(version))
            return prefix + tags + METADATA.response(version).encode(self.cluster.metadata())
        request = PRODUCE.request(version).decode(body)
        response = self._produce(request)
        if response is None or request.acks == 0:
            return None
        tags = bytes(message.flexible(version))
        return prefix + tags + PRODUCE.response(version).encode(response)

    def _api_versions(self) -> ApiVersionsResponse:
        return ApiVersionsResponse(
            api_keys=[
                ApiVersion(api_key=key, min_version=low, max_version=high) for key, (low, high) in self.versions.items()
            ]
        )

    def _produce(self, request: ProduceRequest) -> ProduceResponse | None:
        code = self.codes.popleft() if self.codes else ErrorCode.NONE
        responses = []
        for topic_data in request.topic_data:
            topic = self.cluster.topic(topic_data.name, topic_data.topic_id)
            partitions = []
            for data in topic_data.partition_data:
                answered = code
                if answered is ErrorCode.NONE and topic.leaders[data.index] != self.id:
                    answered = ErrorCode.NOT_LEADER_OR_FOLLOWER
                log = topic.log.setdefault(data.index, [])
                base_offset = -1
                if answered in (ErrorCode.NONE, None):
                    base_offset = len(log)
                    for batch in parse_batches(data.records or b"", compressors={}):
                        self.magics.append(batch.magic)
                        log.extend(batch.records)
                told = self.hints and answered is ErrorCode.NOT_LEADER_OR_FOLLOWER
                hint = LeaderIdAndEpoch(leader_id=topic.leaders[data.index], leader_epoch=topic.epoch)
                partitions.append(
                    PartitionProduceResponse(
                        index=data.index,
                        error_code=answered or ErrorCode.NONE,
                        base_offset=base_offset,
                        current_leader=hint if told else LeaderIdAndEpoch(),
                    )
                )
            responses.append(
                TopicProduceResponse(name=topic_data.name, topic_id=topic_data.topic_id, partition_responses=partitions)
            )
        nodes = [NodeEndpoint(node_id=b.id, host=f"broker-{b.id}", port=9092) for b in self.cluster.brokers.values()]
        if code is None:
            return None
        return ProduceResponse(
            responses=responses, throttle_time_ms=self.throttle_ms, node_endpoints=nodes if self.hints else []
        )


@attrs.define
class SimulatedCluster:
    """Brokers with ids from 1, and topics."""

    brokers: dict[int, SimulatedBroker] = attrs.field(factory=dict)
    topics: dict[str, SimulatedTopic] = attrs.field(factory=dict)
    seed: int | None = None  # the broker behind the bootstrap server's name; None: the first
    metadata_code: ErrorCode = ErrorCode.NONE
    address: tuple[str, int] | None = None  # what every broker advertises; None: a name of its own

    @classmethod
    def of(cls, *ids: int) -> SimulatedCluster:
        cluster = cls()
        cluster.brokers = {node: SimulatedBroker(cluster=cluster, id=node) for node in ids}
        return cluster

    def create(self, name: str, *leaders: int) -> SimulatedTopic:
        topic = SimulatedTopic(name=name, id=bytes([len(self.topics) + 1]) * 16, leaders=list(leaders))
        self.topics[name] = topic
        return topic

    def topic(self, name: str, topic_id: bytes) -> SimulatedTopic:
        return self.topics[name] if name else next(t for t in self.topics.values() if t.id == topic_id)

    def metadata(self) -> MetadataResponse:
        return MetadataResponse(
            error_code=self.metadata_code,
            brokers=[
                MetadataResponseBroker(node_id=b.id, host=host, port=port)
                for b in self.brokers.values()
                if b.up
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
