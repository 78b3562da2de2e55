"""A network and brokers that exist only in a test: no sockets, no threads, no time but the test's own.

`SimulatedNetwork` is a `Selectable`; `SimulatedBroker` speaks Kafka's bytes: ApiVersions, Metadata, Produce. Both do
what the test scripted: refuse, cut, stay silent, answer with an error code. What is produced is parsed and kept.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from ottla.errors import ConnectionFailed, ErrorCode, NameResolutionFailed, NetworkError, OttlaError, WrongProtocol
from ottla.interfaces import Buffer, Target
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
from ottla.selectable import Address
from ottla_testkit.manual_clock import ManualClock

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
    versions: dict[int, tuple[int, int]] = attrs.field(
        factory=lambda: {m.key: (m.min_version, m.max_version) for m in MESSAGES.values()}
    )

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
                MetadataResponseBroker(node_id=b.id, host=f"broker-{b.id}", port=9092)
                for b in self.brokers.values()
                if b.up
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


@attrs.define
class _Link:
    broker: SimulatedBroker
    answers: deque[bytes] = attrs.field(factory=deque)


class SimulatedNetwork:
    """Moves frames between a client and simulated brokers, one step for each poll; a wait moves the clock."""

    def __init__(self, cluster: SimulatedCluster, clock: ManualClock) -> None:
        self.cluster = cluster
        self.clock = clock
        self.unresolvable: set[str] = set()
        self.strangers: set[str] = set()
        self.refusing: set[str] = set()
        self.slow_names: set[str] = set()
        self.black_holes: set[str] = set()
        self.waits: list[float] = []
        self.wakeups = 0
        self._links: dict[int, _Link] = {}
        self._connecting: dict[int, SimulatedBroker | None] = {}
        self._outbox: dict[int, bytes] = {}
        self._to_close: dict[int, OttlaError] = {}
        self._woken = False
        self.connected: Sequence[int] = ()
        self.sent: Sequence[int] = ()
        self.received: Sequence[tuple[int, memoryview]] = ()
        self.disconnected: Mapping[int, OttlaError] = {}

    def cut(self, broker: int) -> None:
        """Lose every connection to a broker."""
        for node, link in self._links.items():
            if link.broker.id == broker:
                self._to_close[node] = ConnectionFailed(f"broker {broker} closed the connection")

    def resolve(self, host: str, port: int, *, canonical: bool = False) -> Sequence[Address] | None:
        if host in self.slow_names:
            return None
        if host in self.unresolvable:
            raise NameResolutionFailed(f"the name {host!r} has no address", final=True)
        return [Address(host=host, target=Target(0, host))]

    def connect(self, node: int, target: Target, host: str, port: int) -> None:
        assert node not in self._links
        assert node not in self._connecting
        if host in self.black_holes:
            self._connecting[node] = None
            return
        brokers = self.cluster.brokers
        node_id = int(host.removeprefix("broker-")) if host.startswith("broker-") else self.cluster.seed
        broker = next(iter(brokers.values())) if node_id is None else brokers[node_id]
        if host in self.strangers:
            self._to_close[node] = WrongProtocol(f"{host}:{port} answered with a TLS alert")
        elif broker.up and host not in self.refusing:
            self._connecting[node] = broker
        else:
            self._to_close[node] = ConnectionFailed(f"could not connect to {host}:{port}: ECONNREFUSED")

    def send(self, node: int, chunks: Sequence[Buffer]) -> None:
        assert node in self._links
        assert node not in self._outbox, "one send at a time"
        frame = b"".join(chunks)
        assert len(frame) - 4 == int.from_bytes(frame[:4], "big")
        self._outbox[node] = frame[4:]

    def close(self, node: int, reason: NetworkError) -> None:
        self._to_close[node] = reason

    def poll(self, timeout: float) -> None:
        self.connected, self.sent, self.received, self.disconnected = [], [], [], {}
        for node, link in self._links.items():
            if not link.broker.up:
                self._to_close.setdefault(node, ConnectionFailed(f"broker {link.broker.id} closed the connection"))
        lost, self._to_close = self._to_close, {}
        for node in lost:
            for table in (self._links, self._connecting, self._outbox):
                table.pop(node, None)
        self.disconnected = lost
        self.sent = list(self._outbox)
        for node in self.sent:
            link = self._links[node]
            answer = link.broker.answer(self._outbox.pop(node))
            if answer is not None:
                link.answers.append(answer)
        self.connected = [node for node, broker in self._connecting.items() if broker is not None]
        for node in self.connected:
            broker = self._connecting.pop(node)
            assert broker is not None
            self._links[node] = _Link(broker)
        self.received = [
            (node, memoryview(link.answers.popleft())) for node, link in self._links.items() if link.answers
        ]
        if not (self.disconnected or self.sent or self.connected or self.received or self._woken):
            assert timeout < 1e8, "nothing would ever end this wait"
            self.waits.append(timeout)
            self.clock.advance(timeout)
        self._woken = False

    def wakeup(self) -> None:
        self._woken = True
        self.wakeups += 1

    def shutdown(self) -> None:
        self._links.clear()
