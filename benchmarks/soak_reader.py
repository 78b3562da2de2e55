"""The consumer of a soak, in a process of its own: `python soak_reader.py SERVERS TOPIC PARTITIONS`.

confluent-kafka's consumer reads all partitions while they are written. Each partition must have the numbers of each
thread in steps of PARTITIONS: a larger step is lost records, a smaller one is a record twice, or out of order.

A line on stdin has the number of records of each thread, in JSON. The reader then reads to the end of all partitions
and prints a `Checked`.
"""

from __future__ import annotations

import json
import select
import sys
import time
from typing import Final

import attrs
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from soak_client import number_of

TIMEOUT: Final = 120.0
KEPT: Final = 20  # examples


@attrs.frozen(kw_only=True)
class Checked:
    """Records read; those missing, those read twice or out of order, and some examples."""

    read: int
    lost: int
    repeated: int
    examples: list[str]


class Reader:
    """The next number of each thread in each partition."""

    def __init__(self, partitions: int) -> None:
        self.read = 0
        self.lost = 0
        self.repeated = 0
        self.examples: list[str] = []
        self._partitions = partitions
        self._next: dict[tuple[int, int], int] = {}

    def take(self, partition: int, offset: int, value: bytes) -> None:
        """Check one record."""
        thread, number = number_of(value)
        expected = self._next.get((thread, partition), partition)
        self.read += 1
        if number == expected:
            self._next[thread, partition] = number + self._partitions
            return
        if len(self.examples) < KEPT:
            self.examples.append(f"partition {partition}, offset {offset}: {number} of thread {thread}, not {expected}")
        if number < expected:
            self.repeated += 1
        else:
            self.lost += (number - expected) // self._partitions
            self._next[thread, partition] = number + self._partitions

    def checked(self, sent: list[int]) -> Checked:
        """The result, with what is missing at the end of each partition."""
        for thread, count in enumerate(sent):
            for partition in range(self._partitions):
                end = count + (partition - count) % self._partitions  # the first number that was not sent
                # None below 0: a record that was read although its `send` raised must not hide another one.
                missing = max((end - self._next.get((thread, partition), partition)) // self._partitions, 0)
                if missing and len(self.examples) < KEPT:
                    self.examples.append(f"partition {partition}: {missing} missing at the end of thread {thread}")
                self.lost += missing
        return Checked(read=self.read, lost=self.lost, repeated=self.repeated, examples=self.examples)


def ends(consumer: Consumer, topic: str, partitions: int) -> dict[int, int]:
    """The end of each partition."""
    deadline = time.monotonic() + TIMEOUT
    while True:
        try:
            places = [TopicPartition(topic, partition) for partition in range(partitions)]
            return {place.partition: consumer.get_watermark_offsets(place, timeout=10)[1] for place in places}
        except KafkaException:
            if time.monotonic() > deadline:
                raise


def run(servers: str, topic: str, partitions: int) -> Checked:
    """Read until the line on stdin, and then to the end."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "soak-reader",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "log_level": 0,  # lost connections are part of the soak
            "queued.max.messages.kbytes": 65_536,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    reader, sent, upto = Reader(partitions), None, {}
    deadline = float("inf")
    places = dict.fromkeys(range(partitions), 0)
    while sent is None or any(places[partition] < end for partition, end in upto.items()):
        if sent is None and select.select([sys.stdin], [], [], 0)[0]:
            sent = json.loads(sys.stdin.readline())
            upto, deadline = ends(consumer, topic, partitions), time.monotonic() + TIMEOUT
        if time.monotonic() > deadline:
            break
        for message in consumer.consume(10_000, timeout=0.2):
            error = message.error()
            if error is not None:
                if error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
                    raise RuntimeError(f"the reader was too slow, and the topic's retention too short: {error}")
                continue  # a broker is unreachable, or no leader; the consumer tries again
            partition, offset, value = message.partition(), message.offset(), message.value()
            assert partition is not None
            assert offset is not None
            assert isinstance(value, bytes)
            reader.take(partition, offset, value)
            places[partition] = offset + 1
    consumer.close()
    return reader.checked(sent or [])


if __name__ == "__main__":
    print(json.dumps(attrs.asdict(run(sys.argv[1], sys.argv[2], int(sys.argv[3])))), flush=True)
