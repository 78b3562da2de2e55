"""A producer without a cluster: identical to a real one down to the batches; the test answers for the brokers."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping, Sequence
from types import EllipsisType
from typing import Any, Final

from ottla.accumulator.batch import ProducerBatch
from ottla.accumulator.delivery import Delivery, OnDelivery
from ottla.accumulator.topic_routes import Route
from ottla.concurrency import io_threads
from ottla.errors import DeliveryError, ErrorCode, IllegalStateError
from ottla.interfaces import Headers
from ottla.network.cluster import Broker, Topic
from ottla.producer import Producer
from ottla.producer.transactions import Transactions
from ottla.recordbatch.sealed_records import SealedBatch
from ottla.results import DeliveryReport
from ottla.tables.table_delivery import TableDelivery
from ottla.transactions.offsets import OffsetsToSend
from ottla.transactions.state_table import State
from ottla_testkit.mock_producer.build import MockParts, build
from ottla_testkit.mock_producer.sent_batches import NODE, SentRecord

_OPEN: Final = (State.IN_TRANSACTION, State.ABORTABLE_ERROR, State.PREPARED, State.COMMITTING, State.ABORTING)
_ABORTED_BY_CLOSE: Final = (State.IN_TRANSACTION, State.ABORTABLE_ERROR)
_METHODS: Final = frozenset(
    {
        "send",
        "send_table",
        "send_sealed",
        "flush",
        "close",
        "init_transactions",
        "begin_transaction",
        "send_offsets_to_transaction",
        "commit_transaction",
        "abort_transaction",
        "prepare_transaction",
        "join_transaction",
        "leave_transaction",
    }
)


class MockProducer(Producer):
    """A `Producer` that checks the same configuration and connects nowhere; it ignores the keys of security.

    Records are serialized, partitioned, encoded and compressed, and then wait. With *auto_complete* each is
    acknowledged immediately. Without it, `complete_next` acknowledges and `error_next` fails the oldest one, and
    `flush`, `close`, `commit_transaction` and `leave_transaction` acknowledge the rest. Callbacks run on the calling
    thread.

    *topics* are the cluster's topics with their numbers of partitions; None: every topic exists, with *partitions*.
    Nothing ever blocks: where a real producer would wait until a time-out, the error is raised immediately.
    """

    def __init__(
        self,
        config: Mapping[str, Any] | None = None,
        /,
        *,
        topics: Mapping[str, int] | None = None,
        partitions: int = 1,
        auto_complete: bool = True,
        **options: Any,
    ) -> None:
        parts = build(config or {}, options)
        self.auto_complete = auto_complete
        """Whether records are acknowledged as soon as they are sent; may be changed at any time."""
        self.commit_count = 0
        """Number of committed transactions."""
        self.abort_count = 0
        """Number of aborted transactions."""
        self._topics = topics
        self._partitions = partitions
        self._parts: MockParts = parts
        self._sending = threading.RLock()
        self._history: list[SentRecord] = []
        self._uncommitted: list[SentRecord] = []
        self._committed_offsets: list[OffsetsToSend] = []
        self._uncommitted_offsets: list[OffsetsToSend] = []
        self._planned: dict[str, deque[Exception]] = {}
        parts.sent_batches.on_failure = self._note_failure
        self._begin(parts.engine)

    # Sent records

    @property
    def history(self) -> Sequence[SentRecord]:
        """All records so far, in the order of `send`, acknowledged or not.

        Of transactions, it has the committed ones, and those that this producer joined and left: their owner ends them.
        """
        return tuple(self._history)

    @property
    def uncommitted_records(self) -> Sequence[SentRecord]:
        """The records of the open transaction."""
        return tuple(self._uncommitted)

    @property
    def committed_offsets(self) -> Sequence[OffsetsToSend]:
        """Arguments of `send_offsets_to_transaction` in committed transactions, in order: `group` and `offsets`."""
        return tuple(self._committed_offsets)

    @property
    def uncommitted_offsets(self) -> Sequence[OffsetsToSend]:
        """The same for the open transaction."""
        return tuple(self._uncommitted_offsets)

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
        """Whether a transaction is open, prepared and failed ones included."""
        coordinator = self._parts.coordinator
        return coordinator is not None and coordinator.manager.state in _OPEN

    def clear(self) -> None:
        """Remove sent records, counts and planned errors; pending records stay pending."""
        with self._sending:
            for each in (self._history, self._uncommitted, self._committed_offsets, self._uncommitted_offsets):
                each.clear()
            self._planned.clear()
            self.commit_count = self.abort_count = 0

    # The brokers' part

    def complete_next(self) -> bool:
        """Acknowledge the oldest pending record, or batch of a table's rows; return False if there is none."""
        return self._parts.rounds.answer()

    def error_next(self, error: Exception) -> bool:
        """Fail the oldest pending record, or batch of a table's rows; return False if there is none.

        Its caller gets a DeliveryError whose cause is *error*, or *error* itself if it is one.
        """
        return self._parts.rounds.answer(error)

    def raise_next(self, method: str, error: Exception) -> None:
        """Make the next call of this method raise *error* and do nothing else; several errors are raised in turn."""
        if method not in _METHODS:
            raise ValueError(f"a producer has no method {method!r} that can fail; it has {', '.join(sorted(_METHODS))}")
        self._planned.setdefault(method, deque()).append(error)

    def fence(self) -> None:
        """Let another producer take the transactional id over: later calls are refused, as by a broker."""
        coordinator = self._parts.coordinator
        if coordinator is None:
            raise IllegalStateError("fence needs a producer with a transactional.id")
        if coordinator.manager.state is State.UNINITIALIZED:
            raise IllegalStateError(
                "fence needs a producer that has its transactional.id; call init_transactions first"
            )
        coordinator.fence()

    # The interface of a producer

    def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        *,
        headers: Headers = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> Delivery:
        self._raise("send")
        with self._sending:
            delivery = super().send(
                topic,
                value,
                key,
                headers=headers,
                partition=partition,
                timestamp_ms=timestamp_ms,
                on_delivery=on_delivery,
            )
            self._take()
        self._complete_if_automatic()
        return delivery

    def send_table(
        self,
        topic: str,
        table: Any,
        *,
        value: str | Sequence[str] | None = "value",
        key: str | EllipsisType | None = ...,
        headers: str | None = None,
        partition: str | None = None,
        timestamp: str | None = None,
        value_format: str | None = None,
    ) -> TableDelivery:
        self._raise("send_table")
        with self._sending:
            try:
                delivery = super().send_table(
                    topic,
                    table,
                    value=value,
                    key=key,
                    headers=headers,
                    partition=partition,
                    timestamp=timestamp,
                    value_format=value_format,
                )
            finally:
                self._take()  # in the middle of a table, too
        self._complete_if_automatic()
        return delivery

    def send_sealed(self, batch: SealedBatch) -> TableDelivery:
        self._raise("send_sealed")
        with self._sending:
            delivery = super().send_sealed(batch)
            self._take()
        self._complete_if_automatic()
        return delivery

    def send_offsets_to_transaction(
        self,
        offsets: Mapping[Any, Any],
        group_metadata: Any,
        timeout: float | None = None,
    ) -> None:
        super().send_offsets_to_transaction(offsets, group_metadata, timeout)
        self._uncommitted_offsets.append(OffsetsToSend.checked(offsets, group_metadata))

    def commit_transaction(self, timeout: float | None = None) -> DeliveryReport:
        report = super().commit_transaction(timeout)
        with self._sending:
            self.commit_count += 1
            self._keep()
            self._committed_offsets += self._uncommitted_offsets
            self._uncommitted_offsets.clear()
        return report

    def leave_transaction(self, timeout: float | None = None) -> DeliveryReport:
        report = super().leave_transaction(timeout)
        with self._sending:
            self._keep()
        return report

    def abort_transaction(self, timeout: float | None = None) -> DeliveryReport:
        report = super().abort_transaction(timeout)
        self._abort()
        return report

    def flush(self, timeout: float | None = None) -> DeliveryReport:
        self._raise("flush")
        with self._accumulator.unretrieved.reporting():  # what fails meanwhile is reported
            if not io_threads.on_io_thread():
                self._parts.rounds.answer_all()
            return super().flush(timeout)

    def close(self, timeout: float | None = None) -> DeliveryReport:
        self._raise("close")
        coordinator = self._parts.coordinator
        aborts = coordinator is not None and coordinator.manager.state in _ABORTED_BY_CLOSE
        try:
            return super().close(timeout)
        finally:
            if aborts:
                self._abort()

    def _transactional(self, method: str) -> Transactions:
        transactions = super()._transactional(method)
        self._raise(method)
        return transactions

    def _find_route(self, topic: str, *, to_send: bool = True) -> Route:
        if isinstance(topic, str) and topic not in self._engine.metadata.cluster.topics:
            self._add_topic(topic)
        return super()._find_route(topic, to_send=to_send)

    def _add_topic(self, topic: str) -> None:
        """Add a topic to the metadata, as a broker's response would."""
        metadata = self._engine.metadata
        count = self._partitions if self._topics is None else self._topics.get(topic, 0)
        known = Topic(name=topic, leaders=(NODE,) * count, epochs=(0,) * count)
        if not count:
            known = Topic(name=topic, error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        metadata.use(topic, 0.0)
        metadata.update({NODE: Broker(id=NODE, host="mock", port=9092)}, {topic: known}, 0.0, partial=True)

    def _take(self) -> None:
        records, coordinator = self._parts.sent_batches.take(), self._parts.coordinator
        if coordinator is None:
            self._history += records
            return
        self._uncommitted += records
        for record in records:
            coordinator.join(record.topic, record.partition)
        self._parts.rounds.advance()

    def _complete_if_automatic(self) -> None:
        if self.auto_complete:
            self._parts.rounds.answer_all()

    def _keep(self) -> None:
        self._history += self._uncommitted
        self._uncommitted.clear()

    def _abort(self) -> None:
        with self._sending:
            self.abort_count += 1
            self._uncommitted.clear()
            self._uncommitted_offsets.clear()

    def _note_failure(self, batch: ProducerBatch, error: DeliveryError) -> None:
        coordinator = self._parts.coordinator
        if coordinator is not None:
            coordinator.sequences.fail(batch, error)

    def _raise(self, method: str) -> None:
        planned = self._planned.get(method)
        if planned:
            raise planned.popleft()
