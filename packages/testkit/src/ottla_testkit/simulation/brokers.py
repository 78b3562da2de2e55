"""Simulated brokers that speak Kafka's protocol: ApiVersions, Metadata, Produce, transactions, telemetry.

They follow the test's script: refuse, stay silent, respond with an error code. Produced batches are parsed and stored.
Topics can be deleted and created again, get partitions, refuse large batches, and lose the state of producers.
"""

from __future__ import annotations

import re
import struct
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from hashlib import blake2b
from typing import Any, NoReturn

import attrs

from ottla.errors import CorruptBatchError, ErrorCode, ProtocolError, UnsupportedVersionError
from ottla.interfaces import Compressor
from ottla.protocol import (
    API_VERSIONS,
    METADATA,
    PRODUCE,
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    Message,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
    ProduceRequest,
    ProduceResponse,
)
from ottla.protocol.messages.find_coordinator import FIND_COORDINATOR
from ottla.protocol.messages.init_producer_id import INIT_PRODUCER_ID
from ottla.protocol.messages.txn_offset_commit import TXN_OFFSET_COMMIT
from ottla_testkit.simulation.controller import Controller
from ottla_testkit.simulation.coordinator_requests import COORDINATING, coordinate, has_succeeded, transactional_ids
from ottla_testkit.simulation.groups import SimulatedGroup
from ottla_testkit.simulation.login import HangUpError, Session, SimulatedLogin
from ottla_testkit.simulation.outdated_coordinator import OutdatedCoordinator
from ottla_testkit.simulation.pending_response import KnownResponse, PendingResponse, Response
from ottla_testkit.simulation.produce_requests import BatchArrival, ProduceAnswer, Scripted
from ottla_testkit.simulation.replicated_partition import NO_LEADER, replicate
from ottla_testkit.simulation.telemetry import TELEMETRY, SimulatedTelemetry
from ottla_testkit.simulation.topics import SimulatedTopic
from ottla_testkit.simulation.transactions import TXN_V2, TransactionCoordinator

ALL: Sequence[Message[Any, Any]] = (PRODUCE, METADATA, API_VERSIONS, *COORDINATING)
MESSAGES: Mapping[int, Message[Any, Any]] = {m.key: m for m in ALL}
UNKNOWN_TOPIC = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
FIRST_WITH_SOFTWARE = 3
_HEADER = 10
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_READ: Mapping[int, Message[Any, Any]] = {m.key: m for m in (*ALL, *TELEMETRY)}


@attrs.define(kw_only=True, slots=False)
class SimulatedBroker:
    """One broker. `codes` are its actions for the next Produce requests, in turn; afterwards it accepts them.

    `errors_by_request` has error codes for other requests, by name: the broker returns them and does nothing else.
    """

    cluster: SimulatedCluster
    id: int
    rack: str | None = None
    up: bool = True
    address: tuple[str, int] | None = None
    """What it advertises, by default the cluster's `address`."""
    silent: bool = False
    codes: deque[Scripted] = attrs.field(factory=deque)
    errors_by_request: dict[str, deque[ErrorCode]] = attrs.field(factory=dict)
    requests: list[tuple[str, int]] = attrs.field(factory=list)
    throttle_ms: int = 0
    """The time of Produce responses in which a client should send nothing."""
    mutes: bool = False
    """Whether the broker reads nothing from a connection that it throttles, as Kafka's do."""
    quota: float | None = None
    """Bytes per second of Produce requests, in addition, or None for no limit."""
    produce_version: int = -1
    """That of the last Produce request."""
    hints: bool = False
    """Whether Produce responses name the leader (KIP-951)."""
    named_records: Mapping[int, str] = attrs.field(factory=dict)
    """The records that it names for INVALID_RECORD (KIP-467)."""
    magics: list[int] = attrs.field(factory=list)
    outdated_metadata: MetadataResponse | None = None
    """The metadata that it returns, if it has not got the newest yet."""
    outdated_features: tuple[int, int] | None = None
    """The level of `transaction.version` and the epoch of features that it knows, if it has not got the newest yet."""
    login: SimulatedLogin | None = None
    telemetry: bool = True
    """Whether the broker offers telemetry requests, if the cluster collects metrics."""
    hang_ups: int = 0
    """Connections that the broker has closed because of an unexpected request, as one after a session's end."""
    misunderstood: list[str] = attrs.field(factory=list)
    """Requests that the broker cannot read, or in versions that it does not offer: it closes their connections."""
    muted_until: float = 0.0
    """When the broker reads again from all connections that it has throttled: perhaps after the end of its quota."""
    versions: dict[int, tuple[int, int]] = attrs.field(
        factory=lambda: {m.key: (m.min_version, 5 if m is INIT_PRODUCER_ID else m.max_version) for m in ALL}
    )

    @property
    def features(self) -> tuple[int, int]:
        """The level of `transaction.version` that it knows, and the epoch of features."""
        return self.outdated_features or (self.cluster.transaction_version, self.cluster.features_epoch)

    def _misunderstand(self, what: str) -> NoReturn:
        self.misunderstood.append(what)
        raise HangUpError(what)

    def respond(self, session: Session, frame: bytes, now: float) -> Response:
        """Return the response to a request on a connection that may require a login first. Raises HangUpError."""
        if self.login is None or not self.login.belongs(session, frame, now):
            return self.answer(frame)
        return KnownResponse(self.login.answer(session, frame, now))

    def take_late(self, frame: bytes) -> None:
        """Take a request of a connection that has ended: nothing reads a response, and there is nothing to close."""
        if self.up:
            with suppress(HangUpError):
                self.answer(frame)

    def require(self, login: SimulatedLogin) -> None:
        """Require this login from now on."""
        self.login = login
        self.versions.update(login.versions())

    def answer(self, frame: bytes) -> Response:
        """Return the response to a request that needs no login, or after it. Raises HangUpError."""
        try:
            return self._answer(frame)
        except (ProtocolError, UnsupportedVersionError) as error:
            self._misunderstand(str(error))

    def _answer(self, frame: bytes) -> Response:
        if len(frame) < _HEADER:
            self._misunderstand("a request that ends in its header")
        api_key, version, correlation_id, client_size = struct.unpack_from(">hhih", frame)
        if api_key not in _READ:
            self._misunderstand(f"a request with the key {api_key}")
        message = _READ[api_key]
        self.requests.append((message.name, version))
        if self.silent:
            return KnownResponse()
        body = frame[_HEADER + max(client_size, 0) + message.flexible(version) :]
        prefix: bytes = correlation_id.to_bytes(4, "big")
        tags = bytes(message.flexible(version))
        telemetry = self.cluster.telemetry
        if message in TELEMETRY and telemetry is not None:
            content = telemetry.answer(message, message.request(version).decode(body))
            return KnownResponse(prefix + tags + message.response(version).encode(content))
        if message.key not in self.versions:
            self._misunderstand(f"{message.name}, which the broker does not offer")
        if message is API_VERSIONS:
            return KnownResponse(prefix + self._negotiate(body, version))
        low, high = self.versions[message.key]
        if not low <= version <= high:
            self._misunderstand(f"{message.name} {version}, and the broker supports {low} to {high}")
        request = message.request(version).decode(body)
        if message is PRODUCE:
            self.produce_version = version
            return self._produce(request, version, prefix + tags)
        content = (
            self._metadata(request, version) if message is METADATA else self._coordinate(message, request, version)
        )
        return KnownResponse(prefix + tags + message.response(version).encode(content))

    def _negotiate(self, body: bytes, version: int) -> bytes:
        """Return the response to ApiVersions, whose header never has tags."""
        low, high = self.versions[API_VERSIONS.key]
        if not low <= version <= high:
            return API_VERSIONS.response(0).encode(_unknown_version(low, high))
        code = _software_code(API_VERSIONS.request(version).decode(body), version)
        versions = ApiVersionsResponse(error_code=code) if code else self._api_versions()
        return API_VERSIONS.response(version).encode(versions)

    def _metadata(self, request: MetadataRequest, version: int) -> MetadataResponse:
        asked = request.topics
        if version == 0:  # which has no null
            asked = asked or None
        metadata = self.outdated_metadata or self.cluster.answer_metadata(broker=self.id)
        return self.cluster.asked_for(metadata, asked)

    def _coordinate(self, message: Message[Any, Any], request: Any, version: int) -> Any:
        codes = self.errors_by_request.get(message.name)
        code = codes.popleft() if codes else ErrorCode.NONE
        loads = self.cluster.coordinator_loads and self.id == self.cluster.coordinates
        if loads and message is not FIND_COORDINATOR and any(transactional_ids(request)):
            code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        if not self.cluster.denied_ids.isdisjoint(transactional_ids(request)):
            code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        of_groups = self.cluster.group_coordinator
        if message is TXN_OFFSET_COMMIT and of_groups is not None and not self.cluster.coordinator_serves:
            code = code or ErrorCode.COORDINATOR_NOT_AVAILABLE  # it cannot verify the transaction
        answer = partial(
            coordinate,
            message=message,
            request=request,
            version=version,
            node=self.id,
            coordinates=self.cluster.coordinates,
            address=self.cluster.address_of(self.cluster.coordinates),
            of_groups=None if of_groups is None else (of_groups, self.cluster.address_of(of_groups)),
            partitions=self.cluster.sources | {name: len(t.leaders) for name, t in self.cluster.topics.items()},
            groups=self.cluster.groups,
        )
        outdated = self.cluster.outdated.get(self.id)
        name = next(filter(None, transactional_ids(request)), None)
        if outdated is not None and self.id != self.cluster.coordinates and name is not None:
            here = partial(answer, coordinates=self.id, address=self.cluster.address_of(self.id))
            return outdated.answer(message, name, lambda known, found: here(known, code=code or found))
        content = answer(self.cluster.transactions, code=code)
        unconfirmed = self.cluster.unconfirmed
        if code is ErrorCode.NONE and message.name in unconfirmed and has_succeeded(content):
            code, self.cluster.coordinator = unconfirmed.pop(message.name)
            return answer(self.cluster.transactions, code=code)
        return content

    def _produce(self, request: ProduceRequest, version: int, prefix: bytes) -> Response:
        """Return the response to Produce, which waits until the followers have the batches."""
        pending = PendingResponse()
        encode = PRODUCE.response(version).encode
        scripted = self.codes.popleft() if self.codes else ErrorCode.NONE

        def done(response: ProduceResponse | None) -> None:
            muted_seconds = response.throttle_time_ms / 1000 if response is not None and self.mutes else 0.0
            edited = None if response is None else self.edit(request, response)
            content = None if edited is None else prefix + encode(edited)
            pending.give(KnownResponse(content, muted_seconds=muted_seconds))

        ProduceAnswer(self, request, scripted, version, done).begin()
        return pending if pending.known is None else pending.known

    def edit(self, request: ProduceRequest, response: ProduceResponse) -> ProduceResponse | None:
        """Return the response to send, None for none; a test may override it."""
        return response

    def _api_versions(self) -> ApiVersionsResponse:
        offered = dict(self.versions)
        if self.cluster.telemetry is not None and self.telemetry:
            offered.update((each.key, (each.min_version, each.max_version)) for each in TELEMETRY)
        level, epoch = self.features
        return ApiVersionsResponse(
            api_keys=[
                ApiVersion(api_key=key, min_version=low, max_version=high) for key, (low, high) in offered.items()
            ],
            finalized_features_epoch=epoch,
            finalized_features=[
                FinalizedFeatureKey(name="transaction.version", max_version_level=level, min_version_level=level)
            ],
        )


def _software_code(request: ApiVersionsRequest, version: int) -> ErrorCode:
    """Return the code of the checks of a client's name and version."""
    if version < FIRST_WITH_SOFTWARE:
        return ErrorCode.NONE
    texts = (request.client_software_name, request.client_software_version)
    return ErrorCode.NONE if all(map(_SOFTWARE.fullmatch, texts)) else ErrorCode.INVALID_REQUEST


def _unknown_version(low: int, high: int) -> ApiVersionsResponse:
    """Refuse a version of ApiVersions.

    Brokers that know version 3 return the versions of ApiVersions that they support (KIP-511).
    """
    own = [ApiVersion(api_key=API_VERSIONS.key, min_version=low, max_version=high)] if high >= 3 else []
    return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=own)


@attrs.define
class SimulatedCluster:
    """Brokers with ids from 1, and topics."""

    brokers: dict[int, SimulatedBroker] = attrs.field(factory=dict)
    id: str | None = "simulated cluster"
    """None: as before Kafka 0.10.1."""
    topics: dict[str, SimulatedTopic] = attrs.field(factory=dict)
    seed: int | None = None
    """The broker behind the bootstrap server's name, by default the first."""
    metadata_code: ErrorCode = ErrorCode.NONE
    unlisted: set[int] = attrs.field(factory=set)
    """Brokers that metadata leaves out: fenced, or about to shut down."""
    address: tuple[str, int] | None = None
    """What every broker advertises, if it has no own address."""
    transaction_version: int = 2
    features_epoch: int = 1
    coordinator: int | None = None
    """The broker that coordinates all transactions and groups, by default the first."""
    group_coordinator: int | None = None
    """The broker that coordinates groups, if it is another one."""
    coordinator_loads: bool = False
    """Whether the coordinator has not loaded its state yet."""
    unconfirmed: dict[str, tuple[ErrorCode, int]] = attrs.field(factory=dict)
    """The code and the next coordinator, by the name of a request of transactions.

    The log of transactions has the next such request, but its followers do not confirm it in time. So it is answered
    with this code, and the next coordinator, which reads it there, has carried it out.
    """
    outdated: dict[int, OutdatedCoordinator] = attrs.field(factory=dict)
    """What brokers know of transactions that do not know yet that they are not the coordinator any more."""
    refused_by_outdated: int = 0
    """How often those have refused what the coordinator would perhaps accept."""
    taken_after_close: set[int] = attrs.field(factory=set)
    """The keys of requests that brokers have read from connections that the client had closed."""
    denied_topics: set[str] = attrs.field(factory=set)
    """Topics that the client may neither describe nor write."""
    denied_ids: set[str] = attrs.field(factory=set)
    """Transactional ids that the client may not use."""
    compressors: Mapping[int, Compressor] = attrs.field(factory=dict)
    """The codecs of compressed batches that the brokers read, by Kafka's number."""
    sources: dict[str, int] = attrs.field(factory=dict)
    """The numbers of partitions of topics that programs only read, and whose offsets they commit in transactions."""
    groups: dict[str, SimulatedGroup] = attrs.field(factory=dict)
    """The consumer groups that have members, or have had some."""
    deleted: list[SimulatedTopic] = attrs.field(factory=list)
    """Topics that no longer exist, with what was written to them."""
    foreign: list[SimulatedCluster] = attrs.field(factory=list)
    """Other clusters to which an address of a broker has led."""
    corrupt: list[CorruptBatchError] = attrs.field(factory=list)
    """Why brokers have refused bytes that are not a record batch."""
    telemetry: SimulatedTelemetry | None = None
    """What brokers want of clients' metrics, or None if they do not collect any."""
    wall_clock: Callable[[], float] = lambda: 0.0
    """The time of brokers, in seconds since 1970; in a simulation, that of its clock."""
    older_logs: bool = False
    """Whether brokers forget a producer with its records, and refuse its next batch with UNKNOWN_PRODUCER_ID.

    So did those before Kafka 2.4.
    """
    on_batch: Callable[[BatchArrival], object] = lambda _arrival: None
    """Called for each batch that arrives at a broker."""
    transactions: TransactionCoordinator = attrs.field(init=False)
    controller: Controller = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.controller = Controller(is_up=lambda broker: self.brokers[broker].up)
        self.transactions = TransactionCoordinator(
            self._mark,
            self.controller.later,
            serves=lambda: self.coordinator_serves and self.coordinates not in self.controller.frozen,
            bumps=lambda: self.brokers[self.coordinates].features[0] >= TXN_V2,
        )

    def _mark(self, partition: tuple[str, int], producer_id: int, epoch: int, committed: bool) -> None:
        """Write a marker, unless the partition was deleted with its topic: a coordinator drops those."""
        topic = self.topics.get(partition[0])
        if topic is not None and partition[1] < len(topic.leaders):
            topic.mark(partition[1], producer_id, epoch, committed)

    @property
    def now_ms(self) -> int:
        """The time of brokers in ms."""
        return round(self.wall_clock() * 1000)

    @property
    def coordinates(self) -> int:
        """The broker that coordinates transactions and groups."""
        return next(iter(self.brokers)) if self.coordinator is None else self.coordinator

    @property
    def coordinator_serves(self) -> bool:
        """Whether the coordinator is up, and has loaded its state."""
        return not self.coordinator_loads and self.brokers[self.coordinates].up

    @classmethod
    def of(cls, *ids: int) -> SimulatedCluster:
        cluster = cls()
        cluster.brokers = {node: SimulatedBroker(cluster=cluster, id=node) for node in ids}
        return cluster

    def create(self, name: str, *leaders: int, min_insync: int | None = None) -> SimulatedTopic:
        """Create a topic with these leaders of its partitions.

        With *min_insync*, its `min.insync.replicas`, each broker has its own replica; without it, all share one log.
        """
        # As good as random: no other topic of any cluster has it.
        which = f"{self.id} {name} {len(self.topics) + len(self.deleted)}"
        topic_id = blake2b(which.encode(), digest_size=16).digest()
        topic = SimulatedTopic(name=name, id=topic_id, leaders=[], min_insync=min_insync)
        for leader in leaders:
            self.add_partition(topic, leader)
        self.topics[name] = topic
        return topic

    def add_partition(self, topic: SimulatedTopic, leader: int) -> None:
        """Give a topic one more partition."""
        partition = len(topic.leaders)
        topic.leaders.append(leader)
        if topic.min_insync is not None:
            topic.replicated[partition] = replicate(
                controller=self.controller,
                leader=leader,
                brokers=list(self.brokers),
                min_insync=topic.min_insync,
                on_leader=lambda leader, log: topic.follow(partition, leader, log),
            )

    def delete(self, name: str) -> SimulatedTopic:
        """Delete a topic; `create` makes one of the same name, with another id."""
        topic = self.topics.pop(name)
        self.deleted.append(topic)
        for replicated in topic.replicated.values():
            replicated.delete()
        return topic

    def address_of(self, broker: int) -> tuple[str, int]:
        """Return the host and port that a broker advertises, or did before it was removed."""
        own = self.brokers[broker].address if broker in self.brokers else None
        return own or self.address or (f"broker-{broker}", 9092)

    def find_topic(self, name: str, topic_id: bytes) -> SimulatedTopic | None:
        """Return a topic by its name or, if that is empty, by its id. Return None if it does not exist."""
        if name:
            return self.topics.get(name)
        return next((topic for topic in self.topics.values() if topic.id == topic_id), None)

    def answer_metadata(self, *, broker: int | None = None) -> MetadataResponse:
        """Return the metadata of all topics.

        Leaders of replicated partitions are those that the *broker* knows.
        """
        response = self.metadata()
        for topic in response.topics:
            if topic.name in self.denied_topics:
                topic.error_code, topic.partitions = ErrorCode.TOPIC_AUTHORIZATION_FAILED, []
        for topic in response.topics:
            replicated = self.topics[topic.name or ""].replicated
            for partition in topic.partitions:
                if broker is not None and partition.partition_index in replicated:
                    known = replicated[partition.partition_index].known_leader(broker)
                    partition.leader_id, partition.leader_epoch = known
                    partition.error_code = _leader_code(partition.leader_id)
        return response

    def asked_for(self, metadata: MetadataResponse, asked: Sequence[MetadataRequestTopic] | None) -> MetadataResponse:
        """Return metadata with the topics that a request names, None for all that the client may describe."""
        if asked is None:
            found = [topic for topic in metadata.topics if topic.name not in self.denied_topics]
            return attrs.evolve(metadata, topics=found)
        known = {topic.name: topic for topic in metadata.topics}
        ids = {topic.topic_id: topic for topic in metadata.topics}
        found = [topic for topic in metadata.topics if topic.name not in self.topics]  # that a test has made up
        for topic in {(each.name, each.topic_id): each for each in asked}.values():
            if topic.name is None:
                unknown = MetadataResponseTopic(
                    name=None, topic_id=topic.topic_id, error_code=ErrorCode.UNKNOWN_TOPIC_ID
                )
                found.append(ids.get(bytes(topic.topic_id), unknown))
            else:
                code = UNKNOWN_TOPIC if _LEGAL_NAME.fullmatch(topic.name) else ErrorCode.INVALID_TOPIC_EXCEPTION
                found.append(known.get(topic.name, MetadataResponseTopic(name=topic.name, error_code=code)))
        return attrs.evolve(metadata, topics=found)

    def metadata(self) -> MetadataResponse:
        return MetadataResponse(
            error_code=self.metadata_code,
            cluster_id=self.id,
            controller_id=next(iter(self.brokers), -1),
            brokers=[
                MetadataResponseBroker(node_id=b.id, host=host, port=port, rack=b.rack)
                for b in self.brokers.values()
                if b.up and b.id not in self.unlisted
                for host, port in [self.address_of(b.id)]
            ],
            topics=[
                MetadataResponseTopic(
                    name=topic.name,
                    topic_id=topic.id,
                    partitions=[
                        MetadataResponsePartition(
                            partition_index=p,
                            leader_id=leader,
                            leader_epoch=topic.leader_epoch(p),
                            error_code=_leader_code(leader),
                            replica_nodes=self._replicas(topic, p),
                            isr_nodes=self._in_sync(topic, p),
                        )
                        for p, leader in enumerate(topic.leaders)
                    ],
                )
                for topic in self.topics.values()
            ],
        )

    def _replicas(self, topic: SimulatedTopic, partition: int) -> list[int]:
        if partition in topic.replicated:
            return list(topic.replicated[partition].replicas)
        return [max(topic.leaders[partition], 1)]

    def _in_sync(self, topic: SimulatedTopic, partition: int) -> list[int]:
        if partition in topic.replicated:
            return list(topic.replicated[partition].in_sync)
        return self._replicas(topic, partition)


def _leader_code(leader: int) -> ErrorCode:
    return ErrorCode.LEADER_NOT_AVAILABLE if leader == NO_LEADER else ErrorCode.NONE
