"""One batch of records on its way to one partition: open, then sealed, then settled once.

Open, it collects records as columns; sealed, it is the bytes of a request; settled, it is an outcome that its
deliveries read. It knows nothing of queues, memory or connections.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import attrs

from ottla import io_threads
from ottla.errors import DeliveryFailed, OttlaError, WrongCall
from ottla.interfaces import Buffer, Columns, Header
from ottla.records import RecordMetadata

logger = logging.getLogger(__name__)

OnDelivery: TypeAlias = Callable[[RecordMetadata | None, OttlaError | None], object]


@attrs.frozen(kw_only=True)
class Sealed:
    """The records section as it goes over the wire, and what the batch's header says of it."""

    chunks: Sequence[Buffer]
    size: int
    codec_id: int
    first_timestamp: int
    max_timestamp: int
    count: int


@attrs.frozen(kw_only=True)
class Acknowledged:
    """The broker holds the batch from *base_offset* on; -1: it did not say. `log_append_time_ms` -1: CreateTime."""

    base_offset: int
    log_append_time_ms: int = -1


@attrs.frozen(kw_only=True)
class Failed:
    """The batch was given up; `record_errors` are the records that the broker itself names."""

    error: DeliveryFailed
    record_errors: Mapping[int, DeliveryFailed] = attrs.field(factory=dict)

    def error_of(self, index: int) -> DeliveryFailed:
        """Why this record failed."""
        return self.record_errors.get(index, self.error)


Outcome: TypeAlias = Acknowledged | Failed


class ProducerBatch:
    """The records of one partition that travel together.

    While open it belongs to the accumulator's lock; once closed, to the I/O thread; `settle` and the deliveries
    may be used from any thread.
    """

    __slots__ = (
        "_callbacks",
        "_columns",
        "_guard",
        "_looked_at",
        "_settled",
        "attempts",
        "closed",
        "count",
        "created_at",
        "held_bytes",
        "in_flight",
        "last_error",
        "last_node",
        "outcome",
        "partition",
        "retry_at",
        "sealed",
        "topic",
        "unanswered",
        "used_bytes",
    )

    def __init__(self, *, topic: str, partition: int, columns: Columns, now: float) -> None:
        self.topic = topic
        self.partition = partition
        self.created_at = now
        self.held_bytes = 0
        self.used_bytes = 0
        self.count = 0
        self.closed = False
        self.attempts = 0
        self.retry_at = now
        self.in_flight = False
        self.unanswered = False  # an attempt ended without an answer
        self.last_node: int | None = None
        self.last_error: OttlaError | None = None
        self.sealed: Sealed | None = None
        self.outcome: Outcome | None = None
        self._columns = columns
        self._guard = threading.Lock()
        self._settled = threading.Event()
        self._callbacks: list[tuple[int, OnDelivery]] = []
        self._looked_at: set[int] | None = None

    @property
    def possibly_persisted(self) -> bool:
        """Whether the broker may hold the batch although it never said so."""
        return self.in_flight or self.unanswered

    @property
    def columns(self) -> Columns:
        """The records, until they are encoded; their sizes and timestamps, for good."""
        return self._columns

    def append(
        self,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[Header],
        timestamp_ms: int,
        on_delivery: OnDelivery | None,
    ) -> int | None:
        """The record's index, or None when it does not fit."""
        index = self._columns.append(key, value, headers, timestamp_ms)
        if index is not None:
            self.count = index + 1
            if on_delivery is not None:
                self._callbacks.append((index, on_delivery))
        return index

    def settle(self, outcome: Outcome) -> bool:
        """Give the batch its outcome and run the callbacks on this thread; False: it had one already."""
        with self._guard:
            if self.outcome is not None:
                return False
            self.outcome = outcome
            callbacks, self._callbacks = self._callbacks, []
        self.sealed = None
        self._settled.set()
        for index, callback in callbacks:
            self._call(callback, index, outcome)
        return True

    def wait(self, timeout: float | None) -> bool:
        """Wait until the batch is settled; False: time ran out."""
        if self.outcome is None and io_threads.here():
            raise WrongCall("waiting for a delivery inside a delivery callback would never end; use a callback")
        return self._settled.wait(timeout)

    def call_when_settled(self, index: int, callback: OnDelivery) -> None:
        """Run *callback* for a record once the batch is settled; at once, on this thread, when it is."""
        with self._guard:
            outcome = self.outcome
            if outcome is None:
                self._callbacks.append((index, callback))
                return
        self._call(callback, index, outcome)

    def metadata(self, index: int, outcome: Acknowledged) -> RecordMetadata:
        """What an acknowledged record's caller is told."""
        timestamp_ms, key_size, value_size = self._columns.facts(index)
        return RecordMetadata(
            topic=self.topic,
            partition=self.partition,
            offset=outcome.base_offset + index if outcome.base_offset >= 0 else -1,
            timestamp_ms=timestamp_ms if outcome.log_append_time_ms < 0 else outcome.log_append_time_ms,
            serialized_key_size=key_size,
            serialized_value_size=value_size,
        )

    def look_at(self, index: int) -> None:
        """Note that somebody has seen why this record failed."""
        with self._guard:
            if self._looked_at is None:
                self._looked_at = set()
            self._looked_at.add(index)

    def unseen(self) -> int:
        """How many records' failures nobody has looked at."""
        return self.count - len(self._looked_at or ())

    def _call(self, callback: OnDelivery, index: int, outcome: Outcome) -> None:
        try:
            if isinstance(outcome, Acknowledged):
                callback(self.metadata(index, outcome), None)
            else:
                self.look_at(index)
                callback(None, outcome.error_of(index))
        except BaseException:  # SystemExit too: in a callback it must not end the thread of all others
            logger.exception(
                "a delivery callback for topic %s, partition %d raised; the producer goes on",
                self.topic,
                self.partition,
            )
