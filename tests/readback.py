"""The contents of a topic, read by another client."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

import attrs
from confluent_kafka import Consumer, Message, TopicPartition

GIVE_UP_AFTER_POLLS = 600


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
    """Everything from the beginning to what is the end now, by partition and offset."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap_servers, "group.id": str(uuid.uuid4()), "enable.auto.commit": False}
    )
    try:
        places = [TopicPartition(topic, partition, 0) for partition in range(partitions)]
        ends = {place.partition: consumer.get_watermark_offsets(place, timeout=30)[1] for place in places}
        consumer.assign(places)
        found: list[Found] = []
        missing = {partition for partition, end in ends.items() if end}
        for _ in range(GIVE_UP_AFTER_POLLS):
            if not missing:
                return sorted(found, key=lambda record: (record.partition, record.offset))
            for message in consumer.consume(10_000, timeout=0.1):
                if message.error():
                    raise RuntimeError(str(message.error()))
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
