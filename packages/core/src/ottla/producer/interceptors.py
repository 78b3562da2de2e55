"""The chain of a producer's interceptors: called before a record is queued, and with its outcome.

An interceptor that fails is logged and skipped; its failure loses no record. Without interceptors nothing here is
created, and `send` is unchanged.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs

from ottla.accumulator.delivery import Delivery, ObservingCallback, OnDelivery, outcome_of
from ottla.errors import DeliveryError
from ottla.errors.log_throttle import ThrottledLog
from ottla.errors.plugin_origin import FAULTS
from ottla.interfaces import Header, Headers, Interceptor
from ottla.producer.callbacks import check_callback
from ottla.producer.headers import checked_headers
from ottla.producer.send_signature import Send
from ottla.results import RecordMetadata

logger = logging.getLogger(__name__)


class Interceptors:
    """The interceptors of one producer, in order, by their names in the log. For any thread."""

    def __init__(self, interceptors: Mapping[str, Interceptor], *, clock: Callable[[], float]) -> None:
        self._interceptors = interceptors
        self._throttled_log = ThrottledLog(logger, clock=clock)

    def __str__(self) -> str:
        return ", ".join(self._interceptors)

    def around(self, send: Send) -> Send:
        """Wrap *send*: records pass the interceptors first; the interceptors get the outcome of refused ones, too."""

        def intercepted(
            topic: str,
            value: Any = None,
            key: Any = None,
            *,
            headers: Headers = (),
            partition: int | None = None,
            timestamp_ms: int | None = None,
            on_delivery: OnDelivery | None = None,
        ) -> Delivery:
            outcome = _Outcome(self, topic, partition, on_delivery)
            try:
                if on_delivery is not None:
                    check_callback(on_delivery)
                # First: headers may be readable only once.
                given = tuple(headers.items()) if isinstance(headers, Mapping) else tuple(headers)
                key, value, given = self._on_send(topic, key, value, given)
                return send(
                    topic,
                    value,
                    key,
                    headers=given,
                    partition=partition,
                    timestamp_ms=timestamp_ms,
                    on_delivery=outcome,
                )
            except Exception as error:
                self.acknowledge(outcome.unwritten(error), error)
                raise

        return intercepted

    def acknowledge(self, metadata: RecordMetadata, error: Exception | None) -> None:
        """Call every interceptor with the outcome of a record."""
        for name, interceptor in self._interceptors.items():
            try:
                interceptor.on_acknowledgement(metadata, error)
            except FAULTS as cause:
                self._throttled_log.error(
                    (name, "on_acknowledgement"), "the %s failed in on_acknowledgement", name, error=cause
                )

    def _on_send(
        self, topic: str, key: Any, value: Any, headers: Sequence[Header]
    ) -> tuple[Any, Any, tuple[Header, ...]]:
        record = key, value, tuple(headers)
        for name, interceptor in self._interceptors.items():
            try:
                record = _record(interceptor.on_send(topic, *record), record)
            except FAULTS as cause:
                self._throttled_log.error(
                    (name, "on_send"),
                    "the %s failed in on_send; the record is sent without its change",
                    name,
                    error=cause,
                )
        return record


@attrs.define(eq=False)
class _Outcome(ObservingCallback):
    """The callback of one record: calls the interceptors, then the callback of its `send`."""

    _interceptors: Interceptors
    _topic: str
    _partition: int | None
    _on_delivery: OnDelivery | None

    @property
    def retrieves_error(self) -> bool:
        """Whether calling this retrieves the error for the program: interceptors alone do not."""
        return self._on_delivery is not None

    def unwritten(self, error: Exception) -> RecordMetadata:
        """Metadata of a record that was not written."""
        partition = error.partition if isinstance(error, DeliveryError) else self._partition
        return RecordMetadata(self._topic, partition if isinstance(partition, int) else -1, -1, -1, -1, -1)

    def __call__(self, delivery: Delivery) -> None:
        try:
            metadata, error = outcome_of(delivery)
            if metadata is None:
                assert error is not None, "a record has one or the other"
                metadata = self.unwritten(error)
            self._interceptors.acknowledge(metadata, error)
        finally:
            if self._on_delivery is not None:
                self._on_delivery(delivery)


def _record(made: Any, given: tuple[Any, Any, tuple[Header, ...]]) -> tuple[Any, Any, tuple[Header, ...]]:
    """The record that an interceptor has made of the *given* one. Raises for a fault of the interceptor."""
    if not isinstance(made, tuple) or len(made) != 3:
        raise TypeError(f"on_send returned {type(made).__name__}, not a tuple of key, value and headers")
    key, value, headers = made
    # Headers that the caller gave are checked by `send`, which then refuses the record.
    return key, value, headers if headers is given[2] else checked_headers(headers)
