"""Queueing of records for partitions: in the open batch, or in a new one once there is memory for it.

`send` may also append to `PartitionQueue.open` directly; it calls the appender when that batch has no room.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

from ottla.accumulator.batch import UNASSIGNED, NewRecord, ProducerBatch
from ottla.accumulator.batch_memory import BATCH_COST, BatchMemory
from ottla.accumulator.batch_outcome import Failed
from ottla.accumulator.keyed_appender import KeyedAppender
from ottla.accumulator.partition_queue import PartitionQueue, TopicQueues
from ottla.accumulator.record_appender import AppenderParts, Placed, RecordAppender, note_wait
from ottla.concurrency import signals
from ottla.interfaces import Columns, TopicView
from ottla.recordbatch.sealed_records import SealedRecords
from ottla.results.stories.tries import CloseReason
from ottla.results.stories.waits import SHORTEST


class PartitionAppender(RecordAppender):
    """Queues records for partitions. For any thread; `close_open_batches` is called with the lock held.

    *keyed* holds earlier records, whose partitions are not chosen yet.
    """

    def __init__(self, parts: AppenderParts, memory: BatchMemory, *, keyed: KeyedAppender) -> None:
        super().__init__(parts, memory)
        self._keyed = keyed

    def queues(self, topic: str, view: TopicView) -> TopicQueues:
        """The queues of a topic, one for each partition that it has now."""
        with self._lock:
            queues = self._batches.topic(topic, view.partitions)
            queues.view = attrs.evolve(view, queued_bytes=queues.queued_bytes)
            return queues

    def append_to_open(
        self, topic: str, partition: int, record: NewRecord, size: int, *, transaction: int | None = None
    ) -> Placed | None:
        """Queue a record as `append` does, but never in a new batch: None when the record needs one."""
        with self._lock:
            self._permission.check(transaction)
            return self._append_to_open(self._batches.queue(topic, partition), record, self._memory.charge(size))

    def enqueue(
        self,
        topic: str,
        partition: int,
        columns: Columns,
        *,
        sealed: SealedRecords | None = None,
        waited: float = 0.0,
        timeout: float | None = None,
        check: Callable[[], object] | None = None,
        on_queued: Callable[[ProducerBatch], object] | None = None,
    ) -> ProducerBatch:
        """Queue *columns* as a separate batch, behind the batches that their partition has so far.

        *sealed* is their encoded form, if they were sealed. Waits for memory and raises as `append` does. *check* is
        called after that wait, with the lock held: if it raises, nothing is queued. *on_queued* is called with the lock
        held: no interrupt comes between it and the queueing.
        """
        memory = columns.memory() if sealed is None else sealed.size
        # A row may need all memory for itself, and a codec may make it a little larger than the size that was checked.
        needed = min(memory + BATCH_COST, self._pool.capacity)
        with self._claim() as claim:
            for_memory = self._reserve(needed, claim, waited=waited, timeout=timeout)
            with self._lock:
                if check is not None:
                    check()
                self._permission.check()
                batch = ProducerBatch(topic=topic, partition=partition, columns=columns, now=self._clock())
                batch.close()
                batch.closed_by, batch.closed_at = CloseReason.TABLE, batch.created_at
                batch.journal = self._journal
                batch.sealed, batch.full = sealed, True
                queue = self._batches.queue(topic, partition)
                self._keyed.assign(queue.topic)
                batch.overhead = BATCH_COST
                batch.held_bytes, claim.held = claim.held, 0
                self._batches.add_closed(queue, batch)
                if on_queued is not None:
                    on_queued(batch)
                self._announce(queue, batch)
                queue.topic.count(batch, memory)
        if waited + for_memory > SHORTEST:
            note_wait((batch, 0), waited, for_memory)
        return batch

    def refuse(self, topic: str, columns: Columns, failed: Failed) -> ProducerBatch:
        """Count records that could not be queued as failed; they hold no memory."""
        batch = ProducerBatch(topic=topic, partition=UNASSIGNED, columns=columns, now=self._clock())
        with signals.Deferred():
            self._completion.complete(batch, failed)
        return batch

    def close_open_batches(self, why: CloseReason) -> None:
        """Close all queued batches, so that they leave without lingering. Under the lock."""
        self._keyed.assign_all()
        self._close_assigned(why)

    def refuse_records(self, why: CloseReason) -> None:
        """Close all queued batches but unassigned ones, whose partitions `close_open_batches` chooses later."""
        self._keyed.refuse_records()
        self._close_assigned(why)

    def _close_assigned(self, why: CloseReason) -> None:
        now = self._clock()
        for queue in self._batches.waiting:
            queue.close(why, now)

    def _queue_of(self, topic: str, partition: int) -> PartitionQueue:
        return self._batches.queue(topic, partition)

    def _begin(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        self._batches.begin(queue, batch)

    def _close(self, queue: PartitionQueue, why: CloseReason) -> None:
        queue.close(why, self._clock())
