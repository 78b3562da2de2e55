"""The batch of records for one partition: open, then sealed, then completed once.

An open batch collects records as columns; a sealed one is the bytes of a request; a completed one has an outcome, which
its deliveries read. It handles neither queues nor memory nor connections.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from ottla.accumulator.batch_outcome import Acknowledged, Failed, Outcome
from ottla.accumulator.batch_result import BatchResult
from ottla.accumulator.delivery import OnDelivery
from ottla.accumulator.locked_columns import LockedColumns
from ottla.errors import OttlaError
from ottla.interfaces import Columns, Header
from ottla.recordbatch.batch_sequence import BatchSequence
from ottla.recordbatch.core_abilities import are_locking
from ottla.results.stories import RecordStory
from ottla.results.stories.tries import CloseReason, Try, keep
from ottla.results.stories.waits import Journal, Notes, notes_and_clock

UNASSIGNED: Final = -1
"""The partition number of records whose partition is not chosen yet."""

Append: TypeAlias = Callable[[bytes | None, bytes | None, Sequence[Header], int | None, OnDelivery | None], int | None]
"""Appends a record to a batch and returns its index, or None if there is no room, or the batch takes no more."""

NewRecord: TypeAlias = tuple[bytes | None, bytes | None, Sequence[Header], int | None, OnDelivery | None]
"""Key, value, headers, timestamp in ms or None for now, callback: the arguments of `ProducerBatch.append`."""


def size_of(record: NewRecord) -> int:
    """An upper bound of the bytes of a record's key, value and headers."""
    key, value, headers, _timestamp_ms, _on_delivery = record
    size = (len(value) if value is not None else 0) + (len(key) if key is not None else 0)
    if not headers:
        return size
    # surrogatepass: a name that UTF-8 cannot encode gets a size here, and the columns refuse it.
    return size + sum(len(name.encode(errors="surrogatepass")) + len(content or b"") + 10 for name, content in headers)


class ProducerBatch(BatchResult["ProducerBatch"]):
    """The records of one partition that are sent together.

    `append`, `close` and the methods of its result are for any thread. The others are for the holder of the queues'
    lock while the batch is queued, and for the I/O thread once it has left.

    There may be tens of thousands of batches, and the garbage collector traverses every object that a batch holds: so
    each holds few.
    """

    __slots__ = (
        "_columns",
        "_in_flight_seconds",
        "_queued_seconds",
        "_since",
        "append",
        "attempts",
        "behind_until",
        "closed",
        "closed_at",
        "closed_by",
        "completed_at",
        "created_at",
        "drained_at",
        "earlier_tries",
        "full",
        "held_bytes",
        "held_since",
        "in_flight",
        "journal",
        "last_error",
        "last_node",
        "leader_epoch",
        "maybe_at",
        "maybe_written",
        "overhead",
        "queued_bytes",
        "response_lost",
        "retry_at",
        "sealed_at",
        "sent_at",
        "sequence",
        "unlimited_retries",
        "waited",
        "wanted_node",
    )

    def __init__(self, *, topic: str, partition: int, columns: Columns, now: float) -> None:
        locking: Any = columns if are_locking(type(columns)) else LockedColumns(columns)
        BatchResult.__init__(self, topic, partition, locking)
        self._columns: Columns = locking  # a fault of a third-party encoder names its plugin
        self.append: Append = locking.put
        self.created_at = now
        self.held_bytes = 0  # of the buffer pool
        self.overhead = 0  # the part of `held_bytes` that is not for records
        self.queued_bytes = 0  # as counted in the topic's `queued_bytes`
        self.full = False
        self.closed = False
        self.attempts = 0
        self.unlimited_retries = 0  # those that `retries` does not limit
        self.retry_at = now
        self.in_flight = False
        self._since = now  # when it was queued, or sent
        self._queued_seconds = 0.0
        self._in_flight_seconds = 0.0
        self.response_lost = False  # an attempt ended without a response
        self.maybe_written = False  # an attempt may have reached the append; later ones do not change that
        self.maybe_at: tuple[tuple[int | None, int], ...] = ()  # node and leader epoch of such attempts
        self.last_node: int | None = None
        self.leader_epoch = -1  # of its partition, in the metadata of the batch's last drain
        self.last_error: OttlaError | None = None
        self.sequence: BatchSequence | None = None  # kept until a broker lacks the batches before it
        # For the story of its records. Attributes only, no objects.
        self.closed_at: float | None = None
        self.closed_by: CloseReason | None = None
        self.behind_until = now  # when the batch before it left the queue
        self.held_since: float | None = None  # since when its sequence numbers keep it
        self.drained_at: float | None = None
        self.sealed_at = now
        self.sent_at: float | None = None  # None: the last attempt is one of `earlier_tries`
        self.completed_at: float | None = None
        self.waited: tuple[float, float] | None = None  # of a record in `send`, for metadata and for memory
        self.wanted_node: int | None = None  # the broker that an expired batch waited for
        self.earlier_tries: list[Try] | None = None
        self.journal: Journal | Notes | None = None  # its waits, once it is complete

    @property
    def possibly_persisted(self) -> bool:
        """Return whether a broker may hold the batch although none acknowledged it.

        False only where each attempt ended before the append for certain: never written to a socket, or refused with a
        code of `REFUSED_BEFORE_APPEND`.
        """
        return self.in_flight or self.maybe_written

    def note_maybe_written(self, *, response_lost: bool = False) -> None:
        """Note that the last attempt may have reached the append; *response_lost*: it ended without a response."""
        self.maybe_written = True
        self.response_lost |= response_lost
        place = (self.last_node, self.leader_epoch)
        if place not in self.maybe_at:
            self.maybe_at = (*self.maybe_at, place)

    def has_newest_leader(self) -> bool:
        """Return whether the last attempt's broker led the partition after each one that may have written the batch.

        If it was the same one, its answer is as good. Without ids of topics no leader epochs are known.
        """
        node, epoch = self.last_node, self.leader_epoch
        return all(each == node or 0 <= its_epoch < epoch for each, its_epoch in self.maybe_at)

    @property
    def columns(self) -> Columns:
        """The records, until they are encoded; afterwards only their sizes and timestamps."""
        return self._columns

    def has_reached_delivery_timeout(self, timeout: float, now: float) -> bool:
        """Return whether *timeout* seconds have passed since the batch was opened."""
        return self.created_at + timeout <= now

    def allow(self, memory: int) -> None:
        """Let the records occupy up to *memory* bytes."""
        with self._lock:
            self._columns.allow(memory)

    def close(self) -> None:
        """Take no more records from now on. Indexes that `append` returned before stay valid."""
        with self._lock:
            self.closed = True
            self._columns.close()

    def mark_sent(self, node: int, now: float) -> None:
        """Note that the batch leaves in a request to a broker, and count the attempt."""
        if self.sent_at is not None:
            self.keep_try()
        self._advance_timers(now)
        self.attempts += 1
        self.in_flight = True
        self.last_node = node
        self.sent_at = now

    def mark_held(self, now: float) -> None:
        """Note that its sequence numbers keep the batch from its broker, now if not before."""
        if self.held_since is None:
            self.held_since = now

    def last_try(self, response: str) -> Try:
        """The last attempt, with its *response*."""
        assert self.sent_at is not None, "there was an attempt"
        node = -1 if self.last_node is None else self.last_node
        earlier = self.earlier_tries
        number = max(self.attempts, earlier[-1].number + 1) if earlier else self.attempts
        return Try(number, node, self.sent_at, None if self.in_flight else self._since, response)

    def keep_try(self) -> None:
        """Keep the last attempt, if there is one: it failed, and is followed by another one."""
        if self.sent_at is None:
            return
        if self.earlier_tries is None:
            self.earlier_tries = []
        keep(self.earlier_tries, self.last_try(str(self.last_error)))
        self.sent_at = None

    def mark_returned(self, now: float) -> None:
        """Note that the response to the batch's request has arrived, or will not arrive."""
        self._advance_timers(now)
        self.in_flight = False

    def inherit(self, batch: ProducerBatch) -> None:
        """Take over the attempts, errors and times of the batch that had these records before."""
        self.attempts, self.unlimited_retries = batch.attempts, batch.unlimited_retries
        self.last_node, self.last_error = batch.last_node, batch.last_error
        self.response_lost, self.maybe_written = batch.response_lost, batch.maybe_written
        self.maybe_at = batch.maybe_at
        self.leader_epoch = batch.leader_epoch
        self.drained_at, self.sealed_at, self.sent_at = batch.drained_at, batch.sealed_at, batch.sent_at
        self.closed_at, self.closed_by = batch.closed_at, CloseReason.SPLIT
        self.waited, self.journal = batch.waited, batch.journal
        self.earlier_tries = list(batch.earlier_tries or ())
        self._queued_seconds, self._in_flight_seconds, self._since = (
            batch._queued_seconds,
            batch._in_flight_seconds,
            batch._since,
        )

    def story(self, *, failing_at: float | None = None) -> RecordStory:
        """The story until now; *failing_at*: the batch is about to fail, at this time. For any thread."""
        notes, clock = notes_and_clock(self.journal)
        outcome = self.outcome
        pending = outcome is None and failing_at is None
        waited_for_topic, waited_for_memory = self.waited or (0.0, 0.0)
        tries = tuple(self.earlier_tries or ())
        if self.sent_at is not None:
            tries = (*tries, self.last_try(_answer(outcome, self.last_error)))
        until = self.completed_at or failing_at or (clock() if clock is not None else None)
        return RecordStory(
            topic=self.topic,
            partition=self.partition if self.partition >= 0 else None,
            records=self.count,
            outcome="acknowledged" if isinstance(outcome, Acknowledged) else "pending" if pending else "failed",
            pending=pending,
            queued_at=self.created_at,
            until=max(self.created_at, until or self.sent_at or 0.0),
            closed_at=self.created_at if self.full and self.closed_at is None else self.closed_at,
            closed_by=CloseReason.FULL if self.full and self.closed_by is None else self.closed_by,
            drained_at=self.drained_at,
            sealed_at=self.sealed_at if self.drained_at is not None else None,
            tries=tries,
            attempts=self.attempts,
            waited_for_topic=waited_for_topic,
            waited_for_memory=waited_for_memory,
            wanted_node=self.wanted_node if self.wanted_node is not None else self.last_node,
            behind_until=self.behind_until,
            held_since=self.held_since,
            notes=notes,
        )

    def times(self, now: float) -> tuple[float, float]:
        """The seconds that the batch has spent in the queue, and in flight, so far."""
        passed = 0.0 if self.outcome is not None else max(now - self._since, 0.0)
        if self.in_flight:
            return self._queued_seconds, self._in_flight_seconds + passed
        return self._queued_seconds + passed, self._in_flight_seconds

    def _advance_timers(self, now: float) -> None:
        passed = now - self._since if now > self._since else 0.0
        if self.in_flight:
            self._in_flight_seconds += passed
        else:
            self._queued_seconds += passed
        self._since = now

    def take_from(self, source: ProducerBatch, indexes: Sequence[int], *, memory: int) -> tuple[int, int]:
        """Move the first of these records here from the closed batch *source*, as many as fit into *memory* bytes.

        Returns the index that the first one has here, and how many were moved. Other appends may not use this *memory*.
        """
        with self._lock:
            columns = self._columns
            if self.closed:
                return len(columns), 0
            columns.allow(memory)
            start, taken = self._locking.extend_at(source.columns, indexes)
            columns.allow(max(columns.memory(), self.held_bytes))
            return start, taken


def _answer(outcome: Outcome[ProducerBatch] | None, last_error: OttlaError | None) -> str:
    """The answer to the last attempt."""
    match outcome:
        case Acknowledged(base_offset=base):
            return f"acknowledged at offset {base}" if base >= 0 else "acknowledged"
        case Failed(error=error):
            return str(error.__cause__ or error)
        case _:
            return str(last_error) if last_error is not None else "no answer yet"
