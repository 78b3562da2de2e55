"""A real cluster and a simulated one with the same topics, for conversations that are held with both."""

from __future__ import annotations

import difflib
import struct
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Final, TypeAlias

from conversations import Conversation, RealPeer, SimulatedPeer
from handmade_batches import Batch

from ottla.protocol import METADATA
from ottla.protocol.messages.find_coordinator import FIND_COORDINATOR, FindCoordinatorRequest
from ottla.protocol.messages.init_producer_id import INIT_PRODUCER_ID, InitProducerIdRequest
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla_testkit.kafka_cluster import KafkaCluster, admin_requests
from ottla_testkit.kafka_cluster.admin_requests import Address
from ottla_testkit.kafka_cluster.features import TRANSACTION_VERSION, feature_level
from ottla_testkit.simulation import SimulatedCluster
from transactions_kit import await_true

Script: TypeAlias = Callable[[Conversation], None]

DELETE_RECORDS: Final = 21
"""The key of the request DeleteRecords."""

LARGEST: Final = 5_000
"""`max.message.bytes` of the topic `small`."""

HOUR_MS: Final = 3_600_000
"""The default of `message.timestamp.after.max.ms`."""

UNKNOWN: Final = "unknown-topic"
UNKNOWN_ID: Final = uuid.UUID(int=99).bytes


class TwoClusters:
    """Both clusters. Topics are created in both when they are first used; no other test uses them."""

    def __init__(self, kafka: KafkaCluster, *, older_logs: bool = False) -> None:
        self.kafka = kafka
        self.real = RealPeer(kafka.address(1))
        self.level = 0 if older_logs else feature_level(kafka.address(1), TRANSACTION_VERSION)
        self.simulated = SimulatedCluster.of(1)
        self.simulated.transaction_version = self.level
        self.simulated.older_logs = older_logs
        self.simulated.wall_clock = time.time
        self._suffix = uuid.uuid4().hex[:8]

    @cached_property
    def plain(self) -> str:
        """A topic of two partitions."""
        return self._create("plain", partitions=2)

    @cached_property
    def small(self) -> str:
        """A topic that refuses batches of more than LARGEST bytes."""
        name = self._create("small", {"max.message.bytes": LARGEST})
        self.simulated.topics[name].max_message_bytes = LARGEST
        return name

    @cached_property
    def compacted(self) -> str:
        """A topic that refuses records without keys."""
        name = self._create("compacted", {"cleanup.policy": "compact"})
        self.simulated.topics[name].compacted = True
        return name

    @cached_property
    def stamped(self) -> str:
        """A topic whose records get the time of their append."""
        name = self._create("stamped", {"message.timestamp.type": "LogAppendTime"})
        self.simulated.topics[name].append_time = True
        return name

    @cached_property
    def recent(self) -> str:
        """A topic that refuses records without keys, and those that are more than an hour old."""
        config: Mapping[str, int | str] = {"message.timestamp.before.max.ms": HOUR_MS, "cleanup.policy": "compact"}
        name = self._create("recent", config)
        self.simulated.topics[name].timestamp_before_max_ms = HOUR_MS
        self.simulated.topics[name].compacted = True
        return name

    @cached_property
    def unsafe(self) -> str:
        """A topic with fewer replicas than `min.insync.replicas`."""
        return self._create("unsafe", {"min.insync.replicas": 2}, min_insync=2)

    def _create(
        self,
        name: str,
        config: Mapping[str, int | str] | None = None,
        *,
        partitions: int = 1,
        min_insync: int | None = None,
    ) -> str:
        name = f"{name}-{self._suffix}"
        self.kafka.create_topic(name, partitions=partitions, config=config)
        self.simulated.create(name, *[1] * partitions, min_insync=min_insync).timestamp_after_max_ms = HOUR_MS
        return name

    def delete(self, talk: Conversation, name: str) -> None:
        """Delete a topic in the cluster of this conversation."""
        if isinstance(talk.peer, SimulatedPeer):
            self.simulated.delete(name)
            return
        assert admin_requests.delete_topics(self.kafka.address(1), [name]) == {}
        await_true(lambda: not admin_requests.metadata(self.kafka.address(1), topic=name).partitions)

    def delete_records(self, talk: Conversation, name: str, until: int) -> None:
        """Delete the records of a topic's first partition before an offset, in the cluster of this conversation."""
        if isinstance(talk.peer, SimulatedPeer):
            self.simulated.topics[name].delete_records(0, until, forgets=self.simulated.older_logs)
        else:
            delete_records(self.kafka.address(1), name, until)

    def create_again(self, talk: Conversation, name: str) -> None:
        """Create a topic that was deleted in the cluster of this conversation."""
        if isinstance(talk.peer, SimulatedPeer):
            self.simulated.create(name, 1, 1)
        else:
            self.kafka.create_topic(name, partitions=2)

    def compare(self, script: Script, *, exact_offsets: bool = True) -> None:
        """Hold a conversation with both brokers, and compare their responses."""
        lines: list[Sequence[str]] = []
        for peer in (self.real, SimulatedPeer(self.simulated.brokers[1])):
            conversation = Conversation(peer, exact_offsets=exact_offsets)
            script(conversation)
            lines.append(conversation.lines)
        real, simulated = lines
        differences = [line for line in difflib.ndiff(real, simulated) if line[:1] in "-+"]
        assert not differences, "\n".join(["- the real broker, + the simulated one:", *differences])


@contextmanager
def two_clusters(kafka: KafkaCluster, *, older_logs: bool = False) -> Iterator[TwoClusters]:
    """Both clusters, with a connection to the real one."""
    clusters = TwoClusters(kafka, older_logs=older_logs)
    # A broker that was never asked for the coordinator of a transaction lacks the topic of its state.
    find = FindCoordinatorRequest(key="any", key_type=1)
    Conversation(clusters.real).ask("the coordinator", FIND_COORDINATOR, 1, find, until_not_busy=True)
    try:
        yield clusters
    finally:
        clusters.real.close()


def delete_records(address: Address, topic: str, until: int) -> None:
    """Delete the records of a topic's first partition before an offset, by DeleteRecords v0."""
    name, timeout_ms = topic.encode(), 10_000
    topics = struct.pack(f">ih{len(name)}s", 1, len(name), name) + struct.pack(">iiq", 1, 0, until)
    answer = admin_requests.call(address, DELETE_RECORDS, 0, topics + struct.pack(">i", timeout_ms), 20.0)
    low_watermark, code = struct.unpack(">qh", answer[-10:])
    assert (low_watermark, code) == (until, 0)


def topic_ids(talk: Conversation, *names: str) -> Sequence[bytes]:
    """The ids of topics."""
    topics = [MetadataRequestTopic(name=name) for name in names]
    found = talk.ask("ids", METADATA, 12, MetadataRequest(topics=topics, allow_auto_topic_creation=False))
    return [bytes(topic.topic_id) for topic in found.topics]


def new_producer(talk: Conversation, *, version: int = 4) -> int:
    """The id of an idempotent producer."""
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
    return int(talk.ask("a new producer", INIT_PRODUCER_ID, version, request, until_not_busy=True).producer_id)


def produced(
    topic: str,
    batch: Batch | bytes | None,
    *,
    partition: int = 0,
    acks: int = -1,
    transactional_id: str | None = None,
    topic_id: bytes | None = None,
) -> ProduceRequest:
    """A request with one batch."""
    records = batch.encode() if isinstance(batch, Batch) else batch
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=partition, records=records)])
    if topic_id is not None:
        data.topic_id = topic_id
    return ProduceRequest(transactional_id=transactional_id, acks=acks, timeout_ms=10_000, topic_data=[data])
