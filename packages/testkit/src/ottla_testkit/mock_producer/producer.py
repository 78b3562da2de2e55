"""A producer without a cluster: identical to a real one down to the batches; the test acts as the brokers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from types import EllipsisType
from typing import Any, Unpack

from ottla.accumulator.delivery import Delivery, OnDelivery
from ottla.concurrency import io_threads
from ottla.config.keywords import ProducerKeywords
from ottla.config.wait_limit import check_timeout
from ottla.errors import IllegalStateError
from ottla.interfaces import Headers
from ottla.producer.producer import Producer
from ottla.producer.transactions import Transactions
from ottla.recordbatch.sealed_records import SealedBatch
from ottla.results import DeliveryReport, TableProgress
from ottla.tables.table_delivery import TableDelivery
from ottla.transactions.offsets import OffsetsToSend
from ottla_testkit.mock_producer.build import MockParts, build
from ottla_testkit.mock_producer.completion_rounds import call_at_end_of_round, completion_round
from ottla_testkit.mock_producer.history import History
from ottla_testkit.mock_producer.planned_errors import PlannedErrors, check_exception, planned
from ottla_testkit.mock_producer.sent_batches import SentRecord
from ottla_testkit.mock_producer.timestamps import AFTER_MAX_MS, check_after_max
from ottla_testkit.mock_producer.topics import MockBlockingSend, MockTopics


class MockProducer(Producer):
    """A `Producer` that checks the same configuration and connects nowhere; it ignores the keys of security.

    Records are serialized, partitioned, encoded and compressed, and then wait. With *auto_complete* each is
    acknowledged immediately. Without it, `complete_next` acknowledges and `error_next` fails the oldest one, and
    `flush`, `close`, `commit_transaction` and `leave_transaction` acknowledge the rest. `fail_next` plans the failure
    of a record before it is sent. Callbacks run on the calling thread.

    *topics* are the cluster's topics with their numbers of partitions. By default every topic exists, with
    *partitions*. They refuse timestamps that are ahead of this machine's clock by more than *timestamp_after_max_ms*,
    an hour by default, as topics do by their `message.timestamp.after.max.ms`. None takes all timestamps, for tests
    with a clock of their own.

    Nothing ever blocks: where a real producer would wait until a time-out, the error is raised
    immediately.
    """

    def __init__(
        self,
        config: Mapping[str, Any] | None = None,
        /,
        *,
        topics: Mapping[str, int] | None = None,
        partitions: int = 1,
        auto_complete: bool = True,
        timestamp_after_max_ms: int | None = AFTER_MAX_MS,
        **options: Unpack[ProducerKeywords],
    ) -> None:
        known = MockTopics(topics, partitions=partitions)
        check_after_max(timestamp_after_max_ms)
        parts = build(config or {}, options, timestamp_after_max_ms=timestamp_after_max_ms)
        self.commit_count = 0
        """Number of committed transactions."""
        self.abort_count = 0
        """Number of aborted transactions."""
        self._parts: MockParts = parts
        self.auto_complete = auto_complete
        self._sending = threading.RLock()
        self._sent = History()
        self._planned_errors = PlannedErrors()
        self._begin(parts.engine, partial(MockBlockingSend, topics=known))

    @property
    def auto_complete(self) -> bool:
        """Whether records are acknowledged as soon as they are sent; may be changed at any time."""
        return self._parts.rounds.auto_complete

    @auto_complete.setter
    def auto_complete(self, on: bool) -> None:
        self._parts.rounds.auto_complete = on

    # Sent records

    @property
    def history(self) -> Sequence[SentRecord]:
        """All records so far, in the order of `send`, acknowledged or not.

        Of transactions, it contains the committed ones, and those that this producer joined and left: their owner ends
        them.
        """
        return tuple(self._sent.records)

    @property
    def uncommitted_records(self) -> Sequence[SentRecord]:
        """The records of the open transaction."""
        return tuple(self._sent.uncommitted_records)

    @property
    def committed_offsets(self) -> Sequence[OffsetsToSend]:
        """Offsets of committed transactions: `group` and `offsets` of each call of `send_offsets_to_transaction`."""
        return tuple(self._sent.offsets)

    @property
    def uncommitted_offsets(self) -> Sequence[OffsetsToSend]:
        """Offsets of the open transaction: `group` and `offsets` of each call of `send_offsets_to_transaction`."""
        return tuple(self._sent.uncommitted_offsets)

    @property
    def pending(self) -> int:
        """Number of records that wait for a result."""
        return self._parts.sent_batches.pending

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._parts.rounds.ended

    @property
    def transaction_in_flight(self) -> bool:
        """Whether a transaction is open. Prepared and failed transactions count as open."""
        coordinator = self._parts.coordinator
        return coordinator is not None and coordinator.in_transaction

    def clear(self) -> None:
        """Remove sent records, counts and planned errors; pending records stay pending."""
        with self._sending:
            self._sent.clear()
            self._planned_errors.clear()
            self._parts.sent_batches.clear_planned()
            self.commit_count = self.abort_count = 0

    # The brokers' part

    def complete_next(self) -> bool:
        """Acknowledge the oldest pending record, or batch of a table's rows; return False if there is none."""
        return self._parts.rounds.answer()

    def error_next(self, error: Exception) -> bool:
        """Fail the oldest pending record, or batch of a table's rows; return False if there is none.

        Its caller gets a DeliveryError whose cause is *error*, or *error* itself if it is one. With *auto_complete* no
        record is pending between two calls, so this raises IllegalStateError: use `fail_next`.
        """
        check_exception("error_next", error)
        failed = self._parts.rounds.answer(error)
        if not failed and self.auto_complete:
            raise IllegalStateError(
                "no record is pending, because auto_complete acknowledges each as soon as it is sent; call "
                "fail_next(error) before the record is sent, or make the producer with auto_complete=False"
            )
        return failed

    def fail_next(self, error: Exception, *, after: int = 0) -> None:
        """Make the next record that is sent, or the next batch of a table's rows, fail with *error*, as `error_next`.

        `send` returns its delivery as usual. It fails when it would be acknowledged: immediately with *auto_complete*,
        so that a function that waits for `result()` gets the error. Several calls fail as many records, in turn; so
        many as *after* do not fail before this one.
        """
        check_exception("fail_next", error)
        self._parts.sent_batches.plan_failures(planned("fail_next", error, after=after))

    def raise_next(self, method: str, error: Exception, *, after: int = 0) -> None:
        """Make the next call of this method raise *error* and do nothing else; several errors are raised in turn.

        So many calls as *after* are made as usual before this one.
        """
        self._planned_errors.plan(method, error, after=after)

    def fence(self) -> None:
        """Let another producer take the transactional id over: later calls are refused, as by a broker."""
        coordinator = self._parts.coordinator
        if coordinator is None:
            raise IllegalStateError("fence needs a producer with a transactional.id")
        coordinator.fence()

    # The interface of a producer

    def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        *,
        headers: Headers | None = (),
        partition: int | None = None,
        timestamp_ms: int | datetime | None = None,
        on_delivery: OnDelivery | None = None,
        timeout: float | None = None,
    ) -> Delivery:
        with _sends(self, "send"):
            return super().send(
                topic,
                value,
                key,
                headers=headers,
                partition=partition,
                timestamp_ms=timestamp_ms,
                on_delivery=on_delivery,
                timeout=_no_wait(timeout),
            )

    def send_table(
        self,
        topic: str | None,
        table: Any,
        *,
        value: str | Sequence[str] | None = "value",
        key: str | Sequence[str] | EllipsisType | None = ...,
        headers: str | Headers | None = None,
        partition: str | None = None,
        timestamp: str | None = None,
        topic_column: str | None = None,
        value_format: str | None = None,
        key_format: str | None = None,
        on_progress: Callable[[TableProgress], object] | None = None,
        timeout: float | None = None,
    ) -> TableDelivery:
        with _sends(self, "send_table"):
            return super().send_table(
                topic,
                table,
                value=value,
                key=key,
                headers=headers,
                partition=partition,
                timestamp=timestamp,
                topic_column=topic_column,
                value_format=value_format,
                key_format=key_format,
                on_progress=on_progress,
                timeout=_no_wait(timeout),
            )

    def send_sealed(self, batch: SealedBatch) -> TableDelivery:
        with _sends(self, "send_sealed"):
            return super().send_sealed(batch)

    def send_offsets_to_transaction(
        self,
        offsets: Mapping[Any, Any] | Sequence[Any],
        group_metadata: Any,
        timeout: float | None = None,
    ) -> None:
        super().send_offsets_to_transaction(offsets, group_metadata, timeout)
        self._sent.uncommitted_offsets.append(OffsetsToSend.checked(offsets, group_metadata))

    def commit_transaction(self, timeout: float | None = None) -> DeliveryReport:
        with self._sending:
            self._parts.rounds.take_into(self._sent)
        report = super().commit_transaction(timeout)
        with self._sending:
            self.commit_count += 1
            self._sent.commit()
        return report

    def leave_transaction(self, timeout: float | None = None) -> DeliveryReport:
        with self._sending:
            self._parts.rounds.take_into(self._sent)
        report = super().leave_transaction(timeout)
        with self._sending:
            self._sent.leave()
        return report

    def abort_transaction(self, timeout: float | None = None) -> DeliveryReport:
        report = super().abort_transaction(timeout)
        with self._sending:
            self.abort_count += 1
            self._sent.abort()
        return report

    def flush(self, timeout: float | None = None) -> DeliveryReport:
        self._planned_errors.raise_next("flush")
        with self._accumulator.unretrieved.reporting():  # a record that fails meanwhile is reported
            if not io_threads.on_io_thread():
                with self._sending:
                    self._parts.rounds.take_into(self._sent)
                self._parts.rounds.answer_all()
            return super().flush(timeout)

    def close(self, timeout: float | None = None) -> DeliveryReport:
        self._planned_errors.raise_next("close")
        with self._sending:
            self._parts.rounds.take_into(self._sent)
        coordinator = self._parts.coordinator
        aborts = coordinator is not None and coordinator.aborts_at_close
        try:
            return super().close(timeout)
        finally:
            if aborts:
                with self._sending:
                    self.abort_count += 1
                    self._sent.abort()

    def _transactional(self, method: str) -> Transactions:
        transactions = super()._transactional(method)
        self._planned_errors.raise_next(method)
        return transactions


@contextmanager
def _sends(producer: MockProducer, method: str) -> Iterator[None]:
    """Take the records that a call of *method* sends, and acknowledge them with *auto_complete*.

    If the call fails in the middle of a table, the rows before that are sent, as by a real producer. What a
    delivery callback sends is acknowledged when the callback has returned.
    """
    producer._planned_errors.raise_next(method)
    with completion_round():
        try:
            with producer._sending:
                try:
                    yield
                finally:
                    producer._parts.rounds.take_into(producer._sent)
                    if producer._parts.coordinator is not None:
                        producer._parts.rounds.advance()
        finally:
            if producer.auto_complete:
                call_at_end_of_round(producer._parts.rounds.complete_automatically)


def _no_wait(timeout: float | None) -> float | None:
    """The time-out of a call that must not wait, because nothing would end the wait; None is `max.block.ms`, 0 here."""
    if timeout is None:
        return None
    check_timeout(timeout)
    return 0.0
