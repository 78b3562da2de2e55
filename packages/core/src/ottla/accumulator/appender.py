"""Queueing of records: in the open batch of their partition, or in a new one once there is memory for it.

`send` may also append to `PartitionQueue.open` directly; it calls the appender when that batch has no room.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import attrs

from ottla.accumulator.batch import UNASSIGNED, NewRecord, ProducerBatch
from ottla.accumulator.batch_memory import Allowances, MemoryGrant
from ottla.accumulator.batch_outcome import Failed
from ottla.accumulator.buffer_pool import BufferPool, Claim
from ottla.accumulator.completion import BatchCompletion
from ottla.accumulator.incomplete_batches import Backlog
from ottla.accumulator.io_loop import IoLoop
from ottla.accumulator.key_partitioning import KeyPartitioner
from ottla.accumulator.partition_queue import FOREVER, PartitionQueue, TopicQueues
from ottla.concurrency import io_threads, signals
from ottla.errors import BufferExhaustedError, IllegalStateError, OttlaError
from ottla.interfaces import Columns, TopicView
from ottla.recordbatch.section import Section


class RecordAppender:
    """Queues records. For any thread, except the last four methods, which only the accumulator calls.

    *admit* raises when no record may be queued. The lock is not held while waiting for memory, or completing batches.
    """

    def __init__(
        self,
        *,
        backlog: Backlog,
        completion: BatchCompletion,
        allowances: Allowances,
        pool: BufferPool,
        columns: Callable[[int], Columns],
        key_partitioner: KeyPartitioner | None,
        linger: float,
        max_block: float,
        admit: Callable[[], object] | None,
        io_loop: IoLoop,
        clock: Callable[[], float],
    ) -> None:
        self._backlog = backlog
        self._lock = backlog.guard
        self._completion = completion
        self._allowances = allowances
        self._pool = pool
        self._columns = columns
        self._key_partitioner = key_partitioner
        self._linger = linger
        self._max_block = max_block
        self._admit = admit
        self._io_loop = io_loop
        self._wake = io_loop.wake
        self._awaited = io_loop.run_while_waiting
        self._clock = clock
        self._unassignable: list[tuple[ProducerBatch, Exception]] = []
        self.refusal: OttlaError | None = None
        """The error that refuses new records, once there is one."""

    def queues(self, topic: str, view: TopicView) -> TopicQueues:
        """The queues of a topic, one for each partition that it has now."""
        with self._lock:
            queues = self._backlog.topic(topic, view.partitions)
            queues.view = attrs.evolve(view, queued_bytes=queues.queued_bytes)
            return queues

    def append(
        self, topic: str, partition: int, record: NewRecord, size: int, *, waited: float = 0.0
    ) -> tuple[ProducerBatch, int]:
        """Queue a record of *size* bytes, waiting at most `max.block.ms` for memory; returns its batch and index.

        The seconds that the same call has *waited* already, for metadata, are part of `max.block.ms`. With UNASSIGNED
        as the partition the record joins the topic's unassigned batch. Raises BufferExhaustedError, or the `refusal`;
        then nothing was queued.
        """
        charge = self._allowances.charge(size)
        while True:
            with self._lock:
                self._check_open()
                queue = self._backlog.queue(topic, partition)
                placed = self._append_to_open(queue, record, charge)
                if placed is not None:
                    return placed
                reserved = self._allowances.first(charge, self._backlog.partitions)
                # Mostly there is memory, and the second search is saved: 10 us of a lone record's latency.
                if queue.open is None and self._pool.try_reserve(reserved):
                    return self._append_to_new(queue, record, reserved)
            try:
                with self._claim() as claim:
                    waited += self._reserve(reserved, claim, waited=waited)
                    placed = self._append_with(claim, queue, record, charge)
            except BufferExhaustedError:
                with self._lock:
                    self._close_or_assign(queue)  # so that the batch leaves at once, and its memory comes back
                self._wake()
                raise
            if placed is not None:
                return placed

    def append_to_open(
        self, topic: str, partition: int, record: NewRecord, size: int
    ) -> tuple[ProducerBatch, int] | None:
        """Queue a record as `append` does, but never in a new batch: None when the record needs one."""
        with self._lock:
            self._check_open()
            return self._append_to_open(self._backlog.queue(topic, partition), record, self._allowances.charge(size))

    def enqueue(
        self, topic: str, partition: int, columns: Columns, *, sealed: Section | None = None, waited: float = 0.0
    ) -> ProducerBatch:
        """Queue *columns* as a batch of their own, behind the batches that their partition has so far.

        *sealed* is their encoded form, if they were sealed. Waits for memory and raises as `append` does.
        """
        # A codec may make a record a little larger than the size that was checked.
        memory = columns.memory() if sealed is None else min(sealed.size, self._pool.capacity)
        with self._claim() as claim:
            self._reserve(memory, claim, waited=waited)
            with self._lock:
                self._check_open()
                batch = ProducerBatch(topic=topic, partition=partition, columns=columns, now=self._clock())
                batch.close()
                batch.sealed, batch.full = sealed, True
                queue = self._backlog.queue(topic, partition)
                self._assign(queue.topic)
                batch.held_bytes, claim.held = claim.held, 0
                self._begin(queue, batch)
                queue.close()
                queue.topic.count(batch, memory)
        return batch

    def refuse(self, topic: str, columns: Columns, failed: Failed) -> ProducerBatch:
        """Count records that could not be queued as failed; they hold no memory."""
        batch = ProducerBatch(topic=topic, partition=UNASSIGNED, columns=columns, now=self._clock())
        with signals.Deferred():
            self._completion.complete(batch, failed)
        return batch

    def assign_partitions(self, topic: TopicQueues) -> None:
        """Partition the topic's unassigned batch, if there is one: its records come before those that follow."""
        with self._lock:
            self._assign(topic)

    def _check_open(self) -> None:
        """Raise when no record may be queued: the producer is closed, or no transaction is open."""
        if self.refusal is not None:
            raise self.refusal
        if self._admit is not None:
            self._admit()

    def _reserve(self, memory: int, claim: Claim, *, waited: float) -> float:
        """Take memory, waiting for the rest of `max.block.ms`; returns the seconds that this took."""
        # An I/O thread cannot wait: it is the one that frees memory.
        timeout = 0.0 if io_threads.on_io_thread() else max(self._max_block - waited, 0.0)
        started_at = self._clock()
        self._pool.reserve(memory, timeout=timeout, waited=waited, on_wait=self._wake, claim=claim)
        return self._clock() - started_at

    @contextmanager
    def _claim(self) -> Iterator[Claim]:
        """Return memory that is held at the end of the block, which a handler may interrupt anywhere, to the pool."""
        claim = Claim()
        try:
            try:
                yield claim
            finally:
                self._give_back(claim)
        finally:
            self._give_back(claim)  # again: a signal handler may have raised as the first call began

    def _give_back(self, claim: Claim) -> None:
        if claim.held:
            with signals.Deferred():
                held, claim.held = claim.held, 0
                self._pool.release(held)

    def _append_with(
        self, claim: Claim, queue: PartitionQueue, record: NewRecord, charge: int
    ) -> tuple[ProducerBatch, int] | None:
        """Append a record after a wait for memory; None: others have used the memory up."""
        with self._lock:
            self._check_open()
            placed = self._append_to_open(queue, record, charge)  # another thread may have begun a batch, or made room
            if placed is not None:
                return placed
            reserved, claim.held = claim.held, 0
            if queue.open is None:
                return self._append_to_new(queue, record, reserved)
            queue.open.held_bytes += reserved  # the open batch could not get this memory before
            return self._append_to_open(queue, record, charge)

    def _append_to_open(
        self, queue: PartitionQueue, record: NewRecord, charge: int
    ) -> tuple[ProducerBatch, int] | None:
        """Append a record to the open batch, which gets more memory if it needs some and may have it.

        None: there is no open batch any more, or it stays open and there is no memory.
        """
        batch = queue.open
        if batch is None:
            return None
        index = batch.append(*record)
        if index is not None:
            return batch, index
        was_full = batch.full
        grant = self._allowances.extend(batch, queue.topic, charge)
        if batch.full and not was_full:
            self._wake()
        if grant is MemoryGrant.GIVEN:
            index = batch.append(*record)
            if index is not None:
                return batch, index
        if grant is not MemoryGrant.SHORT or queue.partition == UNASSIGNED:
            self._close_or_assign(queue)
        return None

    def _append_to_new(self, queue: PartitionQueue, record: NewRecord, reserved: int) -> tuple[ProducerBatch, int]:
        """Begin a batch, which takes any record as its first; frees the *reserved* memory if that fails."""
        topic, partition = queue.topic.name, queue.partition
        batch: ProducerBatch | None = None
        try:
            batch = ProducerBatch(topic=topic, partition=partition, columns=self._columns(0), now=self._clock())
            index = batch.append(*record)
            assert index is not None, "an empty batch takes any record"
            batch.awaited = self._awaited
            self._allowances.begin(batch, queue.topic, reserved)
            self._begin(queue, batch)
        except BaseException:  # a record that the format cannot hold; Ctrl-C, after which the batch may be queued
            if batch is None or batch not in self._backlog.incomplete:
                self._pool.release(reserved)
            raise
        return batch, index

    def _begin(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        self._backlog.begin(queue, batch)
        if batch.full or len(queue.batches) > 1:
            self._wake()
        elif batch.created_at + self._linger < self._backlog.look_again_at:  # else the I/O thread checks in time anyway
            self._io_loop.batch_started(alone=len(self._backlog.incomplete) == 1)

    def _begin_unannounced(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        batch.awaited = self._awaited
        self._backlog.begin(queue, batch)

    def _close_or_assign(self, queue: PartitionQueue) -> None:
        if queue.partition == UNASSIGNED:
            self._assign(queue.topic)
        else:
            queue.close()

    def _assign(self, topic: TopicQueues, *, looking: bool = False) -> None:
        """Partition the topic's unassigned batch; *looking*: the caller is a round, which need not be woken."""
        if topic.unassigned.open is not None:
            with signals.Deferred():  # half of the records must not be lost, or both written and reported as failed
                self._assign_batch(topic, looking=looking)

    def _assign_batch(self, topic: TopicQueues, *, looking: bool) -> None:
        assert self._key_partitioner is not None, "runs are begun for partitioners that look at whole columns"
        run = self._backlog.take_unassigned(topic)
        try:
            dealt = self._key_partitioner.repartition(topic, run, self._begin_unannounced if looking else self._begin)
        except BaseException as cause:  # a faulty partitioner must not stop other topics
            self._unassignable.append(
                (run, cause if isinstance(cause, Exception) else IllegalStateError(f"broken off by {cause!r}"))
            )
            self._wake()
            if not isinstance(cause, Exception):
                raise
            return
        finally:
            topic.unassigned.open = (
                None  # not before: records sent to a partition meanwhile have to wait for those of the batch
            )
        surplus, run.held_bytes = run.held_bytes, 0
        self._pool.release(surplus)
        run.forward_to(dealt)
        run.columns.release()
        self._backlog.settled([run])
        if not looking and any(batch.full for batch in dealt.parts):
            self._wake()

    # For the accumulator, the first two under the lock

    def assign_lingered(self, now: float, *, urgent: bool) -> float:
        """Partition the unassigned batches that have lingered, all if *urgent*; returns when the next one will have."""
        next_at = FOREVER
        for topic in list(self._backlog.unassigned):
            due = now if urgent else topic.unassigned.batches[0].created_at + self._linger
            if due <= now:
                self._assign(topic, looking=True)
            elif due < next_at:
                next_at = due
        return next_at

    def seal_open_batches(self) -> None:
        """Let every queued batch take no more records and leave."""
        for topic in list(self._backlog.unassigned):
            self._assign(topic)
        for queue in self._backlog.waiting:
            queue.close()

    def fail_later(self, run: ProducerBatch) -> None:
        """Have `fail_unassigned` fail an unassigned batch that a failed round has left in no queue."""
        with self._lock:
            if not any(other is run for other, _cause in self._unassignable):
                self._unassignable.append(
                    (run, IllegalStateError("the round of the I/O thread that looked for them failed"))
                )
            topic = self._backlog.topic(run.topic, 0)
            if topic.unassigned.open is run:
                topic.unassigned.open = None
        run.close()

    def fail_unassigned(self) -> None:
        """Fail the unassigned batches for whose records no partition could be chosen."""
        with self._lock:
            undealt, self._unassignable = self._unassignable, []
        for run, cause in undealt:
            short = isinstance(cause, MemoryError | BufferExhaustedError)
            why = "there was no memory to queue them" if short else f"no partition could be chosen: {cause}"
            self._completion.give_up(run, cause, why=why)
