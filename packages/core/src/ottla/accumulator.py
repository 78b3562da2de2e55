"""Which batches exist, and which may leave now.

Holds records until a batch is full or has lingered; knows nothing of requests or connections.
One lock guards the queues; it is never held while waiting for memory, encoding or settling.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final

import attrs

from ottla import io_threads
from ottla.allowances import Allowances, Room
from ottla.backlog import Backlog
from ottla.backoff import Backoff
from ottla.batch import UNDECIDED, NewRecord, ProducerBatch, nobody_to_tell
from ottla.batch_sizes import BatchSizes
from ottla.buffer_pool import BufferPool
from ottla.cluster import Cluster
from ottla.dealing import Dealer
from ottla.errors import BufferExhausted, DeliveryFailed, OttlaError
from ottla.failures import dropped, expired, given_up
from ottla.helm import Helm
from ottla.interfaces import Columns, TopicView
from ottla.ledger import DeliveryLedger
from ottla.metrics import Tallies
from ottla.outcomes import Acknowledged, Dealt, Failed, Split
from ottla.queues import FOREVER, NEVER, PartitionQueue, TopicQueues
from ottla.recordbatch.refusals import no_producer_ids
from ottla.recordbatch.section import Section
from ottla.recordbatch.v2 import MAGIC as FIRST_WITH_STAMP
from ottla.reports import DeliveryReport
from ottla.transaction_manager.sequences import Sequences

GROWING_IN_A_REQUEST: Final = 128
"""How many batches of a request may be such as would still grow: what waits for its turn gets more records.

Full and closed ones, those of a flush for instance, leave in any number.

Thousands of partitions would leave with a record each as soon as they have lingered, at what a full batch costs here
and at the broker; and where their files are slow to write, a request of thousands does not end in `request.timeout.ms`.
"""


def _none(_batch: ProducerBatch) -> None:
    """Nothing is known to be in the way."""


@attrs.frozen(kw_only=True)
class Ready:
    """Brokers with something to take now, topics that lack a leader, and when to look again.

    Once each broker has something to take, no more is looked for.

    `soon`: brokers with something to take once it has a producer id, or is part of its transaction.
    """

    nodes: frozenset[int]
    soon: frozenset[int]
    leaderless: frozenset[str]
    look_again_at: float


class RecordAccumulator:
    """The queues of a producer. The I/O thread's, but for `append`, `queues`, `flush` and `report`, for any thread.

    *sequences* numbers batches, and says which may leave; *admit* raises when no record may be queued.

    Whoever sends may also append to `PartitionQueue.open` directly; it comes here when that has no room.
    """

    def __init__(
        self,
        *,
        sizes: BatchSizes,
        linger: float,
        delivery_timeout: float,
        max_block: float,
        retry_backoff: Backoff,
        pool: BufferPool,
        columns: Callable[[int], Columns],
        seal: Callable[[ProducerBatch, int], Section],
        dealer: Dealer | None,
        sequences: Sequences | None = None,
        admit: Callable[[], object] | None = None,
        tallies: Tallies | None = None,
        wake: Callable[[], object],
        helm: Helm | None = None,
        clock: Callable[[], float],
    ) -> None:
        self._allowances = Allowances(sizes=sizes, pool=pool)
        self._linger = linger
        self._delivery_timeout = delivery_timeout
        self._max_block = max_block
        self._retry_backoff = retry_backoff
        self._pool = pool
        self._columns = columns
        self._seal = seal
        self._dealer = dealer
        self._sequences = sequences
        self._in_transaction = sequences is not None and sequences.transactional
        self._admit = admit
        self._wake = wake
        self._helm = helm
        self._awaited = helm.lead if helm is not None else None
        self._clock = clock
        self._lock = threading.Lock()
        self._completed = threading.Condition(self._lock)
        self._backlog = Backlog()
        self._undealt: list[tuple[ProducerBatch, Exception]] = []
        self._look_again_at = FOREVER
        self._ledger = DeliveryLedger(tallies=tallies)
        self._refusal: OttlaError | None = None

    @property
    def incomplete(self) -> int:
        """How many batches are not settled."""
        return len(self._backlog.incomplete)

    def queues(self, topic: str, view: TopicView) -> TopicQueues:
        """The queues of a topic, as many as it has partitions now."""
        with self._lock:
            queues = self._backlog.topic(topic, view.partitions)
            queues.view = attrs.evolve(view, queued_bytes=queues.queued_bytes)
            return queues

    # Appending, on the callers' threads

    def append(self, topic: str, partition: int, record: NewRecord, size: int) -> tuple[ProducerBatch, int]:
        """Queue a record of *size* bytes, waiting at most `max.block.ms` for memory; its batch, and its index there.

        With UNDECIDED as the partition the record joins the topic's run. Raises BufferExhausted, or what `close` was
        given; then nothing was queued.
        """
        charge = self._allowances.charge(size)
        with self._lock:
            self._check_open()
            queue = self._backlog.queue(topic, partition)
            placed = self._append_to_open(queue, record, charge)
            if placed is not None:
                return placed
            reserved = self._allowances.first(charge, self._backlog.partitions)
            # Mostly there is memory, and one look is saved: 10 us of a lone record's latency.
            if queue.open is None and self._pool.try_reserve(reserved):
                try:
                    return self._append_to_new(queue, record, reserved)
                except BaseException:  # a record that the format cannot hold
                    self._pool.release(reserved)
                    raise
        try:
            self._reserve(reserved)
        except BufferExhausted:
            with self._lock:
                self._close_or_deal(queue)  # so that it leaves at once, and its memory comes back
            self._wake()
            raise
        return self._append_with(reserved, queue, record, charge) or self.append(topic, partition, record, size)

    def enqueue(self, topic: str, partition: int, columns: Columns, *, sealed: Section | None = None) -> ProducerBatch:
        """Queue records that were encoded elsewhere as a batch of their own, behind what their partition has so far.

        *sealed* is what they were sealed as, if they were. Waits for memory and raises as `append` does.
        """
        # A codec may make a record a little larger than it was let in for.
        memory = columns.memory() if sealed is None else min(sealed.size, self._pool.capacity)
        self._reserve(memory)
        batch = ProducerBatch(topic=topic, partition=partition, columns=columns, now=self._clock())
        batch.close()
        batch.sealed = sealed
        batch.held_bytes, batch.full = memory, True
        try:
            with self._lock:
                self._check_open()
                queue = self._backlog.queue(topic, partition)
                self._deal(queue.topic)
                self._begin(queue, batch)
                queue.close()
                queue.topic.count(batch, memory)
        except BaseException:  # closed meanwhile
            self._pool.release(memory)
            raise
        return batch

    def refuse(self, topic: str, columns: Columns, failed: Failed) -> ProducerBatch:
        """Count records that could not be queued as failed; they hold no memory."""
        batch = ProducerBatch(topic=topic, partition=UNDECIDED, columns=columns, now=self._clock())
        self.settle(batch, failed)
        return batch

    def append_to_open(
        self, topic: str, partition: int, record: NewRecord, size: int
    ) -> tuple[ProducerBatch, int] | None:
        """The same, but never into a new batch: None when the record needs one."""
        with self._lock:
            self._check_open()
            return self._append_to_open(self._backlog.queue(topic, partition), record, self._allowances.charge(size))

    def deal(self, topic: TopicQueues) -> None:
        """Have the topic's run, if there is one, find its partitions: what is queued now comes before what follows."""
        with self._lock:
            self._deal(topic)

    def _check_open(self) -> None:
        """Raise when no record may be queued: the producer is closed, or no transaction is open."""
        if self._refusal is not None:
            raise self._refusal
        if self._admit is not None:
            self._admit()

    def _reserve(self, memory: int) -> None:
        if not self._pool.try_reserve(memory):
            patience = 0.0 if io_threads.here() else self._max_block  # there, nothing could free any
            self._pool.reserve(memory, timeout=patience, on_wait=self._wake)

    def _append_with(
        self, reserved: int, queue: PartitionQueue, record: NewRecord, charge: int
    ) -> tuple[ProducerBatch, int] | None:
        """Put a record, for which memory was waited for, where it belongs by now; None: others have used it up."""
        try:
            with self._lock:
                self._check_open()
                placed = self._append_to_open(queue, record, charge)  # another thread has begun it, or made it room
                if placed is not None:
                    return placed
                if queue.open is None:
                    placed = self._append_to_new(queue, record, reserved)
                    reserved = 0
                    return placed
                queue.open.held_bytes += reserved  # it is what there was no memory for
                reserved = 0
                return self._append_to_open(queue, record, charge)
        finally:
            self._pool.release(reserved)

    def _append_to_open(
        self, queue: PartitionQueue, record: NewRecord, charge: int
    ) -> tuple[ProducerBatch, int] | None:
        """Put a record on the open batch, with more memory if need be and may be.

        None: there is no open batch any more, or it stays open and there is no memory.
        """
        batch = queue.open
        if batch is None:
            return None
        index = batch.append(*record)
        if index is not None:
            return batch, index
        was_full = batch.full
        room = self._allowances.extend(batch, queue.topic, charge)
        if batch.full and not was_full:
            self._wake()
        if room is Room.GIVEN:
            index = batch.append(*record)
            if index is not None:
                return batch, index
        if room is not Room.SHORT or queue.partition == UNDECIDED:
            self._close_or_deal(queue)
        return None

    def _append_to_new(self, queue: PartitionQueue, record: NewRecord, reserved: int) -> tuple[ProducerBatch, int]:
        """Begin a batch, which takes any record as its first."""
        topic, partition = queue.topic.name, queue.partition
        batch = ProducerBatch(topic=topic, partition=partition, columns=self._columns(0), now=self._clock())
        index = batch.append(*record)
        assert index is not None, "an empty batch takes any record"
        batch.awaited = self._awaited
        self._allowances.begin(batch, queue.topic, reserved)
        self._begin(queue, batch)
        return batch, index

    def _begin(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        self._backlog.begin(queue, batch)
        if batch.full or len(queue.batches) > 1:
            self._wake()
        elif batch.created_at + self._linger < self._look_again_at:  # else the I/O thread looks in time anyhow
            if self._helm is None:
                self._wake()
            else:
                self._helm.begun(alone=len(self._backlog.incomplete) == 1)

    def _begin_looking(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        batch.awaited = self._awaited
        self._backlog.begin(queue, batch)

    def _close_or_deal(self, queue: PartitionQueue) -> None:
        if queue.partition == UNDECIDED:
            self._deal(queue.topic)
        else:
            queue.close()

    def _deal(self, topic: TopicQueues, *, looking: bool = False) -> None:
        """Deal the topic's run; nobody need be told of new batches who is *looking* for them anyhow."""
        if topic.run.open is None:
            return
        assert self._dealer is not None, "runs are begun for partitioners that look at whole columns"
        run = self._backlog.take_run(topic)
        try:
            dealt = self._dealer.deal(topic, run, self._begin_looking if looking else self._begin)
        except Exception as cause:  # a partitioner, perhaps somebody else's, must not stop the others
            self._undealt.append((run, cause))
            self._wake()
            return
        finally:
            topic.run.open = None  # not before: what is sent to a partition meanwhile has to wait for its records
        surplus, run.held_bytes = run.held_bytes, 0
        self._pool.release(surplus)
        run.hand_over(dealt)
        run.columns.release()
        self._settled(run)
        if not looking and any(batch.full for batch in dealt.parts):
            self._wake()

    def _close_open(self) -> None:
        for topic in list(self._backlog.running):
            self._deal(topic)
        for queue in self._backlog.waiting:
            queue.close()

    # Leaving, on the I/O thread

    def ready(self, cluster: Cluster, now: float) -> Ready:
        """Who has something to take, and when that may change without a new record."""
        nodes: set[int] = set()
        soon: set[int] = set()
        leaderless: set[str] = set()
        look_again_at = FOREVER
        urgent = self._urgent()
        self._fail_undealt()
        with self._lock:
            for topic in list(self._backlog.running):
                run = topic.run.batches[0]
                due = now if urgent else run.created_at + self._linger
                if due <= now:
                    self._deal(topic, looking=True)
                else:
                    look_again_at = min(look_again_at, due)
            oldest = FOREVER
            all_wanted = False
            for queue in self._backlog.waiting:  # often thousands, so without min and max
                if nodes and len(nodes) == len(cluster.brokers) and not self._in_transaction:
                    # Each of them is served and looked at again when that is written, or can take nothing more now.
                    oldest = min(oldest, self._backlog.oldest)
                    all_wanted = True
                    break
                head = queue.batches[0]
                if head.created_at < oldest:
                    oldest = head.created_at
                leader = cluster.leader(queue.topic.name, queue.partition)
                if leader is None:
                    leaderless.add(queue.topic.name)
                    continue
                due = self._due(queue, head, urgent=urgent)
                if due > now:
                    if due < look_again_at:
                        look_again_at = due
                elif leader not in nodes or self._in_transaction:
                    (nodes if self._may_leave(head) else soon).add(leader)
            self._backlog.oldest = oldest
            look_again_at = min(look_again_at, oldest + self._delivery_timeout)
            self._look_again_at = NEVER if all_wanted else look_again_at
        return Ready(
            nodes=frozenset(nodes),
            soon=frozenset(soon),
            leaderless=frozenset(leaderless),
            look_again_at=look_again_at,
        )

    def drain(
        self, cluster: Cluster, nodes: Collection[int], *, max_size: int, now: float
    ) -> dict[int, list[ProducerBatch]]:
        """Take the ready batches of these brokers, sealed, at most *max_size* bytes each; one always fits.

        A partition that was served goes to the end of the line, so that none starves.
        """
        drained: dict[int, list[ProducerBatch]] = {}
        room = dict.fromkeys(nodes, max_size)
        for queue, batch in self._take_ready(cluster, room, now):
            node = cluster.leader(queue.topic.name, queue.partition)
            assert node is not None
            sealed = self._seal_or_fail(batch, node)
            if sealed is None:
                continue
            batches = drained.setdefault(node, [])
            if batches and (sealed.wire_size > room[node] or not _alike(batches[0], batch)):
                with self._lock:
                    self._backlog.put_first(batch)
                room[node] = 0
                continue
            if self._sequences is not None and not self._stamp_or_fail(batch, sealed):
                continue
            room[node] -= sealed.wire_size
            batches.append(batch)
        return drained

    def put_back(self, batch: ProducerBatch, error: OttlaError, now: float, *, at_once: bool = False) -> None:
        """Queue a batch for another try, first in its partition and after a backoff, unless it may leave *at once*."""
        batch.last_error = error
        batch.retry_at = now if at_once else now + self._retry_backoff.delay(batch.attempts - 1)
        with self._lock:
            self._backlog.put_first(batch)

    def replace(self, batch: ProducerBatch, parts: Sequence[ProducerBatch], *, most: int) -> None:
        """Queue the *parts* of a batch in its place; from now on batches of its topic have at most *most* bytes."""
        with self._lock:
            topic = self._backlog.queue_of(batch).topic
            topic.most = min(most, topic.most or most)
            _share_memory(batch, parts)
            if self._sequences is not None:
                self._sequences.split(batch, parts)
            self._backlog.replace(batch, parts)
            self._settled(batch)

    def mute(self, batch: ProducerBatch) -> None:
        """Let nothing more of the batch's partition leave until `unmute`."""
        self._backlog.queue_of(batch).muted_until = FOREVER

    def unmute(self, batch: ProducerBatch, at: float = NEVER) -> None:
        """Undo `mute`, as soon as it is *at*."""
        self._backlog.queue_of(batch).muted_until = at

    def expire(self, now: float, *, obstacle: Callable[[ProducerBatch], OttlaError | None] = _none) -> bool:
        """Fail the queued batches whose `delivery.timeout.ms` has passed, from the head of each queue; True: some.

        *obstacle* says what keeps a batch from its broker, if anything does.
        """
        with self._lock:
            if self._backlog.oldest + self._delivery_timeout > now:
                return False
            late = self._backlog.take_while(lambda batch: batch.created_at + self._delivery_timeout <= now)
            self._backlog.look_for_oldest()
        for batch in late:
            batch.last_error = obstacle(batch) or batch.last_error
            if batch.last_error is None and self._sequences is not None:
                batch.last_error = self._sequences.obstacle
            self.settle(batch, Failed(error=expired(batch, now)))
        return bool(late)

    def fail_queued(self, cause: OttlaError) -> None:
        """Fail every batch that is queued: nothing that waits can help it."""
        with self._lock:
            queued = self._backlog.take_while(lambda _batch: True)
        for batch in queued:
            self._give_up(batch, cause)

    def drop_queued(self, cause: OttlaError) -> None:
        """Fail every batch that is queued, for its transaction cannot be committed; what is in flight goes on."""
        with self._lock:
            self._close_open()
            queued = self._backlog.take_while(lambda _batch: True)
        for batch in queued:
            self.settle(batch, Failed(error=dropped(batch, cause, self._clock())))

    def close_open(self) -> None:
        """Let every queued batch leave; whatever is queued from now on comes after it."""
        with self._lock:
            self._close_open()
        self._wake()

    def settle(self, batch: ProducerBatch, outcome: Acknowledged | Failed, *, aside: bool = False) -> bool:
        """Give a batch its outcome, its memory back to the pool, its records to the report; False: it had one.

        *aside*: callbacks run on a thread of their own.
        """
        tell = batch.end(outcome)
        if tell is None:
            return False
        if self._sequences is not None:
            if isinstance(outcome, Acknowledged):
                self._sequences.acknowledge(batch)
            else:
                self._sequences.give_up(batch, outcome.error)
        if tell is nobody_to_tell:
            self._account_for(batch)
        elif aside:
            threading.Thread(target=tell, daemon=True).start()
            self._account_for(batch)
        elif self._helm is None or not self._helm.put_off(lambda: self._tell(batch, tell)):
            self._tell(batch, tell)
        return True

    def _tell(self, batch: ProducerBatch, tell: Callable[[], object]) -> None:
        tell()
        self._account_for(batch)

    def _account_for(self, batch: ProducerBatch) -> None:
        self._ledger.enter(batch)
        held, batch.held_bytes = batch.held_bytes, 0
        self._pool.release(held)
        with self._lock:
            self._settled(batch)

    def _give_up(self, batch: ProducerBatch, cause: OttlaError, *, aside: bool = False) -> None:
        error = given_up(batch, str(cause), self._clock())
        error.__cause__ = cause
        self.settle(batch, Failed(error=error), aside=aside)

    def _fail_undealt(self) -> None:
        """Fail the runs that could not be dealt."""
        with self._lock:
            undealt, self._undealt = self._undealt, []
        for run, cause in undealt:
            error = given_up(run, f"no partition could be chosen: {cause}", self._clock())
            error.__cause__ = cause
            self.settle(run, Failed(error=error))

    def _urgent(self) -> bool:
        return self._refusal is not None or self._pool.waiting > 0

    def _due(self, queue: PartitionQueue, head: ProducerBatch, *, urgent: bool) -> float:
        """When the head of a queue may leave; one that is tried again is closed."""
        due = head.retry_at if urgent or head.full or head.closed else head.created_at + self._linger
        return due if due > queue.muted_until else queue.muted_until

    def _take_ready(
        self, cluster: Cluster, room: dict[int, int], now: float
    ) -> Iterator[tuple[PartitionQueue, ProducerBatch]]:
        """Remove and yield the ready heads, one per partition, while their broker's *room* lasts."""
        if not room:
            return
        growing = dict.fromkeys(room, GROWING_IN_A_REQUEST)
        with self._lock:
            line = list(self._backlog.waiting)
        urgent = self._urgent()
        for queue in line:
            leader = cluster.leader(queue.topic.name, queue.partition)
            if leader is None or room.get(leader, 0) <= 0:
                if max(room.values()) <= 0:
                    return
                continue
            with self._lock:
                if not queue.batches or self._due(queue, queue.batches[0], urgent=urgent) > now:
                    continue
                if not self._may_leave(queue.batches[0]):
                    continue
                grows = not (queue.batches[0].closed or queue.batches[0].full)
                batch = self._backlog.take(queue)
            yield queue, batch
            if grows:
                growing[leader] -= 1
                if not growing[leader]:
                    room[leader] = 0

    def _seal_or_fail(self, batch: ProducerBatch, node: int) -> Section | None:
        try:
            sealed = batch.sealed = self._seal(batch, node)
        except Exception as cause:  # a codec or encoder, perhaps somebody else's, must not stop the others
            error = given_up(batch, f"it could not be encoded: {cause}", self._clock())
            error.__cause__ = cause
            self.settle(batch, Failed(error=error))
            return None
        surplus = batch.held_bytes - sealed.size
        if surplus > 0:
            batch.held_bytes -= surplus
            self._pool.release(surplus)
        return sealed

    def _may_leave(self, batch: ProducerBatch) -> bool:
        return self._sequences is None or self._sequences.may_leave(batch)

    def _stamp_or_fail(self, batch: ProducerBatch, sealed: Section) -> bool:
        """Number a batch for its partition; False: its format has no place for that, and it may not go without."""
        sequences = self._sequences
        assert sequences is not None
        if sealed.magic >= FIRST_WITH_STAMP:
            sequences.stamp(batch)
        elif batch.stamp is not None or (sequences.required and not sequences.off):
            cause = no_producer_ids(sealed.magic)
            self._give_up(batch, cause)
            return False
        return True

    def _settled(self, batch: ProducerBatch) -> None:
        self._backlog.incomplete.pop(batch, None)
        self._completed.notify_all()

    # Ending

    def flush(self, *, timeout: float | None) -> bool:
        """Make every queued batch leave, and wait for those of this moment; False: time ran out."""
        deadline = None if timeout is None else self._clock() + timeout
        with self._lock:
            self._close_open()
            pending = list(self._backlog.incomplete)
        self._wake()
        with self._lock:
            while pending:
                batch = pending.pop()
                while batch in self._backlog.incomplete:
                    left = None if deadline is None else deadline - self._clock()
                    if left is not None and left <= 0:
                        return False
                    self._completed.wait(left)
                if isinstance(batch.outcome, Split | Dealt):
                    pending += batch.outcome.parts
        return True

    def close(self, refusal: OttlaError) -> None:
        """Refuse new records with *refusal*, also those that wait for memory; let everything queued leave at once."""
        with self._lock:
            self._refusal = refusal
            self._close_open()
        self._pool.close(refusal)

    def abort(self, cause: OttlaError, *, aside: bool = False) -> None:
        """Fail every batch that is not settled; those in flight as possibly persisted.

        *aside*: for another thread than the I/O thread, which is held up; callbacks run on threads of their own.
        """
        self._fail_undealt()
        with self._lock:
            unsettled = self._backlog.in_order()
        for batch in unsettled:
            self._give_up(batch, cause, aside=aside)

    def report(self) -> tuple[DeliveryReport, int, DeliveryFailed | None]:
        """The delivery report since the last one, the number of failures nobody looked at, and their first cause."""
        with self._lock:
            pending = list(self._backlog.incomplete)
        return self._ledger.close_account(pending)


def _share_memory(batch: ProducerBatch, parts: Sequence[ProducerBatch]) -> None:
    """Hand what a batch holds of the pool on to its parts, in proportion to what they occupy."""
    held, batch.held_bytes = batch.held_bytes, 0
    occupied = sum(part.columns.memory() for part in parts)
    for part in parts[1:]:
        part.held_bytes = held * part.columns.memory() // occupied
    parts[0].held_bytes = held - sum(part.held_bytes for part in parts[1:])


def _alike(one: ProducerBatch, other: ProducerBatch) -> bool:
    """Whether two batches fit into one request, which carries one record format."""
    assert one.sealed is not None
    assert other.sealed is not None
    return one.sealed.magic == other.sealed.magic
