"""All batches of a producer that are not settled: queued by partition, in runs, or in flight.

Plain state; everything here happens under its lock, which is never held while waiting for memory, encoding or settling.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence

from ottla.accumulator.batch import UNASSIGNED, ProducerBatch
from ottla.accumulator.partition_queue import FOREVER, NEVER, PartitionQueue, TopicQueues
from ottla.concurrency.locks import SignalSafeLock


class Backlog:
    """The queues by topic, and who is in them."""

    def __init__(self) -> None:
        self.guard = SignalSafeLock()
        """The lock for the callers' threads; told of each batch that is settled."""
        self.lock = self.guard.raw
        """The same one for the I/O thread."""
        self._topics: dict[str, TopicQueues] = {}
        self.partitions = 0
        """How many there are queues for, of all topics."""
        self.waiting: OrderedDict[PartitionQueue, None] = OrderedDict()
        """The queues that have batches; the one that was served last is last in line."""
        self.unassigned: dict[TopicQueues, None] = {}
        """The topics that have a run."""
        self.incomplete: dict[ProducerBatch, None] = {}
        """Every batch that is not settled, in the order of their beginning."""
        self.oldest = FOREVER
        """No batch that waits was created before."""
        self.look_again_at = FOREVER
        """When the I/O thread looks through the queues without being told to."""

    def topic(self, name: str, partitions: int) -> TopicQueues:
        """The queues of a topic, at least so many."""
        topic = self._topics.get(name)
        if topic is None:
            topic = self._topics[name] = TopicQueues(name)
        if partitions > len(topic.queues):
            self.partitions += topic.reach(partitions)
        return topic

    def queue(self, topic: str, partition: int) -> PartitionQueue:
        """The queue of a partition; UNASSIGNED: that of the topic's run."""
        topic_queues = self.topic(topic, partition + 1)
        return topic_queues.unassigned if partition == UNASSIGNED else topic_queues.queues[partition]

    def queue_of(self, batch: ProducerBatch) -> PartitionQueue:
        """The queue that a batch is in, or was in."""
        return self._topics[batch.topic].queues[batch.partition]

    def begin(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        """Put a new batch behind the others of its queue; it is open."""
        queue.begin(batch)
        self.oldest = min(self.oldest, batch.created_at)
        self.incomplete[batch] = None
        if queue.partition == UNASSIGNED:
            self.unassigned[queue.topic] = None
        else:
            self.waiting.setdefault(queue)

    def take(self, queue: PartitionQueue) -> ProducerBatch:
        """Remove the first batch of a queue, which goes to the end of the line."""
        batch = queue.take()
        if queue.batches:
            self.waiting.move_to_end(queue)
        else:
            del self.waiting[queue]
        return batch

    def take_unassigned(self, topic: TopicQueues) -> ProducerBatch:
        """Remove the run of a topic, which takes no more records; as `open` it stays until it is dealt."""
        del self.unassigned[topic]
        run = topic.unassigned.batches.popleft()
        run.close()
        return run

    def take_while(self, unwanted: Callable[[ProducerBatch], bool]) -> list[ProducerBatch]:
        """Remove batches from the heads of all queues for as long as they are *unwanted*."""
        removed: list[ProducerBatch] = []
        for queue in list(self.waiting):
            while queue.batches and unwanted(queue.batches[0]):
                removed.append(queue.take())
            if not queue.batches:
                del self.waiting[queue]
        return removed

    def look_for_oldest(self) -> None:
        """Go through all queues for when the oldest batch was created."""
        self.oldest = min((queue.batches[0].created_at for queue in self.waiting), default=FOREVER)

    def put_first(self, *batches: ProducerBatch) -> None:
        """Put batches of one partition, in this order, before all others of it; it is served next."""
        queue = self.queue_of(batches[0])
        for batch in reversed(batches):
            queue.put_first(batch)
            self.oldest = min(self.oldest, batch.created_at)
        self.waiting[queue] = None
        self.waiting.move_to_end(queue, last=False)

    def replace(self, batch: ProducerBatch, parts: Sequence[ProducerBatch]) -> None:
        """Queue the *parts* of a batch that had left in its place."""
        self.incomplete.pop(batch, None)
        self.incomplete.update(dict.fromkeys(parts))
        self.put_first(*parts)

    def settled(self, batches: Iterable[ProducerBatch]) -> None:
        """They have their outcomes."""
        for batch in batches:
            self.incomplete.pop(batch, None)
        self.guard.notify_all()

    def recover(self) -> list[ProducerBatch]:
        """Put everything in order after a round that failed half-way; what is in no queue, in the order of beginning.

        Queues let go of what is not in them any more, and are in line when they have something.
        """
        queued: set[ProducerBatch] = set()
        for topic in self._topics.values():
            for queue in topic.queues:
                self._recover_queue(queue)
                queued.update(queue.batches)
            queued.update(topic.unassigned.batches)
            if topic.unassigned.batches:
                self.unassigned[topic] = None
            else:
                self.unassigned.pop(topic, None)
        lost = [batch for batch in self.incomplete if batch not in queued]
        for batch in lost:
            self._topics[batch.topic].count(batch, 0)
        self.look_for_oldest()
        self.look_again_at = NEVER
        return lost

    def _recover_queue(self, queue: PartitionQueue) -> None:
        batches = queue.batches
        if queue.open is not None and (not batches or queue.open is not batches[-1]):
            queue.close()
        if queue.muted_until == FOREVER:
            queue.muted_until = NEVER
        for batch in batches:
            queue.topic.count(batch, batch.columns.memory())
        if batches:
            self.waiting.setdefault(queue)
        else:
            self.waiting.pop(queue, None)

    def take_all(self) -> tuple[list[ProducerBatch], list[ProducerBatch]]:
        """Empty the queues: every batch that is not settled, those that had left and those that had not, in order."""
        queued = self.take_while(lambda _batch: True)
        sent = self.incomplete.keys() - queued
        return [batch for batch in self.incomplete if batch in sent], queued
