"""Interceptors, and the record that passes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import attrs

from ottla.interfaces.records import Header
from ottla.results import RecordMetadata


@attrs.frozen(kw_only=True)
class ProducerRecord:
    """A record on its way through the interceptors: the arguments of `send`, before the serializers.

    *partition* None: the partitioner chooses; *timestamp_ms* None: now. *context* is any object that the interceptor
    gets back with the outcome of this record; each interceptor has one of its own, and sees no other's.
    """

    topic: str
    key: Any
    value: Any
    headers: Sequence[Header]
    partition: int | None
    timestamp_ms: int | None
    context: Any = None


@runtime_checkable
class Interceptor(Protocol):
    """Called with every record before it is queued, and with every outcome. This is generation 2 of the contract.

    Its exceptions are logged, and the record is sent without it.

    Optional ability: `SupportsClose`.
    """

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Return the record to go on with, such as `attrs.evolve(record, value=...)`; its topic cannot be changed.

        Called by many threads at once, before the serializers, with the result of the interceptor before this one. It
        must not change the objects that it gets.
        """

    def on_acknowledgement(self, metadata: RecordMetadata, error: Exception | None, context: Any) -> None:
        """Note the outcome of a record. Called once for each, in partition order, on the I/O thread, which waits.

        With an *error* the record was given up, and *metadata* has only the topic and, if the record had one, the
        partition. For a record that `send` refuses, it is called by the thread that sends. *context* is that of the
        record which this interceptor returned from `on_send`; None if it set none, failed, or was not called.
        """
