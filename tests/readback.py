"""The contents of a topic, read by another client."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from typing import Any

import attrs
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

GIVE_UP_AFTER_POLLS = 600
TIMEOUT = 60.0
PAUSE = 0.1

PASSING = (
    # librdkafka's errors for a broken connection, and sometimes for a partition that it has just read.
    KafkaError._TRANSPORT,
    KafkaError._DESTROY_BROKER,
    KafkaError._UNKNOWN_PARTITION,
    # A leader is being elected, or has just been: it does not know yet what its followers have.
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.OFFSET_NOT_AVAILABLE,
)


@attrs.frozen(kw_only=True)
class Found:
    """One record as confluent-kafka sees it."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: tuple[tuple[str, bytes | None], ...]


def read_back(bootstrap_servers: str, topic: str, *, partitions: int = 1) -> list[Found]:
    """Everything from the beginning to what is the end now, by partition and offset; the end may be a marker."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": str(uuid.uuid4()),
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    try:
        places = [TopicPartition(topic, partition, 0) for partition in range(partitions)]
        ends = {place.partition: end_offset(consumer, place) for place in places}
        consumer.assign(places)
        found: list[Found] = []
        missing = {partition for partition, end in ends.items() if end}
        for _ in range(GIVE_UP_AFTER_POLLS):
            if not missing:
                return sorted(found, key=lambda record: (record.partition, record.offset))
            for message in consumer.consume(10_000, timeout=0.1):
                error = message.error()
                if error is not None and error.code() == KafkaError._PARTITION_EOF:
                    if (message.offset() or 0) >= ends[message.partition() or 0]:
                        missing.discard(message.partition() or 0)
                    continue
                if error is not None:
                    raise RuntimeError(str(error))
                record = Found(
                    partition=message.partition() or 0,
                    offset=message.offset() or 0,
                    key=_bytes(message.key()),
                    value=_bytes(message.value()),
                    timestamp_ms=message.timestamp()[1],
                    headers=_headers(message),
                )
                found.append(record)
                if record.offset + 1 >= ends[record.partition]:
                    missing.discard(record.partition)
        raise AssertionError(f"partitions {sorted(missing)} of {topic} were not read to their end")
    finally:
        consumer.close()


def end_offset(consumer: Consumer, place: TopicPartition) -> int:
    """The end of a partition for this consumer; asked again while brokers elect a leader, or a proxy cuts."""
    deadline = time.monotonic() + TIMEOUT
    while True:
        try:
            return int(consumer.get_watermark_offsets(place, timeout=TIMEOUT)[1])
        except KafkaException as error:
            if error.args[0].code() not in PASSING or time.monotonic() > deadline:
                raise
            time.sleep(PAUSE)


def repeated_stretches(numbers: Sequence[int], *, count: int) -> list[int]:
    """How many of 0, 1, .. *count* - 1 come once more, each time that some do; fails when one is left out.

    A retry whose first answer was lost writes a stretch again, right behind the first time: 0 1 2 3 2 3 4.
    """
    backs: list[int] = []
    expected = 0
    for number in numbers:
        assert number <= expected, f"{number} stands where {expected} is due"
        if number < expected:
            backs.append(expected - number)
        expected = number + 1
    assert expected == count, f"the last is {expected - 1} of {count}"
    return backs


def _headers(message: Message) -> tuple[tuple[str, bytes | None], ...]:
    pairs: Any = message.headers()  # annotated as more than it can be
    return tuple((name, _bytes(content)) for name, content in pairs or ())


def _bytes(content: str | bytes | None) -> bytes | None:
    return content.encode() if isinstance(content, str) else content
