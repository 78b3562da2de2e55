"""Appending to a queue's open batch, or to a new one once there is memory for it: the base of both appenders."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

import attrs

from ottla.accumulator.append_permission import AppendPermission
from ottla.accumulator.batch import NewRecord, ProducerBatch
from ottla.accumulator.batch_completion import BatchCompletion
from ottla.accumulator.batch_memory import BatchMemory, MemoryGrant
from ottla.accumulator.buffer_pool import BufferPool, Claim
from ottla.accumulator.incomplete_batches import IncompleteBatches
from ottla.accumulator.io_loop_interface import EventLoop, IoLoop
from ottla.accumulator.partition_queue import PartitionQueue
from ottla.accumulator.time_settings import TimeSettings
from ottla.concurrency import io_threads, signals
from ottla.config.wait_limit import WaitLimit
from ottla.errors import BufferExhaustedError
from ottla.interfaces import Columns
from ottla.results.stories.tries import CloseReason
from ottla.results.stories.waits import SHORTEST, Journal

Placed: TypeAlias = tuple[ProducerBatch, int]
"""The batch that a record is in, and its index there."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class AppenderParts:
    """The parts of a producer that both of its appenders use."""

    batches: IncompleteBatches
    completion: BatchCompletion
    pool: BufferPool
    columns: Callable[[int], Columns]
    permission: AppendPermission
    times: TimeSettings
    io_loop: IoLoop
    journal: Journal
    clock: Callable[[], float]


class MemoryWait:
    """A record's place among those that wait for `buffer.memory`. No thread is blocked. For any thread.

    Pass it to the next `try_append` of the same record, which appends the record with the memory that the wait got. If
    the record is not to be sent any more, call `cancel`, which returns that memory.
    """

    __slots__ = ("_pool", "_waiter", "queue", "transaction")

    def __init__(self, pool: BufferPool, needed: MemoryNeeded, transaction: int) -> None:
        self._pool = pool
        self._waiter = pool.join_queue(needed.size, min_bytes=needed.min_bytes)
        self.queue = needed.queue
        self.transaction = transaction

    @property
    def began_at(self) -> float:
        """The time at which it began."""
        return self._waiter.since

    @property
    def ready(self) -> bool:
        """Return whether to call `try_append` again: the memory is reserved, or the producer is closed."""
        return self._waiter.served.is_set

    def on_ready(self, callback: Callable[[], object]) -> None:
        """Call *callback* once the wait is ready, on any thread; immediately, on this thread, if it is ready now.

        The callback may run under locks of the producer: it must not call the producer, wait, or raise.
        `loop.call_soon_threadsafe` is such a function.
        """
        self._pool.notify(self._waiter, callback)

    def cancel(self) -> None:
        """End the wait and return its memory, if any. Has no effect when repeated, or after the record was queued."""
        self._pool.leave(self._waiter)

    def accept_min_bytes(self) -> bool:
        """Make the wait ready if it has got enough for the record alone; its time is over. Return whether it is."""
        return self._pool.accept_min_bytes(self._waiter)

    def take(self, claim: Claim) -> bool:
        """End the wait: move its memory to *claim*. Does not block.

        Return False if it has none: others may have what was not taken in time. Then the wait goes on. Raises the
        refusal of a closed pool.
        """
        return self._pool.take(self._waiter, claim)

    def give_up(self, *, before: float, limit: str) -> None:
        """End a wait that is not ready: raises BufferExhaustedError, or as `take`. Returns if it has just become ready.

        The error reports the seconds that the call waited *before*, for metadata, and names their *limit*.
        """
        self._pool.give_up(self._waiter, before=before, limit=limit)


@attrs.frozen(eq=False, repr=False)
class MemoryNeeded:
    """A record's queue, and the memory to reserve before the record can be appended there.

    `size` is enough for the beginning of a batch, `min_bytes` for the record alone.
    """

    queue: PartitionQueue
    size: int
    min_bytes: int


class RecordAppender(ABC):
    """Appends records to batches. The lock is not held while waiting for memory, or completing batches.

    The abstract methods are called under the lock.
    """

    def __init__(self, parts: AppenderParts, memory: BatchMemory) -> None:
        self._batches = parts.batches
        self._lock = parts.batches.guard
        self._completion = parts.completion
        self._memory = memory
        self._pool = parts.pool
        self._columns = parts.columns
        self._permission = parts.permission
        self._linger = parts.times.linger
        self._max_block = parts.times.max_block
        self._io_loop = parts.io_loop
        self._wake = parts.io_loop.wake
        self._run_while_waiting = parts.io_loop.run_while_waiting
        self._clock = parts.clock
        self._journal = parts.journal

    @abstractmethod
    def _queue_of(self, topic: str, partition: int) -> PartitionQueue:
        """The queue for a record."""

    @abstractmethod
    def _begin(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        """Put a new batch behind the others of its queue."""

    @abstractmethod
    def _close(self, queue: PartitionQueue, why: CloseReason) -> None:
        """Let the open batch, if there is one, take no more records."""

    def append(
        self,
        topic: str,
        partition: int,
        record: NewRecord,
        size: int,
        *,
        waited: float = 0.0,
        timeout: float | None = None,
        transaction: int | None = None,
    ) -> Placed:
        """Queue a record of *size* bytes, waiting for memory, and return its batch and index.

        *timeout* limits the whole call in seconds; None means `max.block.ms`. *waited* is how much of it is over, for
        metadata. The record is queued in the *transaction* that was open as the caller's call began, or in none; None
        is the one that is open now. Raises BufferExhaustedError, or what `AppendPermission.check` raises; then nothing
        was queued.
        """
        charge = self._memory.charge(size)
        for_memory = 0.0
        if transaction is None:
            transaction = self._permission.transaction
        while True:
            with self._lock:
                placed = self._place(topic, partition, record, charge, transaction)
            if not isinstance(placed, MemoryNeeded):
                if waited > SHORTEST:
                    note_wait(placed, waited - for_memory, for_memory)
                return placed
            queue = placed.queue
            try:
                with self._claim() as claim:
                    reserving = self._reserve(
                        placed.size, claim, min_bytes=placed.min_bytes, waited=waited, timeout=timeout
                    )
                    waited += reserving
                    for_memory += reserving
                    found = self._append_with(claim, queue, record, charge, transaction)
            except BufferExhaustedError:
                self._close_for_memory(queue)
                raise
            if found is not None:
                if waited > SHORTEST:
                    note_wait(found, waited - for_memory, for_memory)
                return found

    def try_append(
        self,
        topic: str,
        partition: int,
        record: NewRecord,
        size: int,
        *,
        wait: MemoryWait | None = None,
        event_loop: EventLoop | None = None,
        transaction: int | None = None,
    ) -> Placed | MemoryWait:
        """Queue a record as `append` does, but never block: returns a `MemoryWait` if there is no memory.

        Call the method again with that *wait* once it is ready. To give up the record, call the wait's `cancel`.
        *event_loop*: see `IoLoop.batch_started`.
        """
        charge = self._memory.charge(size)
        if wait is not None:
            transaction = wait.transaction
        elif transaction is None:
            transaction = self._permission.transaction
        while True:
            if wait is None:
                with self._lock:
                    placed = self._place(topic, partition, record, charge, transaction, event_loop)
                if not isinstance(placed, MemoryNeeded):
                    return placed
                wait = MemoryWait(self._pool, placed, transaction)
                if not wait.ready:
                    self._wake()
            if not wait.ready:
                return wait
            with self._claim() as claim:
                if not wait.take(claim):
                    return wait  # others have its memory
                found = self._append_with(claim, wait.queue, record, charge, transaction, event_loop)
            if found is not None:
                if (seconds := self._clock() - wait.began_at) > SHORTEST:
                    note_wait(found, 0.0, seconds)
                return found
            wait = None

    def time_out(self, wait: MemoryWait, *, waited: float = 0.0, timeout: float | None = None) -> None:
        """End a wait whose time has run out: raises BufferExhaustedError, as `append` does; returns if it is ready.

        The error reports the seconds that the same call has *waited* before, for metadata.
        """
        limit = WaitLimit.of(timeout, max_block=self._max_block)
        if wait.ready or wait.accept_min_bytes():
            return
        try:
            wait.give_up(before=waited, limit=limit.name)  # memory may come free just now: then the wait is ready
        except BaseException:
            self._close_for_memory(wait.queue)
            raise

    def _place(
        self,
        topic: str,
        partition: int,
        record: NewRecord,
        charge: int,
        transaction: int,
        event_loop: EventLoop | None = None,
    ) -> Placed | MemoryNeeded:
        """Queue a record if there is memory. Under the lock."""
        self._permission.check(transaction)
        queue = self._queue_of(topic, partition)
        if queue.open is not None:
            placed = self._append_to_open(queue, record, charge)
            if placed is not None:
                return placed
        needed = self._memory.first(charge, self._batches.partitions)
        # Usually memory is free, and no second search for the queue is needed: 10 µs of a lone record's latency.
        if queue.open is None and self._pool.try_reserve(needed):
            return self._append_to_new(queue, record, needed, event_loop)
        return MemoryNeeded(queue, needed, charge)

    def _append_with(
        self,
        claim: Claim,
        queue: PartitionQueue,
        record: NewRecord,
        charge: int,
        transaction: int,
        event_loop: EventLoop | None = None,
    ) -> Placed | None:
        """Append a record after a wait for memory. Return None if others have used the memory up."""
        with self._lock:
            self._permission.check(transaction)
            placed = self._append_to_open(queue, record, charge)  # another thread may have begun a batch, or made room
            if placed is not None:
                return placed
            reserved, claim.held = claim.held, 0
            if queue.open is None:
                return self._append_to_new(queue, record, reserved, event_loop)
            queue.open.held_bytes += reserved  # the open batch could not get this memory before
            return self._append_to_open(queue, record, charge)

    def _append_to_open(self, queue: PartitionQueue, record: NewRecord, charge: int) -> Placed | None:
        """Append a record to the open batch, which gets more memory if it needs some and may have it.

        Returns None if there is no open batch any more, or if it stays open and there is no memory.
        """
        batch = queue.open
        if batch is None:
            return None
        index = batch.append(*record)
        if index is not None:
            return batch, index
        was_full = batch.full
        grant = self._memory.extend(batch, queue.topic, charge)
        if batch.full and not was_full:
            batch.closed_by, batch.closed_at = CloseReason.FULL, self._clock()
            self._wake()
        if grant is MemoryGrant.GIVEN:
            index = batch.append(*record)
            if index is not None:
                return batch, index
        if grant is not MemoryGrant.SHORT:
            self._close(queue, CloseReason.FULL)
        return None

    def _append_to_new(
        self, queue: PartitionQueue, record: NewRecord, reserved: int, event_loop: EventLoop | None
    ) -> Placed:
        """Begin a batch, which takes any record as its first; frees the *reserved* memory if that fails."""
        topic, partition = queue.topic.name, queue.partition
        batch: ProducerBatch | None = None
        try:
            batch = ProducerBatch(topic=topic, partition=partition, columns=self._columns(reserved), now=self._clock())
            index = batch.append(*record)
            assert index is not None, "an empty batch takes any record"
            batch.run_while_waiting = self._run_while_waiting
            batch.journal = self._journal
            self._memory.begin(batch, queue.topic, reserved)
            self._begin(queue, batch)
            self._announce(queue, batch, event_loop)
        except BaseException:  # a record that the format cannot hold; Ctrl-C, after which the batch may be queued
            if batch is None or batch not in self._batches.all:
                self._pool.release(reserved)
            raise
        return batch, index

    def _announce(self, queue: PartitionQueue, batch: ProducerBatch, event_loop: EventLoop | None = None) -> None:
        """Have the I/O thread check the queues in time for this new batch."""
        if batch.full or len(queue.batches) > 1:
            self._wake()
        elif batch.created_at + self._linger < self._batches.next_check_at:  # else it checks in time anyway
            self._io_loop.batch_started(alone=len(self._batches.all) == 1, event_loop=event_loop)

    def _close_for_memory(self, queue: PartitionQueue) -> None:
        """Let the open batch leave immediately, so that its memory is free again."""
        with self._lock:
            self._close(queue, CloseReason.MEMORY)
        self._wake()

    def _reserve(
        self, memory: int, claim: Claim, *, min_bytes: int | None = None, waited: float, timeout: float | None
    ) -> float:
        """Take memory, waiting for it as long as the call may still wait, and return the seconds that this took."""
        limit = WaitLimit.of(timeout, max_block=self._max_block)
        # An I/O thread cannot wait: it is the one that frees memory.
        seconds = 0.0 if io_threads.on_io_thread() else max(limit.seconds - waited, 0.0)
        started_at = self._clock()
        self._pool.reserve(
            memory,
            min_bytes=min_bytes,
            timeout=seconds,
            waited=waited,
            limit=limit.name,
            on_wait=self._wake,
            claim=claim,
        )
        return self._clock() - started_at

    @contextmanager
    def _claim(self) -> Iterator[Claim]:
        """Yield a claim. If it still holds memory at the end of the block, return it to the pool.

        A signal handler may interrupt the block anywhere.
        """
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


def note_wait(placed: Placed, for_topic: float, for_memory: float) -> None:
    """Note how many seconds `send` waited before it queued a record; the batch keeps its longest wait."""
    batch, _index = placed
    if batch.waited is None or sum(batch.waited) < for_topic + for_memory:
        batch.waited = (for_topic, for_memory)
