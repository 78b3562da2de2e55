"""The result of a batch: its outcome, the threads and callbacks that wait for it, and the errors that were retrieved.

The outcome is set once. Deliveries read it, also after the producer was closed, so it keeps no part of the producer.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from itertools import count, repeat
from operator import length_hint
from typing import Any, Final, Generic, Protocol, TypeVar

from ottla.accumulator.batch_outcome import Acknowledged, Failed, Forwarded, Outcome
from ottla.accumulator.delivery import (
    AcknowledgedDelivery,
    Delivery,
    DeliveryBatch,
    LazyDelivery,
    ObservingCallback,
    OnDelivery,
)
from ottla.accumulator.error_reads import ErrorReads
from ottla.accumulator.locked_columns import first
from ottla.accumulator.raising_callbacks import raising_callbacks
from ottla.accumulator.unretrieved_errors import DropNotice, FailedRecords
from ottla.concurrency import io_threads, signals
from ottla.concurrency.copies import copy_of
from ottla.concurrency.locks import Latch
from ottla.errors import DeliveryError, IllegalStateError
from ottla.errors.robust_logger import robust_logger
from ottla.interfaces import Columns, Facts
from ottla.recordbatch.callbacks import CallbackColumn
from ottla.recordbatch.core_abilities import CallbackRunner, Callbacks, LockingColumns, is_callback_runner
from ottla.recordbatch.sealed_records import SealedRecords
from ottla.results import RecordMetadata
from ottla.results.stories import RecordStory

logger = robust_logger(__name__)

_new: Final = object.__new__
_new_metadata: Final = tuple.__new__


def no_callbacks_to_run() -> None:
    """Do nothing; stands for an empty list of callbacks."""


class ForwardingBatch(DeliveryBatch, Protocol):
    """The part of a batch's interface that is needed to forward records to it."""

    @property
    def count(self) -> int:
        """The number of records in the batch."""


class BatchLatch(Protocol):
    """A latch that a batch sets when it has an outcome."""

    def set(self) -> None:
        """Wake those that wait. Must not raise, and must not call the batch's producer."""


B = TypeVar("B", bound=ForwardingBatch)


class BatchResult(Generic[B]):
    """The result of one batch, and the base of ProducerBatch. For any thread; `outcome` is None until there is one.

    It is a base class, because a separate object for each batch costs 5 % of the time for batches of two records.
    *locking* are the batch's columns, which have its lock and the callbacks of its records.
    """

    __slots__ = (
        "_added",
        "_callbacks_to_run",
        "_drop_notice",
        "_latches",
        "_lock",
        "_locking",
        "counted",
        "error_reads",
        "outcome",
        "partition",
        "run_while_waiting",
        "sealed",
        "topic",
    )

    _columns: Columns  # a slot of ProducerBatch, which native code reads

    def __init__(self, topic: str, partition: int, locking: LockingColumns) -> None:
        self.topic = topic
        self.partition = partition
        self.outcome: Outcome[B] | None = None
        self.error_reads: ErrorReads | None = None
        """Which of its errors were read, once the batch has failed."""
        self.run_while_waiting: Callable[[Any, float | None], object] | None = None
        """Called by a thread that waits for the batch, before it sleeps, with the maximum number of seconds to run."""
        self.sealed: SealedRecords | None = None  # released with the outcome
        self.counted = False  # it is part of a delivery report
        self._locking = locking
        self._lock: AbstractContextManager[Any] = locking.lock
        self._latches: tuple[BatchLatch, ...] = ()  # one for each waiting thread, and for each event loop
        self._added: list[tuple[int, OnDelivery]] | None = None  # callbacks of `call_when_complete`
        self._callbacks_to_run: Any = None  # callbacks that have not run yet, once there is an outcome

    @property
    def count(self) -> int:
        """The number of records in the batch."""
        return len(self._columns)

    def __str__(self) -> str:
        where = f", partition {self.partition}" if self.partition >= 0 else ""
        return f"topic {self.topic!r}{where}"

    def story(self) -> RecordStory:
        """The story of the batch until now."""
        raise NotImplementedError  # a ProducerBatch has one

    # Completion

    def complete_and_call_back(self, outcome: Acknowledged | Failed) -> bool:
        """Set the outcome and run the callbacks. Return False if there was an outcome already."""
        run_callbacks = self.complete(outcome)
        if run_callbacks is None:
            return False
        run_callbacks()
        return True

    def complete(self, outcome: Acknowledged | Failed) -> Callable[[], object] | None:
        """Set the outcome, and return the function that runs the callbacks, or `no_callbacks_to_run`.

        Returns None if there was an outcome already.
        """
        callbacks = self._set(outcome)
        if callbacks is None:
            return None
        return self.run_callbacks if callbacks else no_callbacks_to_run

    def forward_to(self, outcome: Forwarded[B]) -> bool:
        """Forward the records to batches without outcomes. Return False if this batch had an outcome already."""
        if self._set(outcome) is None:
            return False
        self.forward_callbacks()
        return True

    def fail_after_fork(self, outcome: Failed) -> None:
        """Set the outcome in a forked child, where no thread waits for it, and the holder of the lock is gone."""
        self._lock = threading.Lock()
        self._added, self._latches = None, ()
        self.sealed = self.run_while_waiting = None
        self.error_reads = ErrorReads(self.count)
        self.outcome = outcome

    def replace_lock(self) -> None:
        """Have a new lock, when a plugin hangs under the old one."""
        self._lock = threading.RLock()

    def _set(self, outcome: Outcome[B]) -> Callbacks | None:
        """Set the outcome, wake waiting threads, and return the callbacks in order, or None if there was an outcome."""
        with self._lock:
            if self.outcome is not None:
                return None
            added = sorted(self._added, key=first) if self._added else []  # forwarded ones come late
            reads = ErrorReads(self.count) if isinstance(outcome, Failed) else None
            callbacks = self._locking.take_callbacks(added)
            # From here on no call can fail: the outcome is set together with its callbacks, or not at all.
            self._callbacks_to_run, self._added = callbacks, None
            self.error_reads = reads
            self.outcome = outcome
            latches, self._latches = self._latches, ()
        self.sealed = self.run_while_waiting = None  # so that a delivery does not keep the producer alive
        for latch in latches:
            latch.set()
        return callbacks

    # Callbacks

    def call_when_complete(self, index: int, callback: OnDelivery) -> None:
        """Run *callback* once a record has an outcome: on the I/O thread, or immediately, on this thread."""
        with signals.Deferred(), self._lock:
            outcome = self.outcome
            if outcome is None:
                if self._added is None:
                    self._added = []
                self._added.append((index, callback))
                return
        if isinstance(outcome, Forwarded):
            batch, place = outcome.place(index)
            batch.call_when_complete(place, callback)
        else:
            self._run_each(deque([(index, callback)]), outcome)

    def run_callbacks(self) -> None:
        """Run the callbacks that have not run yet; after an interruption, another call continues where it stopped."""
        callbacks, outcome = self._callbacks_to_run, self.outcome
        if callbacks is None:
            return
        assert isinstance(outcome, Acknowledged | Failed), "callbacks run only once there is an outcome"
        if isinstance(outcome, Acknowledged) and is_callback_runner(type(self._columns)):
            self._callbacks_to_run = None
            runner: CallbackRunner = self._columns  # type: ignore[assignment]
            runner.run_callbacks(
                callbacks, self, outcome.base_offset, outcome.log_append_time_ms, self._callback_raised
            )
            return
        if isinstance(callbacks, CallbackColumn) and isinstance(outcome, Acknowledged):
            self._run_column(callbacks)
        else:
            if not isinstance(callbacks, deque):
                callbacks = self._callbacks_to_run = deque(callbacks)
            self._run_each(callbacks, outcome)
        self._callbacks_to_run = None

    def forward_callbacks(self) -> None:
        """Move the callbacks to the batches that have the records now. A second call continues an interrupted one."""
        outcome, callbacks = self.outcome, self._callbacks_to_run
        if callbacks is None:
            return
        assert isinstance(outcome, Forwarded), "other batches have the records"
        if not isinstance(callbacks, deque):
            callbacks = self._callbacks_to_run = deque(callbacks)
        while callbacks:
            index, callback = callbacks[0]
            batch, place = outcome.place(index)
            batch.call_when_complete(place, callback)
            callbacks.popleft()
        self._callbacks_to_run = None

    def _run_each(self, callbacks: deque[tuple[int, OnDelivery]], outcome: Acknowledged | Failed) -> None:
        """Run callbacks; each is removed from the queue when its delivery is ready."""
        if isinstance(outcome, Failed):
            while callbacks:
                _call_first_with_error(self, callbacks, outcome)
            return
        facts = _in_lists(self._columns.facts())
        while callbacks:
            index, callback = callbacks[0]
            delivery = AcknowledgedDelivery(self, index)
            delivery.metadata = self._metadata(facts, index, outcome)
            callbacks.popleft()
            try:
                callback(delivery)
            except BaseException:  # SystemExit, too, must not end the thread that runs the other callbacks
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
            unread = len(callbacks.column) - length_hint(column) - 1
            self._callbacks_to_run = deque(pair for pair in callbacks if pair[0] >= unread)
            raise
        finally:
            shared[0] = None  # a delivery that its callback has kept must not keep the metadata of all records

    def _callback_raised(self) -> None:
        if (more := raising_callbacks.line(failed=False)) is not None:
            logger.exception("a delivery callback for %s raised; the producer continues%s", self, more)

    # Waiting and reading

    def wait(self, timeout: float | None) -> bool:
        """Block until there is an outcome; *timeout*, in seconds, is the limit if given. Return False if time ran out.

        Raises IllegalStateError on the I/O thread of any producer: on its own one the wait would never end.
        """
        if self.outcome is not None:
            return True
        if io_threads.on_io_thread():
            raise IllegalStateError("waiting for a delivery inside a delivery callback would never end; use a callback")
        latch = Latch()
        if not self.add_latch(latch):
            return True
        in_time = latch.wait(timeout)
        if not in_time:
            with signals.Deferred(), self._lock:
                self._latches = tuple(other for other in self._latches if other is not latch)
        return in_time

    def add_latch(self, latch: BatchLatch) -> bool:
        """Have *latch* set once there is an outcome, on the thread that sets it.

        Return False if there is one already.
        """
        signals.begin()  # not `Deferred`, which takes twice as long: this is a part of each wait for a lone record
        try:
            with self._lock:
                if self.outcome is not None:
                    return False
                self._latches = (*self._latches, latch)
                return True
        finally:
            signals.end()

    def metadata(self, index: int, outcome: Acknowledged) -> RecordMetadata:
        """The metadata of an acknowledged record."""
        if is_callback_runner(type(self._columns)):  # in a part of the time, since it makes no arrays of facts
            [found] = _native_metadata(self, index, index + 1, outcome)
            return found
        return self._metadata(self._columns.facts(), index, outcome)

    @property
    def failed_reads(self) -> ErrorReads:
        """The `error_reads` of a batch that has failed."""
        assert self.error_reads is not None, "it has failed"
        return self.error_reads

    def watch(self, error: DeliveryError, dropped: Callable[[FailedRecords], object]) -> FailedRecords:
        """Return the data that a report needs of this failed batch; *dropped* gets them once the batch is dropped."""
        failed = FailedRecords(topic=self.topic, partition=self.partition, reads=self.failed_reads, error=error)
        self._drop_notice = DropNotice(failed, dropped)  # unset in others: only failures pay for it
        return failed

    def _metadata(self, facts: Facts, index: int, outcome: Acknowledged) -> RecordMetadata:
        timestamps_ms, key_sizes, value_sizes = facts
        base_offset, log_append_time_ms = outcome.base_offset, outcome.log_append_time_ms
        fields = (
            self.topic,
            self.partition,
            base_offset + index if base_offset >= 0 else -1,
            timestamps_ms[index] if log_append_time_ms < 0 else log_append_time_ms,
            -1 if key_sizes is None else key_sizes[index],
            value_sizes[index],
        )
        return _new_metadata(RecordMetadata, fields)  # in half of the time of RecordMetadata(...)

    def all_metadata(self) -> Sequence[RecordMetadata]:
        """The metadata of every record of an acknowledged batch. Without a loop in Python it takes half of the time."""
        outcome = self.outcome
        assert isinstance(outcome, Acknowledged), "only an acknowledged batch has metadata"
        if is_callback_runner(type(self._columns)):
            return _native_metadata(self, 0, self.count, outcome)
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
        return list(map(_new_metadata, repeat(RecordMetadata), fields))


def expect_callbacks(batch: BatchResult[Any]) -> None:
    """Note that the callbacks of a failed batch are expected to get its errors."""
    reads = batch.failed_reads
    for index, callback in batch._callbacks_to_run or ():
        if isinstance(callback, ObservingCallback):
            callback.expect_errors(batch, index)
        else:
            reads.expect(index)


def give_up_callbacks(batch: BatchResult[Any]) -> None:
    """Undo `expect_callbacks` for the callbacks that have not run so far."""
    reads = batch.failed_reads
    for index, callback in copy_of(batch._callbacks_to_run or deque()):  # another thread may run them
        if isinstance(callback, ObservingCallback):
            callback.give_up_errors(batch, index)
        else:
            reads.give_up(index)


def _native_metadata(batch: BatchResult[Any], first: int, end: int, outcome: Acknowledged) -> Sequence[RecordMetadata]:
    columns: CallbackRunner = batch._columns  # type: ignore[assignment]
    return columns.metadata(batch.topic, batch.partition, first, end, outcome.base_offset, outcome.log_append_time_ms)


def _call_first_with_error(batch: BatchResult[Any], callbacks: deque[tuple[int, OnDelivery]], outcome: Failed) -> None:
    """Run the first callback, of a record that failed, and remove it from the queue when its delivery is ready.

    If it raises, it has not retrieved the error: `flush` raises it. Once the batch is counted, a report may have left
    the error out already; then only the log has it.
    """
    index, callback = callbacks[0]
    reads, retrieves, delivery = batch.failed_reads, _retrieves_error(callback), Delivery(batch, index)
    if batch.counted and retrieves:
        reads.read(index)
    callbacks.popleft()
    try:
        callback(delivery)
    except BaseException:  # SystemExit, too, must not end the thread that runs the other callbacks
        more = raising_callbacks.line(failed=True)
        if more is not None or batch.counted:
            logger.exception(
                "a delivery callback for %s raised when it got this error, and the producer continues: %s%s",
                batch,
                outcome.error_of(index),
                more or "",
            )
    else:
        if not batch.counted and retrieves:
            reads.read(index)


def _retrieves_error(callback: OnDelivery) -> bool:
    return callback.retrieves_error if isinstance(callback, ObservingCallback) else True


def _in_lists(facts: Facts) -> Facts:
    """Return the same facts as lists, whose elements are quick to read one by one."""
    timestamps_ms, key_sizes, value_sizes = facts
    return Facts(list(timestamps_ms), None if key_sizes is None else list(key_sizes), list(value_sizes))
