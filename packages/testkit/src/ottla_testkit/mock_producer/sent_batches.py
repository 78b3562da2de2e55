"""The batches that a mock producer has sent, and those of them that have no result yet."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import attrs

from ottla.accumulator.accumulator import RecordAccumulator
from ottla.accumulator.batch import ProducerBatch
from ottla.accumulator.batch_outcome import Acknowledged, Failed
from ottla.accumulator.delivery_errors import delivery_failed, dropped
from ottla.concurrency import io_threads
from ottla.errors import BrokerError, DeliveryError, OttlaError
from ottla.interfaces import Compressor, Header
from ottla.metrics import Counters
from ottla.network.metadata import Metadata
from ottla.recordbatch.parse import parse_batches
from ottla.sender.produce_messages import PartitionRefusal
from ottla.sender.produce_outcomes import failed
from ottla.sender.sender_metrics import count_acknowledged, count_request
from ottla_testkit.mock_producer.timestamps import refusal_of

NODE = 0
_NO_LIMIT = 1 << 62


@attrs.frozen(kw_only=True)
class SentRecord:
    """A record as a broker would get it: serialized, and with a partition."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]
    timestamp_ms: int


class SentBatches:
    """Takes batches from the accumulator and completes them on request. For any thread.

    `on_failure` is called after a batch has failed. Callbacks run on the completing thread, which then counts as the
    producer's own.
    """

    def __init__(
        self,
        *,
        accumulator: RecordAccumulator,
        metadata: Metadata,
        compressor: Compressor | None,
        acks: int,
        counters: Counters,
        clock: Callable[[], float],
        timestamp_after_max_ms: int | None,
    ) -> None:
        self._accumulator = accumulator
        self._metadata = metadata
        self._compressors = {} if compressor is None else {compressor.codec_id: compressor}
        self._acks = acks
        self._counters = counters
        self._clock = clock
        self._timestamp_after_max_ms = timestamp_after_max_ms
        self._pending: deque[ProducerBatch] = deque()
        self._planned: deque[Exception | None] = deque()
        self._failing: dict[ProducerBatch, Exception] = {}
        self._refused: dict[ProducerBatch, PartitionRefusal] = {}
        self._ends: Counter[tuple[str, int]] = Counter()
        self._lock = threading.Lock()
        self.on_failure: Callable[[ProducerBatch, DeliveryError], object] = lambda _batch, _error: None

    @property
    def pending(self) -> int:
        """Number of records that wait for a result."""
        with self._lock:
            return sum(batch.count for batch in self._pending)

    def plan_failures(self, causes: Iterable[Exception | None]) -> None:
        """Let the next batches that are taken fail, in place of their acknowledgement; those with None do not."""
        with self._lock:
            self._planned.extend(causes)

    def clear_planned(self) -> None:
        """Drop the planned failures of batches that are not taken yet."""
        with self._lock:
            self._planned.clear()

    def take(self) -> list[SentRecord]:
        """Take all queued batches; return their records, in order."""
        self._accumulator.close_open_batches()
        taken: list[SentRecord] = []
        with on_the_io_thread():  # records that cannot be encoded fail immediately
            self._counters.end_window_if_due(self._clock())
            while drained := self._drain():
                count_request(self._counters, drained, self._clock())
                for batch in drained:
                    records = list(self._records(batch))
                    taken += records
                    # With acks=0 no broker says that it has refused a batch.
                    refusal = refusal_of(records, self._timestamp_after_max_ms) if self._acks else None
                    batch.mark_sent(NODE, self._clock())
                    with self._lock:
                        self._pending.append(batch)
                        cause = self._planned.popleft() if self._planned else None
                        if cause is not None:
                            self._failing[batch] = cause
                        elif refusal is not None:
                            self._refused[batch] = refusal
        return taken

    def answer(self) -> bool:
        """Acknowledge the oldest batch, or fail it if planned or as a broker; return False if there is none."""
        with self._lock:  # one step: another thread may answer, too
            if not self._pending:
                return False
            batch = self._pending.popleft()
            cause, refusal = self._failing.pop(batch, None), self._refused.pop(batch, None)
            partition = (batch.topic, batch.partition)
            offset = self._ends[partition] if self._acks else -1
            if cause is None and refusal is None:
                self._ends[partition] += batch.count
        batch.mark_returned(self._clock())
        if cause is not None:
            self._fail_for(batch, cause)
            return True
        if refusal is not None:
            error = BrokerError(refusal.code, refusal.message)
            self._complete(batch, failed(batch, error, self._clock(), response=refusal))
            return True
        with on_the_io_thread():
            count_acknowledged(self._counters, batch, self._clock())
            self._accumulator.complete(batch, Acknowledged(base_offset=offset))
        return True

    def fail(self, cause: Exception) -> bool:
        """Fail the oldest batch; return False if there is none."""
        batch = self._oldest()
        if batch is None:
            return False
        self._fail_for(batch, cause)
        return True

    def drop(self, cause: OttlaError) -> None:
        """Fail all batches, because their transaction cannot be committed."""
        while (batch := self._oldest()) is not None:
            self._fail(batch, dropped(batch, cause, self._clock()))

    def _drain(self) -> list[ProducerBatch]:
        return self._accumulator.drain(self._metadata.cluster, [NODE], max_size=_NO_LIMIT, now=self._clock()).get(
            NODE, []
        )

    def _records(self, batch: ProducerBatch) -> Iterator[SentRecord]:
        assert batch.sealed is not None, "a drained batch is sealed"
        for part in parse_batches(b"".join(batch.sealed.wire_chunks()), compressors=self._compressors):
            for record in part.records:
                yield SentRecord(
                    topic=batch.topic,
                    partition=batch.partition,
                    key=record.key,
                    value=record.value,
                    headers=tuple(record.headers),
                    timestamp_ms=record.timestamp_ms,
                )

    def _oldest(self) -> ProducerBatch | None:
        with self._lock:
            if not self._pending:
                return None
            batch = self._pending.popleft()
            self._failing.pop(batch, None)
            self._refused.pop(batch, None)
        batch.mark_returned(self._clock())
        return batch

    def _fail_for(self, batch: ProducerBatch, cause: Exception) -> None:
        error = cause if isinstance(cause, DeliveryError) else delivery_failed(batch, cause, self._clock())
        self._fail(batch, error)

    def _fail(self, batch: ProducerBatch, error: DeliveryError) -> None:
        self._complete(batch, Failed(error=error))

    def _complete(self, batch: ProducerBatch, failure: Failed) -> None:
        with on_the_io_thread():
            self._accumulator.complete(batch, failure)
        self.on_failure(batch, failure.error)


@contextmanager
def on_the_io_thread() -> Iterator[None]:
    """Mark this thread as the I/O thread while callbacks run: no call on it may wait for the producer."""
    if io_threads.on_io_thread():
        yield
        return
    io_threads.enter()
    try:
        yield
    finally:
        io_threads.leave()
