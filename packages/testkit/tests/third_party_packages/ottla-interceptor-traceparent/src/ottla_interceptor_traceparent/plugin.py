"""The plugin: its key, and an interceptor that adds W3C's header `traceparent`, and counts outcomes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Final

import attrs
from ottla import RecordMetadata, TableResult
from ottla.hookspecs import hookimpl
from ottla.interfaces import (
    ConfigKey,
    Interceptor,
    PluginConfig,
    PluginContext,
    PluginMetrics,
    ProducerRecord,
    ProducerRows,
    SupportsOnSendTable,
    SupportsOnTableAcknowledgement,
)

from ottla_interceptor_traceparent import columns
from ottla_interceptor_traceparent.header import HEADER, SPAN_BYTES, TRACE_BYTES, new_id, traceparent

ottla_spec = 2
"""The generation of the contract of interceptors that this plugin is written for."""

SAMPLED: Final = "traceparent.sampled"
OUTCOMES: Final = "traceparent-records-total"
"""The metric, with a tag `outcome`: `acknowledged` or `failed`."""


class TraceparentInterceptor(SupportsOnSendTable, SupportsOnTableAcknowledgement):
    """Adds a `traceparent` to records without one.

    A record begins a trace of its own; the rows of a table share one trace. Each record and each row is a span.

    Many threads call it at once, and the I/O thread as well: its only state are two counters, which are for any thread.
    """

    def __init__(self, *, sampled: bool, metrics: PluginMetrics) -> None:
        self._sampled = sampled
        self._acknowledged, self._failed = (
            metrics.add_counter(
                OUTCOMES, unit="records", meaning="Records and rows, by their outcome.", tags={"outcome": outcome}
            )
            for outcome in ("acknowledged", "failed")
        )

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Return the record with a `traceparent`, unless it has one already."""
        if any(name == HEADER for name, _content in record.headers):
            return record
        made = traceparent(new_id(TRACE_BYTES), new_id(SPAN_BYTES), sampled=self._sampled)
        return attrs.evolve(record, headers=(*record.headers, (HEADER, made)))

    def on_acknowledgement(self, metadata: RecordMetadata, error: Exception | None, context: Any) -> None:
        """Count the record's outcome."""
        (self._acknowledged if error is None else self._failed).add()

    def on_send_table(self, rows: ProducerRows) -> ProducerRows:
        """Return the rows with a `traceparent` for each one that has none; the context is the trace id of the table."""
        if any(name == HEADER for name, _content in rows.added_headers):
            return rows
        trace = rows.context or new_id(TRACE_BYTES)
        spans = os.urandom(SPAN_BYTES * rows.count).hex()
        headers = columns.with_spans(rows.headers, trace, spans, count=rows.count, sampled=self._sampled)
        return attrs.evolve(rows, headers=headers, context=trace)

    def on_table_acknowledgement(self, topic: str, result: TableResult, error: Exception | None, context: Any) -> None:
        """Count the outcomes of the rows."""
        self._acknowledged.add(result.acknowledged)
        self._failed.add(result.failed)


def boolean(written: object) -> bool:
    """Convert what users write, `true` or `false`, to a bool."""
    try:
        return {"true": True, "false": False}[str(written).strip().lower()]
    except KeyError:
        raise ValueError("it must be true or false") from None


@hookimpl
def ottla_config_keys() -> Sequence[ConfigKey]:
    """The key for the flag."""
    return [
        ConfigKey(
            name=SAMPLED,
            type=boolean,
            default=True,
            meaning="whether new traces have the flag `sampled`: true or false",
        )
    ]


@hookimpl
def ottla_interceptor(config: PluginConfig, context: PluginContext) -> Interceptor:
    """The interceptor named `traceparent`."""
    return TraceparentInterceptor(sampled=config[SAMPLED], metrics=context.metrics)
