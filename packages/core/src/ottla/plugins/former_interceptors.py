"""Interceptors of generation 1, which get a record in parts, as interceptors of the newest generation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import attrs

from ottla.interfaces import (
    Header,
    ProducerRecord,
    SupportsClose,
    SupportsOnSendTable,
    SupportsOnTableAcknowledgement,
    supports,
)
from ottla.results import RecordMetadata


@runtime_checkable
class FormerInterceptor(Protocol):
    """The contract of generation 1: neither partition nor timestamp, and no context."""

    def on_send(self, topic: str, key: Any, value: Any, headers: Sequence[Header]) -> tuple[Any, Any, Sequence[Header]]:
        """Return the key, value and headers to go on with."""

    def on_acknowledgement(self, metadata: RecordMetadata, error: Exception | None) -> None:
        """Note the outcome of a record."""


class AdaptedInterceptor:
    """Adapts an interceptor of generation 1, the *former* one, to the newest generation."""

    def __init__(self, former: FormerInterceptor) -> None:
        self.former = former
        self.on_send_table = former.on_send_table if supports(former, SupportsOnSendTable) else None
        self.on_table_acknowledgement = (
            former.on_table_acknowledgement if supports(former, SupportsOnTableAcknowledgement) else None
        )
        self.close = former.close if supports(former, SupportsClose) else None

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """The record with the key, value and headers that the former interceptor returns. Raises TypeError."""
        made: Any = self.former.on_send(record.topic, record.key, record.value, record.headers)
        key, value, headers = three_parts(made)
        return attrs.evolve(record, key=key, value=value, headers=headers)

    def on_acknowledgement(self, metadata: RecordMetadata, error: Exception | None, context: Any) -> None:
        """Pass the outcome on."""
        self.former.on_acknowledgement(metadata, error)


def three_parts(made: Any) -> tuple[Any, Any, Any]:
    """Check and return the result of a former interceptor's `on_send`. Raises TypeError unless it has three parts."""
    if not isinstance(made, tuple) or len(made) != 3:
        raise TypeError(f"on_send returned {type(made).__name__}, not a tuple of key, value and headers")
    return made
