"""Offsets and group metadata of other clients' consumers are taken; wrong ones are refused with what is wrong."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import confluent_kafka
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import InvalidRecordError
from ottla.transactions.group_metadata import ConsumerGroupMetadata, group_of
from ottla.transactions.offsets import OffsetAndMetadata, OffsetsToSend

ids = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=12)


class TopicPartition(NamedTuple):
    """As in kafka-python and aiokafka."""

    topic: str
    partition: int


class Position(NamedTuple):
    """As the OffsetAndMetadata of kafka-python."""

    offset: int
    metadata: str | None
    leader_epoch: int | None


def positions(offsets: Any) -> dict[tuple[str, int], OffsetAndMetadata]:
    return dict(OffsetsToSend.checked(offsets, "group").offsets)


def written_by_librdkafka(group: str, generation: int, member: str, instance: str | None) -> bytes:
    """Return what `rd_kafka_consumer_group_metadata_write` writes."""
    end = b"\1" if instance is None else b"\0" + instance.encode() + b"\0"
    numbers = generation.to_bytes(4, byteorder=sys.byteorder, signed=True)
    return b"CGMDv2:" + numbers + group.encode() + b"\0" + member.encode() + b"\0" + end


@pytest.fixture
def consumer() -> Iterator[confluent_kafka.Consumer]:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": "127.0.0.1:1", "group.id": "billing", "log_level": 0})
    yield consumer
    consumer.close()


@pytest.mark.parametrize(
    ("offsets", "taken"),
    [
        ({("t", 1): 7}, OffsetAndMetadata(7)),
        ({("t", 1): OffsetAndMetadata(7, "note", 3)}, OffsetAndMetadata(7, "note", 3)),
        ({TopicPartition("t", 1): Position(7, "note", 3)}, OffsetAndMetadata(7, "note", 3)),
        ({TopicPartition("t", 1): Position(7, None, None)}, OffsetAndMetadata(7)),
        ([confluent_kafka.TopicPartition("t", 1, 7)], OffsetAndMetadata(7)),
        (
            [confluent_kafka.TopicPartition("t", 1, 7, metadata="note", leader_epoch=3)],
            OffsetAndMetadata(7, "note", 3),
        ),
        ({confluent_kafka.TopicPartition("t", 1): 7}, OffsetAndMetadata(7)),
    ],
)
def test_positions_of_every_client_are_taken(offsets: Any, taken: OffsetAndMetadata) -> None:
    assert positions(offsets) == {("t", 1): taken}


def test_partitions_of_which_nothing_was_read_are_left_out(consumer: confluent_kafka.Consumer) -> None:
    unread = consumer.position([confluent_kafka.TopicPartition("t", 0)])

    assert [each.offset for each in unread] == [confluent_kafka.OFFSET_INVALID]
    assert positions([*unread, confluent_kafka.TopicPartition("t", 1, 7)]) == {("t", 1): OffsetAndMetadata(7)}


@pytest.mark.parametrize(
    ("offsets", "words"),
    [
        (7, "offsets must be a mapping of .* or a list of objects with topic, partition and offset, not int"),
        ("t-1", "offsets must be a mapping"),
        ([7], r"the keys of offsets must be \(topic, partition\).*not 7"),
        ({("t", -1): 7}, "with a partition of at least 0"),
        ({("t", 1): -5}, "an offset must be at least 0, not -5"),
        ([confluent_kafka.TopicPartition("t", 1, confluent_kafka.OFFSET_END)], "an offset must be at least 0, not -1"),
        ({("t", 1): True}, "an offset must be at least 0, not True"),
        ({("t", 1): "7"}, "an offset must be an int or an OffsetAndMetadata, not '7'"),
        (
            {("t", 1): OffsetAndMetadata(7, "é" * 16_384)},
            "the metadata of an offset can have at most 32,767 bytes, not 32,768",
        ),
        ({("t", 1): OffsetAndMetadata(7, "\ud800")}, "the metadata of an offset cannot be encoded as UTF-8"),
        ({("t", 1): OffsetAndMetadata(7, None)}, "the metadata of an offset must be a str, not NoneType"),  # type: ignore[arg-type]
    ],
)
def test_wrong_offsets_are_refused(offsets: Any, words: str) -> None:
    with pytest.raises(InvalidRecordError, match=words):
        positions(offsets)


def test_a_position_with_an_error_is_refused() -> None:
    class Failed:
        topic, partition, offset, error = "t", 1, 7, "not assigned"

    with pytest.raises(InvalidRecordError, match="has an error"):
        positions([Failed()])


def test_group_metadata_of_a_consumer_of_confluent_is_taken(consumer: confluent_kafka.Consumer) -> None:
    assert group_of(consumer.consumer_group_metadata()) == ConsumerGroupMetadata("billing")


@given(ids, st.integers(-(2**31), 2**31 - 1), ids | st.just(""), st.none() | ids)
def test_group_metadata_of_librdkafka_is_read_whole(
    group: str, generation: int, member: str, instance: str | None
) -> None:
    data = written_by_librdkafka(group, generation, member, instance)

    assert group_of(data) == ConsumerGroupMetadata(group, generation, member, instance)


@given(st.binary(max_size=30))
def test_any_other_bytes_are_read_or_refused(data: bytes) -> None:
    for given_bytes in (data, b"CGMDv2:" + data):
        with contextlib.suppress(InvalidRecordError):  # no other exception
            assert isinstance(group_of(given_bytes), ConsumerGroupMetadata)


@pytest.mark.parametrize("data", [b"", b"CGMDv1:", b"CGMDv2:", b"CGMDv2:\0\0\0\0g\0m\0", b"CGMDv2:\0\0\0\0g\0m\0\1x"])
def test_group_metadata_that_is_cut_or_longer_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidRecordError, match="group_metadata"):
        group_of(data)


def test_an_empty_group_is_refused() -> None:
    with pytest.raises(InvalidRecordError, match=r"needs a group id: the consumer's group\.id"):
        OffsetsToSend.checked({}, "")


def test_a_group_id_that_no_request_can_hold_is_refused() -> None:
    with pytest.raises(InvalidRecordError, match="a group id can have at most 32,767 bytes, not 32,768"):
        OffsetsToSend.checked({}, "g" * 32_768)


def test_an_object_with_a_topic_alone_is_no_partition() -> None:
    class Topic:
        topic = "t"

    with pytest.raises(InvalidRecordError, match=r"must be \(topic, partition\)"):
        positions({Topic(): 7})
