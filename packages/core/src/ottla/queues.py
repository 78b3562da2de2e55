"""The queues of batches by topic and partition: plain state under the accumulator's lock."""

from __future__ import annotations

from collections import deque

from ottla.batch import ProducerBatch


class PartitionQueue:
    """The batches of one partition in order; `open` is the last one while it still takes records."""

    __slots__ = ("batches", "muted", "open", "partition", "topic")

    def __init__(self, topic: TopicQueues, partition: int) -> None:
        self.topic = topic
        self.partition = partition
        self.batches: deque[ProducerBatch] = deque()
        self.open: ProducerBatch | None = None
        self.muted = False

    def close(self) -> None:
        """Let the open batch, if there is one, take no more records."""
        if self.open is not None:
            self.open.closed = True
            self.open = None


class TopicQueues:
    """The queues of one topic. `queued_bytes` is read by partitioners without a lock, as a hint."""

    __slots__ = ("name", "queued_bytes", "queues")

    def __init__(self, name: str) -> None:
        self.name = name
        self.queues: list[PartitionQueue] = []
        self.queued_bytes: list[int] = []

    def reach(self, partitions: int) -> None:
        """Have queues for at least so many partitions."""
        for partition in range(len(self.queues), partitions):
            self.queues.append(PartitionQueue(self, partition))
            self.queued_bytes.append(0)
