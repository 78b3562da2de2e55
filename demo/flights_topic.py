# confluent-kafka is typed in part: what it exports from `admin`, it does not export explicitly.
# mypy: disable-error-code="attr-defined, no-untyped-call"
"""The topic, through confluent-kafka: a client that shares no code with Ottla makes it, watches it and reads it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias

import attrs
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

Offsets: TypeAlias = Mapping[int, int]

WITHIN: Final = 30.0  # seconds
AT_ONCE: Final = 10_000
LOOK_AGAIN: Final = 0.1
NOT_YET: Final = (
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
)


class TopicError(Exception):
    """The cluster cannot be reached, or refuses a request."""


@attrs.frozen(kw_only=True)
class Record:
    """One record as it was read."""

    key: bytes | None
    value: bytes
    partition: int
    headers: tuple[tuple[str, bytes | None], ...] = ()


class Topic:
    """A topic of a cluster. Raises TopicError."""

    def __init__(self, bootstrap_servers: str, name: str) -> None:
        self.name = name
        self._client: dict[str, str | int | float | bool] = {"bootstrap.servers": bootstrap_servers, "log_level": 0}
        self._admin = AdminClient(self._client)

    def make(self, partitions: int) -> None:
        """Create the topic; one that exists stays as it is."""
        new = NewTopic(self.name, num_partitions=partitions, replication_factor=-1)
        try:
            self._admin.create_topics([new], request_timeout=WITHIN)[self.name].result()
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                servers = self._client["bootstrap.servers"]
                raise TopicError(f"topic {self.name!r} cannot be made at {servers}: {error.args[0].str()}") from error

    def ends(self) -> Offsets:
        """Return the offset after the last record of each partition; wait until a new topic has its leaders."""
        deadline = time.monotonic() + WITHIN
        while True:
            try:
                return self._ends()
            except KafkaException as error:
                if not error.args[0].retriable() and error.args[0].code() not in NOT_YET:
                    raise TopicError(f"topic {self.name!r} is out of reach: {error.args[0].str()}") from error
                if time.monotonic() > deadline:
                    raise TopicError(f"topic {self.name!r} is not ready: {error.args[0].str()}") from error
            time.sleep(LOOK_AGAIN)

    def read(self, starts: Offsets, ends: Offsets, *, progress: Callable[[int], object]) -> Iterator[Record]:
        """Yield every record between the offsets; *progress* is called with the number of records so far."""
        missing = {partition for partition in ends if ends[partition] > starts[partition]}
        consumer = Consumer({**self._client, "group.id": "ottla-demo", "enable.auto.commit": False})
        try:
            consumer.assign([TopicPartition(self.name, each, starts[each]) for each in missing])
            deadline = time.monotonic() + WITHIN
            while missing:
                messages: list[Any] = consumer.consume(AT_ONCE, timeout=LOOK_AGAIN)
                if messages:
                    deadline = time.monotonic() + WITHIN
                elif time.monotonic() > deadline:
                    raise TopicError(f"nothing more came from partitions {sorted(missing)} for {WITHIN:.0f} s")
                for message in messages:
                    yield _record(message)
                    if message.offset() + 1 >= ends[message.partition()]:
                        missing.discard(message.partition())
                progress(len(messages))
        finally:
            consumer.close()

    def _ends(self) -> Offsets:
        found = self._admin.list_topics(self.name, timeout=WITHIN).topics[self.name]
        if found.error is not None:
            raise KafkaException(found.error)
        places = {partition: TopicPartition(self.name, partition) for partition in found.partitions}
        latest = {place: OffsetSpec.latest() for place in places.values()}
        answers = self._admin.list_offsets(latest, request_timeout=WITHIN)
        return {partition: answers[place].result().offset for partition, place in places.items()}


def _record(message: Any) -> Record:
    if message.error() is not None:
        raise TopicError(f"reading failed: {message.error().str()}")
    headers = tuple(message.headers() or ())
    return Record(key=message.key(), value=message.value(), partition=message.partition(), headers=headers)
