"""The queues of batches by topic and partition: plain state under the lock of `IncompleteBatches`."""

from __future__ import annotations

from collections import deque

from ottla.accumulator.batch import UNASSIGNED, ProducerBatch
from ottla.interfaces import TopicView
from ottla.results.stories.tries import CloseReason

FOREVER = float("inf")
LONG_AGO = float("-inf")


class PartitionQueue:
    """The batches of one partition in order; `open` is the last one while it still takes records."""

    __slots__ = ("batches", "muted_until", "newest", "open", "partition", "taken_at", "topic")

    def __init__(self, topic: TopicQueues, partition: int) -> None:
        self.topic = topic
        self.partition = partition
        self.batches: deque[ProducerBatch] = deque()
        self.open: ProducerBatch | None = None  # `send` reads it without a lock: `append` fails if it is closed
        self.muted_until = LONG_AGO
        self.newest = LONG_AGO  # when the last batch was created: no later one may be older, see `put_first`
        self.taken_at = LONG_AGO  # when a batch left it last

    def close(self, why: CloseReason | None = None, at: float | None = None) -> None:
        """Let the open batch, if there is one, take no more records; *why* and *at* are for its story."""
        batch = self.open
        if batch is not None:
            if why is not None and batch.closed_by is None:
                batch.closed_by, batch.closed_at = why, at
            batch.close()
            self.open = None

    def begin(self, batch: ProducerBatch) -> None:
        """Put a new batch behind the others; it is the open one from now on."""
        self.add_closed(batch)
        self.open = batch

    def add_closed(self, batch: ProducerBatch) -> None:
        """Put a batch that takes no records behind the others, which take no more, either."""
        if self.open is not None:
            self.close()
        self.batches.append(batch)
        self.newest = batch.created_at

    def take(self) -> ProducerBatch:
        """Remove the first batch, which takes no more records."""
        batch = self.batches.popleft()
        if batch is self.open:
            batch.close()
            self.open = None
        self.topic.count(batch, 0)
        return batch

    def put_first(self, batch: ProducerBatch) -> None:
        """Return a batch that had left to the front of the queue, but behind the batches that precede it.

        Those are the ones with lower sequence numbers; for a batch without one the older ones, so that the head is the
        first to expire. One with a number that is behind one without could not leave: numbers are assigned in order.
        """
        place = 0
        for other in self.batches:
            if batch.sequence is None:
                before = other.created_at < batch.created_at
            else:
                before = other.sequence is not None and not other.sequence.follows(batch.sequence)
            if not before:
                break
            place += 1
        self.batches.insert(place, batch)
        self.topic.count(batch, batch.columns.memory())


class TopicQueues:
    """The queues of one topic. `queued_bytes` is read by partitioners without a lock, as a hint.

    `max_bytes`: the maximum size of its batches, once the topic has refused a larger one.
    """

    __slots__ = ("max_bytes", "name", "queued_bytes", "queues", "unassigned", "view")

    def __init__(self, name: str) -> None:
        self.name = name
        self.view: TopicView | None = None
        self.unassigned = PartitionQueue(self, UNASSIGNED)  # records with keys that have no partition yet
        self.queues: list[PartitionQueue] = []
        self.queued_bytes: list[int] = []
        self.max_bytes: int | None = None

    def reach(self, partitions: int) -> int:
        """Add queues for new partitions, up to this number of partitions, and return the number of new queues."""
        before = len(self.queues)
        for partition in range(before, partitions):
            self.queued_bytes.append(0)
            self.queues.append(PartitionQueue(self, partition))
        return len(self.queues) - before

    def count(self, batch: ProducerBatch, queued: int) -> None:
        """Note that a batch has *queued* bytes in its queue."""
        try:
            self.queued_bytes[batch.partition] += queued - batch.queued_bytes
        except Exception:  # a partitioner has changed the list, which is its to read; a copy for each batch costs more
            # Not an error of this send, and not logged under a lock: the suite for partitioners finds it.
            self.queued_bytes[:] = [
                sum(each.queued_bytes for each in queue.batches if each is not batch) for queue in self.queues
            ]
            self.queued_bytes[batch.partition] += queued
        batch.queued_bytes = queued
