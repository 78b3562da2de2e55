"""The batch of records for one partition: open, then sealed, then completed once.

An open batch collects records as columns; a sealed one is the bytes of a request; a completed one has an outcome, which
its deliveries read. It handles neither queues nor memory nor connections.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from itertools import count, repeat
from operator import itemgetter, length_hint
from time import time_ns
from typing import Any, Final, TypeAlias

from ottla.accumulator.batch_outcome import Acknowledged, Failed, Forwarded, Outcome
from ottla.accumulator.delivery import AcknowledgedDelivery, Delivery, LazyDelivery, OnDelivery
from ottla.accumulator.lost_records import DropNotice, FailedRecords
from ottla.concurrency import io_threads, signals
from ottla.concurrency.locks import Latch
from ottla.errors import DeliveryError, IllegalStateError, OttlaError
from ottla.interfaces import Columns, Facts, Header
from ottla.recordbatch.callbacks import CallbackColumn
from ottla.recordbatch.section import Section
from ottla.recordbatch.stamp import BatchSequence
from ottla.results import RecordMetadata

logger = logging.getLogger(__name__)

UNASSIGNED: Final = -1
"""The partition of an unassigned batch: records with keys that have no partition yet."""

_first: Final = itemgetter(0)
_new: Final = object.__new__
_new_metadata: Final = tuple.__new__

Append: TypeAlias = Callable[[bytes | None, bytes | None, Sequence[Header], int | None, OnDelivery | None], int | None]
"""Appends a record to a batch and returns its index; None: there is no room, or the batch takes no more."""

NewRecord: TypeAlias = tuple[bytes | None, bytes | None, Sequence[Header], int | None, OnDelivery | None]
"""Key, value, headers, timestamp in ms or None for now, callback: the arguments of `ProducerBatch.append`."""

Awaited: TypeAlias = "Callable[[ProducerBatch, float | None], object]"
"""Work of a thread that waits for a batch, for at most so many seconds, before it sleeps."""


def no_callbacks_to_run() -> None:
    """Stand for an empty list of callbacks."""


def size_of(record: NewRecord) -> int:
    """An upper bound of the bytes of a record's key, value and headers."""
    key, value, headers, _timestamp_ms, _on_delivery = record
    size = (len(value) if value is not None else 0) + (len(key) if key is not None else 0)
    # surrogatepass: a name that UTF-8 cannot hold gets a size here, and the columns refuse it.
    return size + sum(len(name.encode(errors="surrogatepass")) + len(content or b"") + 10 for name, content in headers)


class ProducerBatch:
    """The records of one partition that are sent together.

    `append`, `close`, `complete`, `wait` and the methods that read the outcome are for any thread. The other methods
    are for the holder of the backlog's lock while the batch is queued, and for the I/O thread once it has left.

    Columns with a `put` have a lock of their own: then `put` is the batch's `append`, and their `lock` is the batch's.

    There may be tens of thousands of batches, and the garbage collector traverses every object that a batch holds: so
    each holds few.
    """

    __slots__ = (
        "_callbacks",
        "_callbacks_to_run",
        "_columns",
        "_drop_notice",
        "_in_flight_seconds",
        "_lock",
        "_queued_seconds",
        "_retrieved",
        "_settled",
        "_since",
        "accounted",
        "append",
        "attempts",
        "awaited",
        "closed",
        "created_at",
        "full",
        "held_bytes",
        "in_flight",
        "last_error",
        "last_node",
        "leader_epoch",
        "maybe_written",
        "outcome",
        "partition",
        "queued_bytes",
        "retry_at",
        "sealed",
        "stamp",
        "topic",
        "unanswered",
    )

    def __init__(self, *, topic: str, partition: int, columns: Columns, now: float) -> None:
        self.topic = topic
        self.partition = partition
        self.created_at = now
        self.held_bytes = 0  # of the buffer pool
        self.queued_bytes = 0  # as counted in the topic's `queued_bytes`
        self.full = False
        self.closed = False
        self.attempts = 0
        self.retry_at = now
        self.in_flight = False
        self._queued_seconds = 0.0
        self._in_flight_seconds = 0.0
        self.unanswered = False  # an attempt ended without an answer
        self.maybe_written = False  # an attempt may have reached the append; later ones do not change that
        self.last_node: int | None = None
        self.leader_epoch = -1  # of its partition, in the metadata of the batch's last drain
        self.last_error: OttlaError | None = None
        self.sealed: Section | None = None
        self.stamp: BatchSequence | None = None  # kept over all attempts, unless the broker lacks the batches before it
        self.outcome: Outcome[ProducerBatch] | None = None
        self.awaited: Awaited | None = None  # called when a thread begins to wait for it
        self._columns = columns
        self._settled: tuple[Latch, ...] = ()  # one for each waiting thread
        self._callbacks: list[tuple[int, OnDelivery]] | None = None
        self._lock: AbstractContextManager[Any]  # where signal handlers may run, it is an RLock, or code in C
        self.append: Append
        if hasattr(type(columns), "put"):  # on the type: not an object that only passes every attribute on
            guarded: Any = columns
            self._lock, self.append = guarded.lock, guarded.put
        else:
            self._lock, self._callbacks = threading.RLock(), []
            self.append = partial(_append, columns, self._lock, self._callbacks)
        self._since = now  # when it was queued, or sent
        self._retrieved: set[int] | None = None
        self._callbacks_to_run: Any = None  # callbacks that have not run yet, once there is an outcome
        self.accounted = False  # it is part of a delivery report

    @property
    def count(self) -> int:
        """The number of its records."""
        return len(self._columns)

    def __str__(self) -> str:
        where = f", partition {self.partition}" if self.partition != UNASSIGNED else ""
        return f"topic {self.topic!r}{where}"

    @property
    def possibly_persisted(self) -> bool:
        """Return whether a broker may hold the batch although none acknowledged it.

        False only where each attempt ended before the append for certain: never written to a socket, or refused with a
        code of `REFUSED_BEFORE_APPEND`.
        """
        return self.in_flight or self.maybe_written

    @property
    def columns(self) -> Columns:
        """The records until they are encoded, and their sizes and timestamps for good."""
        return self._columns

    def allow(self, memory: int) -> None:
        """Let the records occupy up to *memory* bytes."""
        with self._lock:
            self._columns.allow(memory)

    def close(self) -> None:
        """Take no more records, for good. Indexes that `append` returned before stay valid."""
        with self._lock:
            self.closed = True
            self._columns.close()

    def mark_sent(self, node: int, now: float) -> None:
        """Note that it leaves in a request."""
        self._advance_timers(now)
        self.attempts += 1
        self.in_flight = True
        self.last_node = node

    def mark_returned(self, now: float) -> None:
        """Note that its request is answered, or lost."""
        self._advance_timers(now)
        self.in_flight = False

    def inherit(self, batch: ProducerBatch) -> None:
        """Take over the attempts, errors and times of the batch that had these records before."""
        self.attempts, self.last_node, self.last_error = batch.attempts, batch.last_node, batch.last_error
        self.unanswered, self.maybe_written = batch.unanswered, batch.maybe_written
        self.leader_epoch = batch.leader_epoch
        self._queued_seconds, self._in_flight_seconds, self._since = (
            batch._queued_seconds,
            batch._in_flight_seconds,
            batch._since,
        )

    def times(self, now: float) -> tuple[float, float]:
        """The seconds that it has spent in the queue, and in flight, so far."""
        passed = 0.0 if self.outcome is not None else max(now - self._since, 0.0)
        if self.in_flight:
            return self._queued_seconds, self._in_flight_seconds + passed
        return self._queued_seconds + passed, self._in_flight_seconds

    def complete_and_call_back(self, outcome: Acknowledged | Failed) -> bool:
        """Give the batch its outcome and run the callbacks; False: it had one already."""
        tell = self.complete(outcome)
        if tell is None:
            return False
        tell()
        return True

    def complete(self, outcome: Acknowledged | Failed) -> Callable[[], object] | None:
        """Give the batch its outcome; returns the function that runs the callbacks, or `no_callbacks_to_run`.

        None: it had an outcome already.
        """
        callbacks = self._complete(outcome)
        if callbacks is None:
            return None
        return self.run_callbacks if callbacks else no_callbacks_to_run

    def run_callbacks(self) -> None:
        """Run the callbacks that have not run yet; after an interruption, another call goes on where it stopped."""
        callbacks, outcome = self._callbacks_to_run, self.outcome
        if callbacks is None:
            return
        assert isinstance(outcome, Acknowledged | Failed), "callbacks run when it is settled"
        tell = getattr(self._columns, "tell", None)
        if tell is not None and isinstance(outcome, Acknowledged):
            self._callbacks_to_run = None
            tell(callbacks, self, outcome.base_offset, outcome.log_append_time_ms, self._callback_raised)
            return
        if isinstance(callbacks, CallbackColumn) and isinstance(outcome, Acknowledged):
            self._run_column(callbacks)
        else:
            if not isinstance(callbacks, deque):
                callbacks = self._callbacks_to_run = deque(callbacks)
            self._run_each(callbacks, outcome)
        self._callbacks_to_run = None

    def retrieve_for_callbacks(self) -> None:
        """Count as retrieved the errors that callbacks are about to get."""
        for index, callback in self._callbacks_to_run or ():
            if getattr(callback, "retrieves_error", True):
                self.mark_error_retrieved(index)

    def fail_after_fork(self, outcome: Failed) -> None:
        """Give it this outcome in a forked child, where no thread waits for it, and the holder of its lock is gone."""
        self._lock = threading.Lock()
        self._callbacks, self._settled = None, ()
        self.sealed = self.awaited = None
        self.outcome = outcome

    def forward_to(self, outcome: Forwarded[ProducerBatch]) -> bool:
        """Forward the records to other batches, none of which has an outcome; False: this one had one already."""
        if self._complete(outcome) is None:
            return False
        self.forward_callbacks()
        return True

    def forward_callbacks(self) -> None:
        """Move the callbacks to the batches that have the records now; goes on where it was interrupted."""
        outcome, callbacks = self.outcome, self._callbacks_to_run
        if callbacks is None:
            return
        assert isinstance(outcome, Forwarded), "other batches answer for it"
        if not isinstance(callbacks, deque):
            callbacks = self._callbacks_to_run = deque(callbacks)
        while callbacks:
            index, callback = callbacks[0]
            batch, place = outcome.place(index)
            batch.call_when_settled(place, callback)
            callbacks.popleft()
        self._callbacks_to_run = None

    def take_from(self, run: ProducerBatch, indexes: Sequence[int], *, memory: int) -> tuple[int, int]:
        """Take over the first of these records of a closed unassigned batch, as many as fit into *memory* bytes.

        Returns the index that the first one has here, and how many there are. Other appends get no room by it.
        """
        with self._lock:
            columns = self._columns
            start = len(columns)
            if self.closed:
                return start, 0
            columns.allow(memory)
            taken = columns.extend(run.columns, indexes)
            columns.allow(max(columns.memory(), self.held_bytes))
            return start, taken

    def wait(self, timeout: float | None) -> bool:
        """Wait until the batch has an outcome; False: time ran out."""
        if self.outcome is not None:
            return True
        if io_threads.on_io_thread():
            raise IllegalStateError("waiting for a delivery inside a delivery callback would never end; use a callback")
        settled = Latch()
        with signals.Deferred(), self._lock:
            if self.outcome is not None:
                return True
            self._settled = (*self._settled, settled)
        in_time = settled.wait(timeout)
        if not in_time:
            with signals.Deferred(), self._lock:
                self._settled = tuple(other for other in self._settled if other is not settled)
        return in_time

    def call_when_settled(self, index: int, callback: OnDelivery) -> None:
        """Run *callback* for a record once it has an outcome; at once, on this thread, if it has one."""
        with signals.Deferred(), self._lock:
            outcome = self.outcome
            if outcome is None:
                if self._callbacks is None:
                    self._callbacks = []
                self._callbacks.append((index, callback))
                return
        if isinstance(outcome, Forwarded):
            batch, place = outcome.place(index)
            batch.call_when_settled(place, callback)
        else:
            self._run_each(deque([(index, callback)]), outcome)

    def metadata(self, index: int, outcome: Acknowledged) -> RecordMetadata:
        """The metadata of an acknowledged record."""
        return _metadata(self, self._columns.facts(), index, outcome)

    def mark_error_retrieved(self, index: int) -> None:
        """Note that the program has read the error of this record."""
        with signals.Deferred(), self._lock:
            if self._retrieved is None:
                self._retrieved = set()
            self._retrieved.add(index)

    def unretrieved_errors(self) -> int:
        """The number of records whose errors were not retrieved."""
        return self.count - len(self._retrieved or ())

    def watch(self, error: DeliveryError, dropped: Callable[[FailedRecords], object]) -> FailedRecords:
        """Return what a report needs of this failed batch; *dropped* is called with it once the batch is dropped."""
        with self._lock:
            if self._retrieved is None:
                self._retrieved = set()
            failed = FailedRecords(
                topic=self.topic, partition=self.partition, count=self.count, retrieved=self._retrieved, error=error
            )
        self._drop_notice = DropNotice(failed, dropped)  # unset in other batches: only failures pay for it
        return failed

    def _advance_timers(self, now: float) -> None:
        passed = max(now - self._since, 0.0)
        if self.in_flight:
            self._in_flight_seconds += passed
        else:
            self._queued_seconds += passed
        self._since = now

    def _complete(self, outcome: Outcome[ProducerBatch]) -> Collection[tuple[int, OnDelivery]] | None:
        """Set the outcome and wake waiting threads; returns the callbacks, in order, or None: there was an outcome."""
        take_callbacks = getattr(self._columns, "take_callbacks", None)
        with self._lock:
            if self.outcome is not None:
                return None
            given: list[tuple[int, OnDelivery]] = []
            if self._callbacks:
                given = sorted(self._callbacks, key=_first)  # those of forwarded records may have come late
            callbacks: Collection[tuple[int, OnDelivery]]
            callbacks = given if take_callbacks is None else take_callbacks(given)
            # From here on no call can fail: the outcome is set together with its callbacks, or not at all.
            self._callbacks_to_run, self._callbacks = callbacks, None
            self.outcome = outcome
            settled, self._settled = self._settled, ()
        self.sealed = self.awaited = None  # so that a delivery does not keep the producer alive
        for waiting in settled:
            waiting.set()
        return callbacks

    def _run_each(self, callbacks: deque[tuple[int, OnDelivery]], outcome: Acknowledged | Failed) -> None:
        """Run callbacks; each is removed from the queue when its delivery is ready."""
        facts = _in_lists(self._columns.facts()) if isinstance(outcome, Acknowledged) else None
        while callbacks:
            index, callback = callbacks[0]
            delivery: Delivery
            if isinstance(outcome, Failed):
                if getattr(callback, "retrieves_error", True):
                    self.mark_error_retrieved(index)
                delivery = Delivery(self, index)
            else:
                assert facts is not None
                delivery = AcknowledgedDelivery(self, index)
                delivery.metadata = _metadata(self, facts, index, outcome)
            callbacks.popleft()
            try:
                callback(delivery)
            except BaseException:  # SystemExit too: in a callback it must not end the thread of all others
                self._callback_raised()

    def _run_column(self, callbacks: CallbackColumn) -> None:
        column = iter(callbacks.column)
        shared: list[Sequence[RecordMetadata] | None] = [None]
        deliveries = map(_new, repeat(LazyDelivery))  # a call of __init__ would take twice as long
        records = zip(column, count(), deliveries, strict=False)  # reads the column first
        try:
            for callback, index, delivery in records:
                if callback is not None:
                    delivery._batch, delivery._index, delivery._shared = self, index, shared
                    try:
                        callback(delivery)
                    except BaseException:  # as above
                        self._callback_raised()
        except BaseException:  # the delivery of this record was not made: its callback and the following have not run
            first = len(callbacks.column) - length_hint(column) - 1
            self._callbacks_to_run = deque(pair for pair in callbacks if pair[0] >= first)
            raise
        finally:
            shared[0] = None  # a delivery that its callback has kept must not keep the metadata of all records

    def all_metadata(self) -> Iterator[RecordMetadata]:
        """The metadata of every record of an acknowledged batch, without a Python loop: half of the time."""
        outcome = self.outcome
        assert isinstance(outcome, Acknowledged), "only these have metadata"
        facts, base_offset, log_append_time_ms = self._columns.facts(), outcome.base_offset, outcome.log_append_time_ms
        fields = zip(
            repeat(self.topic),
            repeat(self.partition),
            count(base_offset) if base_offset >= 0 else repeat(-1),
            facts.timestamps_ms if log_append_time_ms < 0 else repeat(log_append_time_ms),
            repeat(-1) if facts.key_sizes is None else facts.key_sizes,
            facts.value_sizes,
            strict=False,
        )
        return map(_new_metadata, repeat(RecordMetadata), fields)

    def _callback_raised(self) -> None:
        logger.exception("a delivery callback for %s raised; the producer goes on", self)


def _in_lists(facts: Facts) -> Facts:
    """The same as lists, which are quick to read one by one."""
    timestamps_ms, key_sizes, value_sizes = facts
    return Facts(list(timestamps_ms), None if key_sizes is None else list(key_sizes), list(value_sizes))


def _append(
    columns: Columns,
    lock: Any,
    callbacks: list[tuple[int, OnDelivery]],
    key: bytes | None,
    value: bytes | None,
    headers: Sequence[Header],
    timestamp_ms: int | None,
    on_delivery: OnDelivery | None,
) -> int | None:
    """Append to columns without a lock of their own: `ProducerBatch.append` for these."""
    if timestamp_ms is None:
        timestamp_ms = time_ns() // 1_000_000
    if lock._is_owned():
        _refuse_inside(lock)
    with lock:
        index = columns.append(key, value, headers, timestamp_ms)
        if on_delivery is not None and index is not None:
            callbacks.append((index, on_delivery))
        return index


def _refuse_inside(lock: Any) -> None:
    """Raise if a signal handler or __del__ interrupted an append on this thread: the columns may be half changed."""
    if lock._is_owned():
        raise IllegalStateError(
            "the producer was called in the middle of a send of the same thread, by a signal handler or __del__: set a "
            "flag there, and call it from the main program"
        )


signals.may_be_broken_off(_append, lambda names: _refuse_inside(names["lock"]))


def _metadata(batch: ProducerBatch, facts: Facts, index: int, outcome: Acknowledged) -> RecordMetadata:
    timestamps_ms, key_sizes, value_sizes = facts
    base_offset, log_append_time_ms = outcome.base_offset, outcome.log_append_time_ms
    return RecordMetadata(
        batch.topic,
        batch.partition,
        base_offset + index if base_offset >= 0 else -1,
        timestamps_ms[index] if log_append_time_ms < 0 else log_append_time_ms,
        -1 if key_sizes is None else key_sizes[index],
        value_sizes[index],
    )
