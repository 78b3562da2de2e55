"""The face of Ottla: send records from any thread, wait for what became of them."""

from __future__ import annotations

import re
import time
import weakref
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from ottla import assembly, io_threads, lifetime
from ottla.batch import OnDelivery
from ottla.cluster import Cluster
from ottla.delivery import Delivery
from ottla.errors import (
    FlushTimeout,
    InvalidRecord,
    PluginBroken,
    RecordTooLarge,
    SerializationFailed,
    UndeliveredError,
    WrongCall,
)
from ottla.interfaces import Header, Serializer, TopicView
from ottla.recordbatch.v2 import HEADER_SIZE
from ottla.reports import DeliveryReport

UNSEEN: tuple[Cluster | None, TopicView] = (None, TopicView(partitions=0, available=(), queued_bytes=()))

TOPIC_NAME = re.compile(r"(?!\.{1,2}$)[a-zA-Z0-9._-]{1,249}")

RECORD_OVERHEAD = HEADER_SIZE + 21
"""What a lone record can take beside its key, value and headers: the batch's header, lengths and deltas."""


class Producer:
    """Sends records to Kafka. Threads may share one.

    *config* has Kafka's dotted names; keywords are the same names with `_` for `.`. Raises ConfigError, which lists
    every problem, and PluginError, which says what to install. No connection is made before the first record.
    """

    def __init__(self, config: Mapping[str, Any] | None = None, /, **options: Any) -> None:
        engine = assembly.build(config or {}, options)
        self._engine = engine
        self._accumulator = engine.accumulator
        self._metadata = engine.metadata
        self._partitioner = engine.partitioner
        self._appended = engine.appended
        self._max_record_size = min(engine.max_request_size, engine.buffer_memory)
        self._views: dict[str, tuple[Cluster | None, TopicView]] = {}
        self._life = lifetime.begin(engine.io_thread, engine.accumulator, engine.delivery_timeout)
        self._unclosed = weakref.finalize(self, self._life.abandon)
        self._unclosed.atexit = False

    def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        *,
        headers: Iterable[Header] = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> Delivery:
        """Queue a record and return where its outcome will be.

        Blocks only while the topic is not known yet, or while `buffer.memory` is used up, at most `max.block.ms`
        for each. Raises InvalidRecord, TopicUnavailable, BufferExhausted or ProducerClosed when the record was not
        queued. *on_delivery* is called on the I/O thread with a RecordMetadata or an error, the other one None.
        """
        engine = self._engine
        if self._life.refusal is not None:
            self._life.check()
        checked = _checked(headers) if headers else ()  # first: they may be readable only once
        if type(value) is not bytes or engine.value_serializer is not None:
            value = _serialized(engine.value_serializer, "value", topic, value, checked)
        if key is not None and (type(key) is not bytes or engine.key_serializer is not None):
            key = _serialized(engine.key_serializer, "key", topic, key, checked)
        size = (len(value) if value is not None else 0) + (len(key) if key is not None else 0)
        if checked:
            size += sum(len(name) * 4 + len(content or b"") + 10 for name, content in checked)
        if size + RECORD_OVERHEAD > self._max_record_size:
            raise self._too_large(topic, size)
        if timestamp_ms is None:
            timestamp_ms = time.time_ns() // 1_000_000
        elif type(timestamp_ms) is not int or timestamp_ms < 0:
            raise InvalidRecord(f"timestamp_ms must be an int of at least 0, not {timestamp_ms!r}")

        seen, view = self._views.get(topic, UNSEEN)
        if seen is not self._metadata.cluster:
            view = self._view(topic)
        if partition is None:
            partition = self._partitioner.partition(topic, key, view)
            if not 0 <= partition < view.partitions:
                raise PluginBroken(f"the partitioner chose partition {partition} of {view.partitions} for {topic!r}")
            chosen = True
        else:
            chosen = False
            if type(partition) is not int or not 0 <= partition < view.partitions:
                self._wait_for_partition(topic, partition)
        delivery = self._accumulator.append(topic, partition, key, value, checked, timestamp_ms, on_delivery, size)
        if chosen and self._appended is not None:
            self._appended(topic, partition, size)
        return delivery

    def flush(self, timeout: float | None = None) -> DeliveryReport:
        """Send everything queued so far at once, and wait for it, at most *timeout* seconds.

        Raises FlushTimeout when time runs out (nothing is dropped), UndeliveredError when a record failed since the
        last report and nobody looked at its outcome, and WrongCall inside a delivery callback.
        """
        if io_threads.here():
            raise WrongCall("flush inside a delivery callback would wait for itself; call it from another thread")
        self._life.check_process()
        in_time = self._accumulator.flush(timeout=timeout)
        report, unseen, error = self._accumulator.report()
        if not in_time:
            raise FlushTimeout(report, f"flush ran out of time after {timeout} s: {report}") from error
        if unseen:
            raise UndeliveredError(report, f"{unseen} record(s) failed and nobody looked: {error}") from error
        return report

    def close(self, timeout: float | None = None) -> DeliveryReport:
        """Refuse new records, send what is queued for at most *timeout* seconds, fail the rest, and stop.

        Without *timeout* it takes at most `delivery.timeout.ms`; 0 gives up what is queued at once. Inside a delivery
        callback it forces and returns without waiting. Raises UndeliveredError as `flush` does. Closing again is
        harmless.
        """
        self._unclosed.detach()
        report, unseen, error = self._life.end(timeout)
        if unseen:
            raise UndeliveredError(report, f"{unseen} record(s) failed and nobody looked: {error}") from error
        return report

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            self.close()
        except UndeliveredError as undelivered:
            if error is None:
                raise
            error.add_note(f"while closing the producer: {undelivered}")

    def _view(self, topic: str) -> TopicView:
        """What the partitioner may know of the topic; waits for metadata when there is none."""
        if not isinstance(topic, str) or not TOPIC_NAME.fullmatch(topic):
            raise InvalidRecord(f"{topic!r} is no topic: a name is 1 to 249 of a-z A-Z 0-9 . _ - and not . or ..")
        cluster = self._metadata.cluster
        known = cluster.topics.get(topic)
        if known is None or not known.leaders:
            known = self._metadata.wait_for(topic, partition=None, timeout=self._patience())
        view = TopicView(
            partitions=len(known.leaders),
            available=known.available,
            queued_bytes=self._accumulator.queued_bytes(topic, len(known.leaders)),
        )
        self._views[topic] = (cluster, view)
        return view

    def _wait_for_partition(self, topic: str, partition: int) -> None:
        if type(partition) is not int or partition < 0:
            raise InvalidRecord(f"partition must be an int of at least 0, not {partition!r}")
        self._metadata.wait_for(topic, partition=partition, timeout=self._patience())

    def _patience(self) -> float:
        """How long to wait for metadata: not at all inside a callback, where nothing could bring it."""
        return 0.0 if io_threads.here() else self._engine.max_block

    def _too_large(self, topic: str, size: int) -> RecordTooLarge:
        engine = self._engine
        name, limit = (
            ("max.request.size", engine.max_request_size)
            if engine.max_request_size <= engine.buffer_memory
            else ("buffer.memory", engine.buffer_memory)
        )
        return RecordTooLarge(
            f"a record of {size + RECORD_OVERHEAD} bytes for topic {topic!r} is above {name}={limit}; "
            "nothing was queued"
        )


def _serialized(
    serializer: Serializer | None, part: str, topic: str, data: Any, headers: Sequence[Header]
) -> bytes | None:
    if serializer is None:
        if data is None or isinstance(data, bytes):
            return data
        if isinstance(data, (bytearray, memoryview)):
            return bytes(data)
        raise InvalidRecord(
            f"the {part} for topic {topic!r} must be bytes, not {type(data).__name__}: encode it first, or set "
            f"{part}.serializer"
        )
    try:
        return serializer.serialize(topic, data, tuple(headers))
    except Exception as cause:
        raise SerializationFailed(f"the {part} for topic {topic!r} could not be serialized: {cause}") from cause


def _checked(headers: Iterable[Header]) -> tuple[Header, ...]:
    """The headers as the record format takes them: names are str, values bytes or None."""
    checked = tuple(headers.items()) if isinstance(headers, Mapping) else tuple(headers)
    for header in checked:
        try:
            name, content = header
        except (TypeError, ValueError):
            raise InvalidRecord(f"a header is a pair of name and value, not {header!r}") from None
        if not isinstance(name, str) or not (content is None or isinstance(content, bytes)):
            raise InvalidRecord(
                f"a header's name is str and its value bytes or None, not {type(name).__name__} and "
                f"{type(content).__name__}"
            )
    return checked
