"""The record accumulator: all batches of a producer, and the choice of those that may leave now.

It holds records until a batch is full or its linger time has ended; it handles neither requests nor connections.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

import attrs

from ottla.accumulator.append_permission import AppendPermission, OpenTransaction
from ottla.accumulator.batch import ProducerBatch
from ottla.accumulator.batch_completion import BatchCompletion
from ottla.accumulator.batch_memory import BatchMemory
from ottla.accumulator.batch_outcome import Acknowledged, Failed, Forwarded
from ottla.accumulator.batch_sizes import BatchSizes
from ottla.accumulator.buffer_pool import BufferPool
from ottla.accumulator.delivery_counts import Report
from ottla.accumulator.delivery_errors import delivery_failed, dropped, expired
from ottla.accumulator.flushes import Flushes
from ottla.accumulator.hanging_plugins import LOCK_TIMEOUT_SECONDS, HangingPlugins
from ottla.accumulator.incomplete_batches import IncompleteBatches, QueueChecks
from ottla.accumulator.io_loop_interface import IoLoop
from ottla.accumulator.key_partitioning import KeyPartitioner
from ottla.accumulator.keyed_appender import KeyedAppender
from ottla.accumulator.lone_batch import LoneBatch
from ottla.accumulator.partition_appender import PartitionAppender
from ottla.accumulator.partition_queue import FOREVER, LONG_AGO, PartitionQueue
from ottla.accumulator.readiness import Readiness, only_lingers
from ottla.accumulator.record_appender import AppenderParts
from ottla.accumulator.sealing import DrainedBatches, alike
from ottla.accumulator.sequences import Sequences
from ottla.accumulator.slow_records import SlowRecords
from ottla.accumulator.time_settings import TimeSettings
from ottla.accumulator.unassigned_memory import UnassignedMemory
from ottla.concurrency.environment import SYSTEM, Environment
from ottla.errors import OttlaError
from ottla.interfaces import Columns
from ottla.metrics import Counters
from ottla.network.cluster import Cluster
from ottla.recordbatch.sealed_records import SealedRecords
from ottla.results.stories.tries import CloseReason
from ottla.results.stories.waits import Journal

GROWING_IN_A_REQUEST: Final = 128
"""The maximum number of batches in one request that could still take records; further ones wait and collect more.

Full batches do not count, and neither do closed ones, such as those of a flush. The last batch that counts ends the
request.

Without the limit, the batches of thousands of partitions would leave with a record each as soon as their linger time
ends. Each would cost as much here and at the broker as a full one. Where the broker's files are slow to write, a
request with thousands of batches would not be answered within `request.timeout.ms`.
"""


FILL_REQUEST_TO: Final = 32
"""A request with fewer batches is filled up to this number, if the linger time of one of its batches has ended.

It is filled with batches that still linger, because otherwise each of these would take its own request a moment
later, and only five may be in flight to a broker, which limits the rate if it is distant.
"""


FIRST_IN_LINE: Final = 2 * GROWING_IN_A_REQUEST
"""The number of queues, for each broker, that a drain copies at first.

A copy of thousands of queues touches each of them, which takes longer than to take the batches of one request.
"""


def _no_obstacle(_batch: ProducerBatch) -> None:
    """Return None: no obstacle is known."""


@attrs.define(kw_only=True, eq=False, repr=False)  # frozen takes more than twice as long to make, for each round
class Ready:
    """Brokers with batches that may leave now, topics that lack a leader, and when to check again; each once.

    Once every broker has a batch that may leave, `ready` stops early, so `leaderless` and `soon` may be incomplete.

    `soon`: brokers whose batches wait only for a producer id, or for their partition to be added to the transaction.
    """

    nodes: tuple[int, ...]
    soon: tuple[int, ...]
    leaderless: tuple[str, ...]
    next_check_at: float


class RecordAccumulator:
    """The queued batches of a producer, and the choice of those that may leave.

    The methods are for the I/O thread. For any thread are those of the appenders, `close_open_batches`, `flush`,
    `close`, `abort` with *off_io_thread*, `fail_after_fork` and `report`.
    *sequences* numbers batches, and decides which may leave; *transactions* are those of a transactional producer.
    """

    def __init__(
        self,
        *,
        sizes: BatchSizes,
        times: TimeSettings,
        pool: BufferPool,
        columns: Callable[[int], Columns],
        seal: Callable[[ProducerBatch, int], SealedRecords],
        key_partitioner: KeyPartitioner | None,
        sequences: Sequences,
        transactions: OpenTransaction | None = None,
        counters: Counters | None = None,
        io_loop: IoLoop,
        environment: Environment = SYSTEM,
    ) -> None:
        clock = self._clock = environment.clock
        self._batches = IncompleteBatches(environment)
        self._lock, self._guard = self._batches.lock, self._batches.guard
        self.hanging = HangingPlugins(self._batches)
        """Plugins that hang under the lock."""
        self.pool = pool
        """The memory of all batches."""
        self.permission = AppendPermission(transactions)
        """Decides whether new records may be queued."""
        self.journal = Journal(linger=times.linger, clock=clock)
        """What batches wait for, for the stories of their records."""
        self.slow = SlowRecords(times.slow_record_threshold, self._batches.all)
        """Slow batches, which are to be logged."""
        self._completion = BatchCompletion(
            on_complete=self._remove,
            pool=pool,
            sequences=sequences,
            counters=counters,
            io_loop=io_loop,
            journal=self.journal,
            slow=self.slow,
            environment=environment,
        )
        self.failures = self._completion.failures
        """A count of the batches that have failed, and a callback."""
        self.unretrieved = self._completion.unretrieved
        """Failed records whose error the program can no longer retrieve; they are to be logged."""
        self.oldest_created_at = self._batches.oldest_created_at
        self.queue_checks: QueueChecks = self._batches
        """What the I/O thread has to know about the checks of the queues."""
        parts = AppenderParts(
            batches=self._batches,
            completion=self._completion,
            pool=pool,
            columns=columns,
            permission=self.permission,
            times=times,
            io_loop=io_loop,
            journal=self.journal,
            clock=clock,
        )
        self.keyed_appender = KeyedAppender(
            parts, UnassignedMemory(sizes=sizes, pool=pool), partitioner=key_partitioner
        )
        """Queues records with keys until the *key_partitioner* chooses their partitions. For any thread."""
        self.appender = PartitionAppender(parts, BatchMemory(sizes=sizes, pool=pool), keyed=self.keyed_appender)
        """Queues new records for partitions. For any thread."""
        self._readiness = Readiness(linger=times.linger, sequences=sequences, pool=pool, permission=self.permission)
        self._lone_batch = LoneBatch(batches=self._batches, readiness=self._readiness, sequences=sequences, times=times)
        self._drained = DrainedBatches(
            seal=seal, sequences=sequences, pool=pool, completion=self._completion, journal=self.journal, clock=clock
        )
        self._delivery_timeout = times.delivery_timeout
        self._retry_backoff = times.retry_backoff
        self._sequences = sequences
        self._in_transaction = sequences.transactional
        self._lock_is_lost = False  # a plugin hangs under it, and the producer has ended
        self._wake = io_loop.wake
        self.flushes = Flushes(self._batches, self.appender, wake=lambda: self._wake(), environment=environment)
        """Flushes. For any thread."""

    @property
    def incomplete(self) -> int:
        """The number of batches without an outcome."""
        return len(self._batches.all)

    def last_error(self) -> OttlaError | None:
        """Return the last error of the oldest incomplete batch that has one. For any thread, without the lock."""
        return next((batch.last_error for batch in list(self._batches.all) if batch.last_error is not None), None)

    def ready(self, cluster: Cluster, now: float) -> Ready:
        """Find the brokers with batches that may leave, and the time at which that may change without a new record."""
        # With an order of their own: that of sets is another one in each interpreter, and a history would be, too.
        nodes: dict[int, None] = {}
        soon: dict[int, None] = {}
        leaderless: dict[str, None] = {}
        readiness = self._readiness
        urgent = readiness.urgent
        self.keyed_appender.fail_unassigned()
        with self._lock:
            next_check_at = self.keyed_appender.assign_lingered(now, urgent=urgent)
            oldest = FOREVER
            all_wanted = False
            for queue in self._batches.waiting:  # often thousands, so without min and max
                if nodes and len(nodes) == len(cluster.brokers) and not self._in_transaction:
                    # Each broker has a batch that may leave. The other batches are checked after the drain
                    # (`has_unchecked`).
                    oldest = min(oldest, self._batches.oldest)
                    all_wanted = True
                    break
                head = queue.batches[0]
                if head.created_at < oldest:
                    oldest = head.created_at
                leader = cluster.leader(queue.topic.name, queue.partition)
                if leader is None:
                    leaderless[queue.topic.name] = None
                    continue
                due = readiness.due(queue, head, cluster, urgent=urgent)
                if due > now:
                    if due < next_check_at:
                        next_check_at = due
                elif leader not in nodes or self._in_transaction:
                    if readiness.may_leave(head):
                        nodes[leader] = None
                    else:
                        soon[leader] = None
                        head.mark_held(now)
            self._batches.oldest = oldest
            next_check_at = min(next_check_at, oldest + self._delivery_timeout)
            self._batches.next_check_at = LONG_AGO if all_wanted else next_check_at
        return Ready(
            nodes=tuple(nodes),
            soon=tuple(soon),
            leaderless=tuple(leaderless),
            next_check_at=next_check_at,
        )

    def drain(
        self, cluster: Cluster, nodes: Collection[int], *, max_size: int, now: float
    ) -> dict[int, list[ProducerBatch]]:
        """Take and seal the ready batches of these brokers: at most *max_size* bytes each, but at least one batch.

        A partition that was drained goes to the end of the line, so that no partition starves.
        """
        drained: dict[int, list[ProducerBatch]] = {}
        free_bytes = dict.fromkeys(nodes, max_size)
        for node, batch in self._take_ready(cluster, free_bytes, now):
            sealed = self._drained.seal_or_fail(batch, node)
            if sealed is None:
                continue
            batches = drained.setdefault(node, [])
            size = sealed.wire_size
            if batches and (size > free_bytes[node] or not alike(batches[0], batch)):
                with self._lock:
                    self._batches.put_first(batch)
                free_bytes[node] = 0
                continue
            if not self._drained.assign_sequence_or_fail(batch, sealed):
                continue
            free_bytes[node] -= size
            batch.leader_epoch = cluster.leader_epoch(batch.topic, batch.partition)
            batches.append(batch)
        return drained

    def drain_lone(
        self, cluster: Cluster, *, takes: Callable[[int], bool], now: float
    ) -> tuple[int, Sequence[ProducerBatch]] | None:
        """Take and seal the only incomplete batch; return its broker, and the batch unless it failed.

        Returns None if it did nothing, for example because the batch may not leave yet, or because its broker *takes*
        no request. It is a shortcut: it does exactly what `expire`, `ready` and `drain`, the references, would do for
        that batch, without iterating three times (`test_lone_batches`).
        """
        found = self._lone_batch.take(cluster, takes=takes, now=now)
        if found is None:
            return None
        node, batch = found
        sealed = self._drained.seal_or_fail(batch, node)
        if sealed is None or not self._drained.assign_sequence_or_fail(batch, sealed):
            return node, ()
        batch.leader_epoch = cluster.leader_epoch(batch.topic, batch.partition)
        return node, (batch,)

    def requeue(self, batch: ProducerBatch, error: OttlaError, now: float) -> None:
        """Queue a batch again, as the first of its partition; it waits for a backoff, or for a new leader.

        *error* becomes the batch's last error.
        """
        batch.last_error = error
        batch.retry_at = now + self._retry_backoff.delay_after(error, batch.attempts - 1)
        with self._lock:
            self._batches.put_first(batch)

    def replace(self, batch: ProducerBatch, parts: Sequence[ProducerBatch], *, max_bytes: int) -> None:
        """Queue the *parts* of a batch in its place; from now on batches of its topic have at most *max_bytes*
        bytes."""
        with self._lock:
            topic = self._batches.queue_of(batch).topic
            topic.max_bytes = min(max_bytes, topic.max_bytes or max_bytes)
            _share_memory(batch, parts)
            self._sequences.split(batch, parts)
            self._batches.replace(batch, parts)
            self._batches.remove_completed([batch])

    def mute(self, batch: ProducerBatch) -> None:
        """Let no other batch of the partition leave until `unmute`."""
        self._batches.queue_of(batch).muted_until = FOREVER

    def unmute(self, batch: ProducerBatch, at: float = LONG_AGO) -> None:
        """Undo `mute` at the time *at*."""
        self._batches.queue_of(batch).muted_until = at

    def expire(self, now: float, *, obstacle: Callable[[ProducerBatch], OttlaError | None] = _no_obstacle) -> None:
        """Fail queued batches whose `delivery.timeout.ms` has passed.

        They are at the heads of the queues. *obstacle* returns the error that keeps a batch from its broker, if there
        is one.
        """
        with self._lock:
            if self._batches.oldest + self._delivery_timeout > now:
                return
            late = self._batches.take_while(
                lambda batch: batch.has_reached_delivery_timeout(self._delivery_timeout, now)
            )
            self._batches.find_oldest()
        for batch in late:
            batch.last_error = obstacle(batch) or batch.last_error
            if batch.last_error is None:
                batch.last_error = self._sequences.obstacle
            self._completion.complete(batch, Failed(error=expired(batch, now)))

    def fail_queued(self, cause: OttlaError) -> None:
        """Fail every queued batch with an error that waiting cannot fix."""
        with self._lock:
            queued = self._batches.take_queued()
        for batch in queued:
            self._completion.fail(batch, cause)

    def abort_undrained(self, cause: OttlaError) -> None:
        """Fail every queued batch, because its transaction cannot be committed; batches in flight are not touched."""
        with self._lock:
            self.appender.close_open_batches(CloseReason.TRANSACTION)
            queued = self._batches.take_queued()
        for batch in queued:
            self._completion.complete(batch, Failed(error=dropped(batch, cause, self._clock())))

    def close_open_batches(self, why: CloseReason = CloseReason.FLUSH) -> None:
        """Let every queued batch leave; records queued from now on go to later batches."""
        with self._guard:
            self.appender.close_open_batches(why)
        self._wake()

    def complete(self, batch: ProducerBatch, outcome: Acknowledged | Failed) -> bool:
        """Set the outcome of a batch, and return True, or False if it already had one."""
        return self._completion.complete(batch, outcome)

    def complete_all(self, outcomes: Iterable[tuple[ProducerBatch, Acknowledged | Failed]]) -> None:
        """Set the outcomes of batches, one after the other."""
        self._completion.complete_all(outcomes)

    def _take_ready(
        self, cluster: Cluster, free_bytes: dict[int, int], now: float
    ) -> Iterator[tuple[int, ProducerBatch]]:
        """Remove and yield the first batch of each partition, if it is ready and *free_bytes* of its broker are left.

        With each batch it yields its broker.
        If a broker then has few batches, and the linger time of one has ended, batches that still linger are added
        (`FILL_REQUEST_TO`).
        """
        if not free_bytes:
            return
        growing = dict.fromkeys(free_bytes, GROWING_IN_A_REQUEST)
        taken = dict.fromkeys(free_bytes, 0)
        lingering: list[tuple[PartitionQueue, int]] = []
        readiness = self._readiness
        urgent = readiness.urgent
        for queue in self._line(FIRST_IN_LINE * len(free_bytes)):
            leader = cluster.leader(queue.topic.name, queue.partition)
            if leader is None or free_bytes.get(leader, 0) <= 0:
                if max(free_bytes.values()) <= 0:
                    return
                continue
            with self._lock:
                if not queue.batches:
                    continue
                head = queue.batches[0]
                if readiness.due(queue, head, cluster, urgent=urgent) > now:
                    if len(lingering) < FILL_REQUEST_TO * len(free_bytes) and only_lingers(queue, head, now):
                        lingering.append((queue, leader))
                    continue
                if not readiness.may_leave(head):
                    head.mark_held(now)
                    continue
                grows = not (head.closed or head.full)
                if grows and urgent:
                    head.closed_by, head.closed_at = readiness.urgent_reason, now
                batch = self._batches.take(queue, now)
            yield leader, batch
            taken[leader] += 1
            if grows:
                growing[leader] -= 1
                if not growing[leader]:
                    free_bytes[leader] = 0
        for queue, leader in lingering:
            if free_bytes[leader] <= 0 or growing[leader] == GROWING_IN_A_REQUEST or taken[leader] >= FILL_REQUEST_TO:
                continue
            with self._lock:
                if not (queue.batches and readiness.may_leave(queue.batches[0])):
                    continue
                batch = self._batches.take(queue, now)
                batch.closed_by, batch.closed_at = CloseReason.REQUEST, now
            yield leader, batch
            taken[leader] += 1

    def _line(self, first: int) -> Iterator[PartitionQueue]:
        """Yield the queues that have batches, in order: the *first* ones, and then those that are behind them by then.

        Each queue once, although its batch may be taken meanwhile, and others may have their first record.
        """
        with self._lock:
            line = list(islice(self._batches.waiting, first))
        yield from line
        if len(line) < first:
            return
        yielded = set(line)
        with self._lock:
            line = list(self._batches.waiting)
        for queue in line:
            if queue not in yielded:
                yield queue

    # A round that failed

    def recover(self) -> Sequence[ProducerBatch]:
        """Repair queues and outcomes that a failed round left half done, and return batches that have neither.

        They are closed, and in order of age, oldest first. For the I/O thread, when nothing is in flight.
        """
        with self._lock:
            lost = self._batches.recover(self.keyed_appender.recover_queues())
        for batch in lost:
            if self.keyed_appender.recover(batch):
                continue
            match batch.outcome:
                case None:
                    batch.close()
                case Forwarded(parts=parts):
                    batch.forward_callbacks()
                    self.replace(batch, parts, max_bytes=max(part.columns.size_estimate() for part in parts))
                case _:
                    self._completion.resume(batch)
        self.keyed_appender.fail_unassigned()
        return sorted((batch for batch in lost if batch.outcome is None), key=lambda batch: batch.created_at)

    # Ending

    def flush(self, *, timeout: float | None) -> bool:
        """Let every queued batch leave, and wait for all that have no outcome now. Return False if time ran out."""
        return self.flushes.flush(timeout)

    def close(self, refusal: OttlaError) -> None:
        """Refuse new records with *refusal*, also those that wait for memory; let queued batches leave immediately.

        Calls no partitioner, and waits for no encoder that hangs: these would keep this thread.
        """
        self.unretrieved.hold()
        with self._guard.within(LOCK_TIMEOUT_SECONDS) as entered:
            self.permission.refusal = refusal
            if entered and self.hanging.batch_of_encoder() is None:
                self.appender.refuse_records(CloseReason.CLOSE)
        self.pool.close(refusal)

    def abort(
        self,
        cause: OttlaError,
        *,
        off_io_thread: bool = False,
        obstacle: Callable[[ProducerBatch], OttlaError | None] = _no_obstacle,
    ) -> None:
        """Fail every batch that has no outcome; those in flight as possibly persisted.

        *obstacle* returns the error that has kept a queued batch from its broker, if there is one.
        *off_io_thread*: the caller is not the I/O thread, which is blocked. Callbacks run on a separate thread, and
        batches that the I/O thread has taken out of their queues count as in flight.
        """
        if not off_io_thread:
            self.keyed_appender.fail_unassigned()
        queued: Sequence[ProducerBatch] = ()
        unassigned: Sequence[ProducerBatch] = ()
        lost = off_io_thread and self.hanging.batch_of_encoder() is not None
        with self._guard.within(LOCK_TIMEOUT_SECONDS if off_io_thread else None) as entered:
            self._lock_is_lost = lost = lost or not entered
            if lost:  # the queues are used no more
                sent = list(self._batches.all)
            else:
                unassigned = self.keyed_appender.take_all()
                sent, queued = self._batches.take_all()
        sent = [batch for batch in sent if batch not in unassigned]
        for batch in sent:
            # The I/O thread may be blocked between taking a batch and sending it, by a codec for instance.
            batch.maybe_written |= off_io_thread
            if lost:
                batch.replace_lock()
        for batch in (*queued, *unassigned):
            batch.last_error = obstacle(batch) or batch.last_error
        remaining = (*sent, *queued, *unassigned)
        if off_io_thread:
            self._completion.fail_off_io_thread(remaining, cause)
            return
        for batch in remaining:
            self._completion.fail(batch, cause)

    def fail_after_fork(self, cause: OttlaError) -> None:
        """Fail every batch without an outcome in a forked child; no callback runs."""
        now = self._clock()
        self.unretrieved.ignore()
        for batch in tuple(self._batches.all):
            batch.fail_after_fork(Failed(error=delivery_failed(batch, cause, now)))

    def report(self, *, lock_timeout: float = LOCK_TIMEOUT_SECONDS, leave_errors: bool = False) -> Report:
        """The delivery report since the last one, the number of errors not retrieved, and the first of them.

        With *leave_errors*, the errors are left to the next report. After *lock_timeout* seconds it goes on without the
        lock, which a plugin that hangs may hold.
        """
        with self._guard.within(lock_timeout):
            pending = list(self._batches.all)
        return self._completion.report(pending, leave_errors=leave_errors)

    def _remove(self, batches: Iterable[ProducerBatch]) -> None:
        """Remove batches that are completed and counted."""
        if self._lock_is_lost:
            self._batches.remove_completed(batches)
            return
        with self._lock:
            self._batches.remove_completed(batches)


def _share_memory(batch: ProducerBatch, parts: Sequence[ProducerBatch]) -> None:
    """Divide the memory of a batch among its parts, in proportion to what their records occupy."""
    occupied = [part.columns.memory() for part in parts]
    held, whole = batch.held_bytes, sum(occupied)
    batch.held_bytes = 0  # no step from here on can fail
    remaining = held
    for part, memory in zip(parts[1:], occupied[1:], strict=True):
        share = held * memory // whole
        part.held_bytes += share
        remaining -= share
    parts[0].held_bytes += remaining
