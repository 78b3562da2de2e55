"""Queueing of records with keys for partitioners that are quick only for many keys in one call.

The records of a topic wait in its unassigned batch. When that is full or its linger time has ended, their partitions
are chosen, and they are forwarded to the open batches of these. Other parts only see a batch that forwards its records.
"""

from __future__ import annotations

from collections.abc import Collection

from ottla.accumulator.batch import UNASSIGNED, ProducerBatch
from ottla.accumulator.batch_outcome import Forwarded
from ottla.accumulator.key_partitioning import KeyPartitioner
from ottla.accumulator.partition_queue import FOREVER, PartitionQueue, TopicQueues
from ottla.accumulator.record_appender import AppenderParts, RecordAppender
from ottla.accumulator.unassigned_memory import UnassignedMemory
from ottla.concurrency import signals
from ottla.errors import BufferExhaustedError, IllegalStateError
from ottla.results.stories.tries import CloseReason


class KeyedAppender(RecordAppender):
    """Queues records in unassigned batches, one for each topic. The partition is always UNASSIGNED.

    The inherited methods and `assign_partitions` are for any thread. The others are for the accumulator; those from
    `assign` on are called under the lock.
    """

    def __init__(self, parts: AppenderParts, memory: UnassignedMemory, *, partitioner: KeyPartitioner | None) -> None:
        super().__init__(parts, memory)
        self._partitioner = partitioner
        self._lingering: dict[TopicQueues, None] = {}  # topics with an unassigned batch
        self._failed: list[tuple[ProducerBatch, Exception]] = []  # batches for which no partitions could be chosen

    def assign_partitions(self, topic: TopicQueues) -> None:
        """Partition the topic's unassigned batch, if there is one: its records come before those that follow."""
        with self._lock:
            self.assign(topic)

    def fail_unassigned(self) -> None:
        """Fail the batches for whose records no partition could be chosen, and run their callbacks. Takes the lock."""
        if not self._failed:  # adding one wakes a round
            return
        with self._lock:
            failed, self._failed = self._failed, []
        for batch, cause in failed:
            short = isinstance(cause, MemoryError | BufferExhaustedError)
            why = "there was no memory to queue them" if short else f"no partition could be chosen: {cause}"
            self._completion.fail(batch, cause, why=why)

    def recover(self, batch: ProducerBatch) -> bool:
        """Repair a batch that a failed round has left in no queue. Return False if it is not an unassigned batch."""
        if batch.partition != UNASSIGNED:
            return False
        match batch.outcome:
            case None:
                with self._lock:
                    self._recover(batch)
                batch.close()
                return True
            case Forwarded():
                batch.forward_callbacks()
                with self._lock:
                    self._batches.remove_completed([batch])
                return True
        return False

    def assign(self, topic: TopicQueues, *, in_round: bool = False) -> None:
        """Partition the topic's unassigned batch, if there is one; *in_round*: a round runs, so none is woken."""
        if topic.unassigned.open is not None:
            with signals.Deferred():  # half of the records must not be lost, or both written and reported as failed
                self._assign(topic, in_round=in_round)

    def assign_lingered(self, now: float, *, urgent: bool) -> float:
        """Partition the unassigned batches that are full or whose linger time has ended, or all if *urgent*.

        Returns the time at which the linger time of the next one ends.
        """
        next_at = FOREVER
        for topic in list(self._lingering):
            batch = topic.unassigned.batches[0]
            due = now if urgent or batch.full else batch.created_at + self._linger
            if due <= now:
                self.assign(topic, in_round=True)
            elif due < next_at:
                next_at = due
        return next_at

    def assign_all(self) -> None:
        """Partition all unassigned batches."""
        for topic in list(self._lingering):
            self.assign(topic)

    def refuse_records(self) -> None:
        """Let the unassigned batches take no more records."""
        for topic in self._lingering:
            topic.unassigned.batches[0].close()

    def take_all(self) -> list[ProducerBatch]:
        """Remove and close all unassigned batches, without partitions for their records."""
        taken = [batch for batch, _cause in self._failed]
        self._failed = []
        for topic in list(self._lingering):
            taken.append(self._take(topic))
            topic.unassigned.open = None
        return taken

    def recover_queues(self) -> Collection[ProducerBatch]:
        """Repair the queues after a failed round, and return the unassigned batches that are queued."""
        queued: list[ProducerBatch] = []
        for topic in self._batches.topics():
            queued += topic.unassigned.batches
            if topic.unassigned.batches:
                self._lingering[topic] = None
            else:
                self._lingering.pop(topic, None)
        return queued

    def _queue_of(self, topic: str, partition: int) -> PartitionQueue:
        return self._batches.topic(topic, 0).unassigned

    def _begin(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        try:  # see `IncompleteBatches.begin`
            self._batches.all[batch] = None
            self._lingering[queue.topic] = None
            queue.begin(batch)
        except BaseException:
            if batch not in queue.batches:
                self._batches.all.pop(batch, None)
                self._lingering.pop(queue.topic, None)
            raise

    def _close(self, queue: PartitionQueue, why: CloseReason) -> None:
        self.assign(queue.topic)

    def _assign(self, topic: TopicQueues, *, in_round: bool) -> None:
        assert self._partitioner is not None, "only records for a partitioner of columns are appended here"
        batch = self._take(topic)
        try:
            forwarded = self._partitioner.repartition(
                topic, batch, self._begin_in_round if in_round else self._begin_assigned
            )
        except BaseException as cause:  # a faulty partitioner must not stop other topics
            known = cause if isinstance(cause, Exception) else IllegalStateError(f"interrupted by {cause!r}")
            self._failed.append((batch, known))
            self._wake()
            if not isinstance(cause, Exception):
                raise
            return
        finally:
            # Not before: records that are sent to a partition meanwhile have to wait for those of the batch.
            topic.unassigned.open = None
        surplus, batch.held_bytes = batch.held_bytes, 0
        self._pool.release(surplus)
        batch.forward_to(forwarded)
        batch.columns.release()
        self._batches.remove_completed([batch])
        if not in_round and any(part.full for part in forwarded.parts):
            self._wake()

    def _take(self, topic: TopicQueues) -> ProducerBatch:
        """Remove and close the unassigned batch of a topic; its queue keeps it as `open` until it is partitioned."""
        del self._lingering[topic]
        batch = topic.unassigned.batches.popleft()
        batch.close()
        return batch

    def _begin_assigned(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        self._begin_in_round(queue, batch)
        self._announce(queue, batch)

    def _begin_in_round(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        batch.run_while_waiting = self._run_while_waiting
        batch.journal = self._journal
        self._batches.begin(queue, batch)

    def _recover(self, batch: ProducerBatch) -> None:
        """Have `fail_unassigned` fail a batch that is in no queue. Under the lock."""
        if not any(other is batch for other, _cause in self._failed):
            self._failed.append(
                (batch, IllegalStateError("the round of the I/O thread that was to choose their partitions failed"))
            )
        topic = self._batches.topic(batch.topic, 0)
        if topic.unassigned.open is batch:
            topic.unassigned.open = None
