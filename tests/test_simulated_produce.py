"""A simulated broker answers Produce requests as a real one does, right ones and wrong ones."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final

import attrs
import cramjam
import lz4.frame
import pytest
import zstandard
from conversations import Conversation
from handmade_batches import Batch, large, record, varint, with_length
from two_clusters import (
    HOUR_MS,
    LARGEST,
    UNKNOWN,
    UNKNOWN_ID,
    TwoClusters,
    new_producer,
    produced,
    topic_ids,
    two_clusters,
)

from ottla.interfaces import Compressor
from ottla.plugins.compressors.gzip import Gzip
from ottla.plugins.compressors.lz4 import Lz4
from ottla.plugins.compressors.snappy import Snappy
from ottla.plugins.compressors.zstd import Zstd
from ottla.protocol import METADATA, PRODUCE
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.recordbatch.codecs import ZSTD
from ottla_testkit.kafka_cluster import KafkaCluster

pytestmark = [pytest.mark.kafka, pytest.mark.generations("one", since="4.0")]


COMPRESSORS: Final[Mapping[int, Compressor]] = {
    each.codec_id: each for each in (Gzip(), Snappy(cramjam), Lz4(lz4.frame, 9), Zstd(zstandard, 1))
}
GZIP: Final = Gzip.codec_id
FIRST_WITH_ZSTD: Final = 7


def compress(compressor: Compressor, section: bytes) -> bytes:
    """The bytes of records, compressed."""
    return compressor.compress([section], level=None)


@pytest.fixture
def clusters(broker: KafkaCluster) -> Iterator[TwoClusters]:
    with two_clusters(broker) as both:
        yield both


def test_sequence_numbers_are_judged_as_by_a_real_broker(clusters: TwoClusters) -> None:
    def script(talk: Conversation) -> None:
        producer = new_producer(talk)

        def send(title: str, sequence: int, records: int = 1, *, epoch: int = 0, partition: int = 0) -> None:
            batch = Batch(producer_id=producer, epoch=epoch, sequence=sequence, records=records)
            talk.ask(title, PRODUCE, 12, produced(clusters.plain, batch, partition=partition))

        send("first", 0, 3)
        send("second", 3, 2)
        send("second again", 3, 2)
        send("first again", 0, 3)
        send("a gap", 7)
        send("part of the second", 4)
        send("more than the second", 3, 3)
        for number in range(5, 11):
            send(f"number {number}", number)
        send("the last but four again", 6)
        send("the last but five again", 5)
        send("first again, forgotten by now", 0, 3)
        send("a new epoch with a gap", 4, epoch=1)
        send("a new epoch", 0, epoch=1)
        send("the old epoch", 11)
        send("the old epoch, a batch that was written", 10)
        send("the old epoch, number 0", 0)
        send("the new epoch again", 0, epoch=1)
        send("without state, in the middle", 12, partition=1)
        send("after it", 13, partition=1)
        send("before it", 11, partition=1)
        send("a high epoch", 0, epoch=30_000, partition=1)
        send("the end of numbers, without state at an epoch", 2**31 - 1, epoch=30_001, partition=1)
        send("the last epoch but one", 0, epoch=32_766, partition=1)
        send("the last epoch", 0, epoch=32_767, partition=1)
        send("the last epoch, the next number", 1, epoch=32_767, partition=1)
        send("the last epoch but one again", 1, epoch=32_766, partition=1)
        other = new_producer(talk)
        batch = Batch(producer_id=other, epoch=0, sequence=2**31 - 2, records=3)
        talk.ask("over the end of numbers", PRODUCE, 12, produced(clusters.plain, batch))
        batch = Batch(producer_id=other, epoch=0, sequence=1)
        talk.ask("after the end of numbers", PRODUCE, 12, produced(clusters.plain, batch))
        talk.ask("again after the end", PRODUCE, 12, produced(clusters.plain, batch))

    clusters.compare(script)


def test_deleted_records_leave_their_producers_as_at_a_real_broker(clusters: TwoClusters) -> None:
    def script(talk: Conversation) -> None:
        producer, other = new_producer(talk), new_producer(talk)

        def send(title: str, sequence: int, records: int = 1, *, epoch: int = 0, owner: int = producer) -> None:
            batch = Batch(producer_id=owner, epoch=epoch, sequence=sequence, records=records)
            talk.ask(title, PRODUCE, 12, produced(clusters.plain, batch))

        send("first", 0, 3)
        send("another producer", 0, owner=other)
        clusters.delete_records(talk, clusters.plain, 3)
        send("a deleted batch again", 0, 3)
        send("the next number", 3)
        clusters.delete_records(talk, clusters.plain, 4)
        send("the other producer, after the deletion of all its records", 1, owner=other)
        send("a gap", 9)
        send("a new epoch with a gap", 1, epoch=1)
        talk.ask("no batch", PRODUCE, 12, produced(clusters.plain, b""))
        talk.ask("not a batch", PRODUCE, 12, produced(clusters.plain, Batch(wrong_crc=True)))
        talk.ask("too few records", PRODUCE, 12, produced(clusters.plain, Batch(count=3)))

    clusters.compare(script)


@pytest.mark.parametrize("version", [3, 7, 8, 9, 12, 13])
def test_batches_and_partitions_are_refused_as_by_a_real_broker(clusters: TwoClusters, version: int) -> None:
    def script(talk: Conversation) -> None:
        by_id = version >= 13
        plain, small, compacted = topic_ids(talk, clusters.plain, clusters.small, clusters.compacted)
        ids = {clusters.plain: plain, clusters.small: small, clusters.compacted: compacted, UNKNOWN: UNKNOWN_ID}

        def send(title: str, topic: str, batch: Batch | bytes | None, **given: Any) -> None:
            request = produced(topic, batch, topic_id=ids[topic] if by_id else None, **given)
            talk.ask(title, PRODUCE, version, request)

        good = Batch(records=3)
        send("good", clusters.plain, good)
        send("unknown topic", UNKNOWN, good)
        send("unknown partition", clusters.plain, good, partition=2)
        send("negative partition", clusters.plain, good, partition=-1)
        send("acks=1", clusters.plain, good, acks=1)
        send("acks=2", clusters.plain, good, acks=2)
        send("empty records", clusters.plain, b"")
        send("wrong checksum", clusters.plain, Batch(wrong_crc=True))
        send("half of a batch", clusters.plain, good.encode()[:-3])
        send("two batches", clusters.plain, good.encode() + good.encode())
        send("magic 1", clusters.plain, Batch(magic=1))
        send("magic 3", clusters.plain, Batch(magic=3))
        send("more records than there are", clusters.plain, Batch(count=3))
        send("no record at all", clusters.plain, Batch(records=0))
        send("a control batch", clusters.plain, Batch(attributes=0x20))
        send("a producer without a sequence", clusters.plain, Batch(producer_id=99, epoch=0))
        send("a producer without an epoch", clusters.plain, Batch(producer_id=98, sequence=0))
        send("the codec zstd", clusters.plain, Batch(attributes=4))
        send("an unknown codec", clusters.plain, Batch(attributes=6))
        send("too large", clusters.small, large(LARGEST))
        send("large enough", clusters.small, large(LARGEST - 150))
        send("without keys", clusters.compacted, Batch(records=2, key=None))
        send("with keys", clusters.compacted, Batch(records=2))
        send("good again", clusters.plain, good)
        send("a transactional id alone", clusters.plain, good, transactional_id="nobody")
        several = ProduceRequest(acks=-1, timeout_ms=10_000)
        for topic, numbers in ((clusters.plain, (0, 1, 5)), (UNKNOWN, (0,)), (clusters.small, (0,))):
            parts = [PartitionProduceData(index=number, records=good.encode()) for number in numbers]
            several.topic_data.append(
                TopicProduceData(name=topic, partition_data=parts, **({"topic_id": ids[topic]} if by_id else {}))
            )
        talk.ask("several", PRODUCE, version, several)
        talk.ask("nothing", PRODUCE, version, ProduceRequest(acks=-1, timeout_ms=10_000))

    clusters.compare(script)


@pytest.mark.parametrize("version", [3, 12])
def test_records_that_cannot_be_read_are_refused_as_by_a_real_broker(clusters: TwoClusters, version: int) -> None:
    compressors = {codec: each for codec, each in COMPRESSORS.items() if codec != ZSTD or version >= FIRST_WITH_ZSTD}
    clusters.simulated.compressors = compressors

    def script(talk: Conversation) -> None:
        def send(title: str, batch: Batch | bytes) -> None:
            talk.ask(title, PRODUCE, version, produced(clusters.plain, batch))

        plain = b"".join(map(record, range(3)))
        for codec, compressor in compressors.items():
            packed = partial(compress, compressor)
            send(f"codec {codec}", Batch(attributes=codec, records=3, change=packed))
            send(f"codec {codec}, garbage", Batch(attributes=codec, change=lambda _section: b"no such thing" * 9))
            cut = packed(plain * 9)[:-9]
            send(f"codec {codec}, cut off", Batch(attributes=codec, section=cut, count=27))
            send(f"codec {codec}, too few", Batch(attributes=codec, records=3, count=4, change=packed))
            send(f"codec {codec}, too many", Batch(attributes=codec, records=3, count=2, change=packed))
        send("too many records", Batch(section=plain, count=2))
        send("a negative number of records", Batch(count=-1))
        send("the last offset is larger", Batch(records=2, last_delta=5))
        send("the last offset is smaller", Batch(records=2, last_delta=0))
        send("an offset of its own", Batch(records=2, base_offset=77))
        send("a record that ends early", Batch(section=varint(40) + record(0)))
        send("a record that ends late", Batch(section=varint(3) + record(0)[1:]))
        send("a key longer than its record", Batch(section=with_length(b"\0\0\0" + varint(50) + b"key")))
        send("a header without a name", Batch(section=with_length(b"\0\0\0\x01\x01" + varint(1) + b"\x01\x01")))
        send("bytes behind the headers", Batch(section=with_length(b"\0\0\0\x01\x01\0more")))
        send("the time of the broker", Batch(attributes=0x08))
        send("an unused attribute", Batch(attributes=0x80))
        send("shorter than a header", Batch().encode()[:50])
        send("a size that is too small", Batch(size_error=-1))
        send("a size of 10", struct.pack(">qi", 0, 10) + Batch().encode()[12:])
        send("a negative size", struct.pack(">qi", 0, -10) + Batch().encode()[12:])
        send("a byte behind the batch", Batch().encode() + b"x")
        send("good", Batch(records=3))

    clusters.compare(script)


def test_requests_without_a_response_are_taken_as_by_a_real_broker(clusters: TwoClusters) -> None:
    def script(talk: Conversation) -> None:
        def tell(title: str, topic: str, batch: Batch, *, partition: int = 0) -> None:
            talk.tell(PRODUCE, 12, produced(topic, batch, acks=0, partition=partition))
            talk.ask(f"after {title}", METADATA, 12, MetadataRequest(topics=[]))

        producer = new_producer(talk)
        tell("a good one", clusters.plain, Batch())
        tell("a good one of a producer", clusters.plain, Batch(producer_id=producer, epoch=0, sequence=0))
        tell("one again", clusters.plain, Batch(producer_id=producer, epoch=0, sequence=0))
        tell("a gap", clusters.plain, Batch(producer_id=producer, epoch=0, sequence=7))
        tell("an unknown topic", UNKNOWN, Batch())
        tell("an unknown partition", clusters.plain, Batch(), partition=7)
        tell("one that is too large", clusters.small, large(LARGEST))
        tell("one with a wrong checksum", clusters.plain, Batch(wrong_crc=True))
        tell("one without keys", clusters.compacted, Batch(key=None))
        tell("one with too few replicas", clusters.unsafe, Batch())
        talk.ask("with a response", PRODUCE, 12, produced(clusters.plain, Batch()))

    clusters.compare(script)


@pytest.mark.parametrize("version", [3, 8, 12])
def test_timestamps_are_judged_and_replaced_as_by_a_real_broker(clusters: TwoClusters, version: int) -> None:
    clusters.simulated.compressors = {GZIP: COMPRESSORS[GZIP]}

    def script(talk: Conversation) -> None:
        producer, now = new_producer(talk), int(time.time() * 1000)
        packed = partial(compress, COMPRESSORS[GZIP])

        def send(title: str, batch: Batch) -> None:
            for topic in (clusters.plain, clusters.stamped, clusters.recent):
                talk.ask(title, PRODUCE, version, produced(topic, batch))

        def numbered(sequence: int, records: int = 1) -> Batch:
            return Batch(producer_id=producer, epoch=0, sequence=sequence, records=records)

        send("two records", Batch(records=2))
        send("compressed", Batch(records=2, attributes=GZIP, change=packed))
        send("of a producer", numbered(0, 3))
        send("again", numbered(0, 3))
        send("the next", numbered(3))
        send("the first again", numbered(0, 3))
        send("a gap", numbered(9))
        send("long ago", Batch(records=2, timestamp=now - 2 * HOUR_MS))
        send("without a time", Batch(timestamp=-1))
        send("in the future", Batch(records=2, timestamp=now + 2 * HOUR_MS))
        two = record(0) + record(1, timestamp_delta=2 * HOUR_MS)
        send("one of two in the future", Batch(section=two, count=2))
        send("compressed, in the future", Batch(section=two, count=2, attributes=GZIP, change=packed))
        send(
            "without a key, and one in the future", Batch(section=record(0, key=None) + two[len(record(0)) :], count=2)
        )
        send("with the broker's time", Batch(records=2, attributes=0x08))
        send("with the broker's time, compressed", Batch(records=2, attributes=0x08 | GZIP, change=packed))
        send("with the broker's time, and without any", Batch(attributes=0x08, timestamp=-1))
        send("of a producer, in the future", attrs.evolve(numbered(4), timestamp=now + 2 * HOUR_MS))
        send("of a producer afterwards", numbered(4))
        send("of a producer afterwards, once more", numbered(5))

    clusters.compare(script)


def test_the_replicas_that_a_topic_needs_are_those_of_a_real_broker(clusters: TwoClusters) -> None:
    def script(talk: Conversation) -> None:
        producer = new_producer(talk)
        for acks in (-1, 1):
            batch = Batch(producer_id=producer, epoch=0, sequence=0)
            talk.ask(f"acks={acks}", PRODUCE, 12, produced(clusters.unsafe, batch, acks=acks))
        batch = Batch(producer_id=producer, epoch=0, sequence=0)
        talk.ask("again with acks=all", PRODUCE, 12, produced(clusters.unsafe, batch))
        batch = Batch(producer_id=producer, epoch=0, sequence=5)
        talk.ask("a gap with acks=all", PRODUCE, 12, produced(clusters.unsafe, batch))

    clusters.compare(script)


def test_topics_that_are_created_again_are_those_of_a_real_broker(clusters: TwoClusters) -> None:
    name = clusters.plain

    def script(talk: Conversation) -> None:
        producer = new_producer(talk)
        [first] = topic_ids(talk, name)
        batch = Batch(producer_id=producer, epoch=0, sequence=0)
        talk.ask("by its id", PRODUCE, 13, produced(name, batch, topic_id=first))
        clusters.delete(talk, name)
        batch = Batch(producer_id=producer, epoch=0, sequence=1)
        talk.ask("by its name, deleted", PRODUCE, 12, produced(name, batch))
        talk.ask("by its id, deleted", PRODUCE, 13, produced(name, batch, topic_id=first))
        request = MetadataRequestTopic(topic_id=first, name=None)
        talk.ask("its metadata, deleted", METADATA, 12, MetadataRequest(topics=[request]))
        clusters.create_again(talk, name)
        [second] = topic_ids(talk, name)
        talk.ask("by its old id", PRODUCE, 13, produced(name, batch, topic_id=first))
        talk.ask("its metadata by its old id", METADATA, 12, MetadataRequest(topics=[request]))
        talk.ask("by its name", PRODUCE, 12, produced(name, batch))
        batch = Batch(producer_id=producer, epoch=0, sequence=0)
        talk.ask("from the beginning", PRODUCE, 13, produced(name, batch, topic_id=second))

    clusters.compare(script)
