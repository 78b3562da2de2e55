"""All incomplete batches of a producer: queued by partition, or in flight, or without a partition yet.

Plain state under a lock, which is never held while waiting for memory, encoding, or completing batches.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from ottla.accumulator.batch import ProducerBatch
from ottla.accumulator.batch_outcome import Forwarded
from ottla.accumulator.flush_wait import FlushWait
from ottla.accumulator.partition_queue import FOREVER, LONG_AGO, PartitionQueue, TopicQueues
from ottla.concurrency.environment import SYSTEM, Environment
from ottla.concurrency.locks import SignalSafeLock


class QueueChecks(Protocol):
    """What the I/O thread, which checks the queues for batches that may leave, has to know without the lock."""

    @property
    def next_check_at(self) -> float:
        """The time by which it has to check them again; a new batch that is due earlier wakes it."""

    @property
    def has_unchecked(self) -> bool:
        """Return whether batches may wait that `RecordAccumulator.ready` has not checked."""


class IncompleteBatches:
    """The queues by topic, and all incomplete batches. Methods are called with the lock held."""

    def __init__(self, environment: Environment = SYSTEM) -> None:
        self.guard = SignalSafeLock(environment)
        """The lock for the callers' threads."""
        self.lock = self.guard.raw
        """The same lock for the I/O thread."""
        self._topics: dict[str, TopicQueues] = {}
        self.partitions = 0
        """The number of partitions with queues, over all topics."""
        self.waiting: OrderedDict[PartitionQueue, None] = OrderedDict()
        """The queues that have batches; the one that was served last is last in line."""
        self.all: dict[ProducerBatch, None] = {}
        """Every batch without an outcome, in the order of creation."""
        self.oldest = FOREVER
        """No waiting batch was created before this time."""
        self.next_check_at = FOREVER
        """The time at which the I/O thread checks the queues again, if it is not woken before."""
        self._flushes: dict[ProducerBatch, list[FlushWait]] = {}
        """Flushes by one batch that each waits for: a batch that completes concerns these alone, however many wait."""

    @property
    def has_unchecked(self) -> bool:
        """Return whether batches may wait that `RecordAccumulator.ready` has not checked. For the I/O thread."""
        return bool(self.waiting) or self.next_check_at == LONG_AGO

    def topic(self, name: str, partitions: int) -> TopicQueues:
        """The queues of a topic, for at least so many partitions."""
        topic = self._topics.get(name)
        if topic is None:
            topic = self._topics[name] = TopicQueues(name)
        if partitions > len(topic.queues):
            self.partitions += topic.reach(partitions)
        return topic

    def topics(self) -> Iterable[TopicQueues]:
        """The queues of all topics."""
        return self._topics.values()

    def queue(self, topic: str, partition: int) -> PartitionQueue:
        """The queue of a partition."""
        known = self._topics.get(topic)
        if known is None or partition >= len(known.queues):
            known = self.topic(topic, partition + 1)
        return known.queues[partition]

    def queue_of(self, batch: ProducerBatch) -> PartitionQueue:
        """The queue that a batch is in, or was in."""
        return self._topics[batch.topic].queues[batch.partition]

    def begin(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        """Put a new, open batch behind the others of its queue.

        After an error, such as MemoryError, the batch is in `all` and in its queue, or in neither: its completion
        returns its memory, or the caller does.
        """
        self.add_closed(queue, batch)
        queue.open = batch

    def add_closed(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        """Put a new batch that takes no records behind the others of its queue. It is never the open one.

        A `send` on another thread reads that without the lock, and would append to it.
        """
        try:
            if batch.created_at < self.oldest:
                self.oldest = batch.created_at
            self.all[batch] = None
            self.waiting.setdefault(queue)
            queue.add_closed(batch)
        except BaseException:
            if batch not in queue.batches:
                self.all.pop(batch, None)
                if not queue.batches:
                    self.waiting.pop(queue, None)
            raise

    def take(self, queue: PartitionQueue, now: float) -> ProducerBatch:
        """Remove and return the first batch of a queue; the queue becomes the last one to be drained."""
        batch = queue.take()
        if batch.drained_at is None:
            batch.behind_until = queue.taken_at
        queue.taken_at = now
        if queue.batches:
            self.waiting.move_to_end(queue)
        else:
            del self.waiting[queue]
        return batch

    def take_queued(self) -> list[ProducerBatch]:
        """Remove and return all queued batches, in the order of their queues."""
        return self.take_while(lambda _batch: True)

    def take_while(self, unwanted: Callable[[ProducerBatch], bool]) -> list[ProducerBatch]:
        """Remove batches from the heads of all queues for as long as they are *unwanted*."""
        removed: list[ProducerBatch] = []
        for queue in list(self.waiting):
            while queue.batches and unwanted(queue.batches[0]):
                removed.append(queue.take())
            if not queue.batches:
                del self.waiting[queue]
        return removed

    # Flushes

    def begin_flush(self, flush: FlushWait) -> None:
        """Let *flush* end when every batch that is incomplete now has an outcome."""
        flush.pending = list(self.all)
        self._advance(flush)

    def leave_flush(self, flush: FlushWait) -> None:
        """Have no wait for *flush* any more."""
        for batch in flush.pending:
            waiting = self._flushes.get(batch)
            if waiting is not None and flush in waiting:
                waiting.remove(flush)
                if not waiting:
                    del self._flushes[batch]
        flush.pending = []

    def _advance(self, flush: FlushWait) -> None:
        """Wait for the next batch of *flush*, the newest one first, which is likely to complete last."""
        pending = flush.pending
        while pending:
            if pending[-1] in self.all:
                self._flushes.setdefault(pending[-1], []).append(flush)
                return
            outcome = pending[-1].outcome
            pending[-1:] = outcome.parts if isinstance(outcome, Forwarded) else ()
        flush.end()

    def _advance_flushes(self, batch: ProducerBatch) -> None:
        if self._flushes:
            for flush in tuple(self._flushes.get(batch, ())):
                self._advance(flush)
            self._flushes.pop(batch, None)  # only now: after an interruption, another call does the rest

    def oldest_created_at(self) -> float | None:
        """The time at which the first record of the oldest incomplete batch was queued; None: there is none.

        For any thread, without the lock.
        """
        return min((batch.created_at for batch in list(self.all)), default=None)

    def find_oldest(self) -> None:
        """Search all queues for the creation time of the oldest batch."""
        self.oldest = min((queue.batches[0].created_at for queue in self.waiting), default=FOREVER)

    def put_first(self, *batches: ProducerBatch) -> None:
        """Put batches of one partition, in this order, before its others; the partition is drained next."""
        queue = self.queue_of(batches[0])
        for batch in reversed(batches):
            queue.put_first(batch)
            self.oldest = min(self.oldest, batch.created_at)
        self.waiting[queue] = None
        self.waiting.move_to_end(queue, last=False)

    def replace(self, batch: ProducerBatch, parts: Sequence[ProducerBatch]) -> None:
        """Queue *parts* in place of a batch that had left."""
        self.all.pop(batch, None)
        self.all.update(dict.fromkeys(parts))
        self.put_first(*parts)
        self._advance_flushes(batch)

    def remove_completed(self, batches: Iterable[ProducerBatch]) -> None:
        """Remove batches that have their outcomes, and end the flushes that have waited for them."""
        for batch in batches:
            self.all.pop(batch, None)
            self._advance_flushes(batch)

    def recover(self, unassigned: Iterable[ProducerBatch]) -> list[ProducerBatch]:
        """Repair the queues after a failed round, and return the batches in no queue, in the order of creation.

        Afterwards, the open batch of each queue is its last one, and all queues with batches are in `waiting`. The
        *unassigned* batches count as queued.
        """
        queued = set(unassigned)
        for topic in self._topics.values():
            for queue in topic.queues:
                self._recover_queue(queue)
                queued.update(queue.batches)
        lost = [batch for batch in self.all if batch not in queued]
        for batch in lost:
            if batch.queued_bytes:
                self._topics[batch.topic].count(batch, 0)
        self.find_oldest()
        self.next_check_at = LONG_AGO
        return lost

    def _recover_queue(self, queue: PartitionQueue) -> None:
        batches = queue.batches
        if queue.open is not None and (not batches or queue.open is not batches[-1]):
            queue.close()
        if queue.muted_until == FOREVER:
            queue.muted_until = LONG_AGO
        for batch in batches:
            queue.topic.count(batch, batch.columns.memory())
        if batches:
            self.waiting.setdefault(queue)
        else:
            self.waiting.pop(queue, None)

    def take_all(self) -> tuple[list[ProducerBatch], list[ProducerBatch]]:
        """Empty the queues; return the incomplete batches in no queue, and the queued ones, both in order."""
        queued = self.take_queued()
        sent = self.all.keys() - queued
        return [batch for batch in self.all if batch in sent], queued
