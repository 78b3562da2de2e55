"""Traces: a span for each record, or for each table, whose context travels in the headers. And how long they took."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import attrs
from opentelemetry import metrics, propagate, trace
from opentelemetry.context import Context
from opentelemetry.propagators.textmap import Getter, Setter, TextMapPropagator
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode

import ottla
from ottla import RecordMetadata
from ottla.hookspecs import hookimpl
from ottla.interfaces import (
    ConfigKey,
    Header,
    Interceptor,
    PluginConfig,
    PluginContext,
    ProducerRecord,
    ProducerRows,
    boolean,
)
from ottla_opentelemetry import conventions as semconv

ottla_spec: Final = 2

MESSAGE_KEY: Final = "opentelemetry.message.key"

ottla_conformance: Final = "ottla_opentelemetry.conformance:TracingConformance"

Headers = list[Header]


class _Headers(Setter[Headers], Getter[Sequence[Header]]):
    """Headers of a record for a propagator: text as UTF-8."""

    def set(self, carrier: Headers, key: str, value: str) -> None:
        carrier.append((key, value.encode()))

    def get(self, carrier: Sequence[Header], key: str) -> list[str] | None:
        found = [value.decode("utf-8", "replace") for name, value in carrier if name == key and value is not None]
        return found or None

    def keys(self, carrier: Sequence[Header]) -> list[str]:
        return [name for name, _value in carrier]


_HEADERS: Final = _Headers()


@attrs.define(eq=False)
class _Operation:
    """One `send` that is not over: its span, and its start by the monotonic clock."""

    span: Span
    topic: str
    started_at: float


class TracingInterceptor:
    """Starts a span when a record or a table is sent, and ends it with its outcome. For any thread.

    If the headers of a record have a context already, it stays: the span then links to it.
    """

    def __init__(
        self,
        *,
        tracer_provider: trace.TracerProvider | None = None,
        meter_provider: metrics.MeterProvider | None = None,
        propagator: TextMapPropagator | None = None,
        message_key: bool = False,
        context: PluginContext,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._tracer = trace.get_tracer(semconv.SCOPE, ottla.__version__, tracer_provider, semconv.SCHEMA_URL)
        meter = metrics.get_meter(semconv.SCOPE, ottla.__version__, meter_provider, semconv.SCHEMA_URL)
        self._durations = meter.create_histogram(
            semconv.DURATION,
            unit="s",
            description="Duration of messaging operation initiated by a producer or consumer client.",
            explicit_bucket_boundaries_advisory=semconv.DURATION_BOUNDS,
        )
        self._propagator = propagator
        self._message_key = message_key
        self._clock = clock
        self._attributes = {**semconv.OPERATION, semconv.CLIENT_ID: context.client_id or ""}

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Start the span of a record, and put its context into the headers."""
        propagator = self._propagator or propagate.get_global_textmap()
        given = _given_context(propagator, record.headers)
        operation = self._start(record.topic, self._of_record(record), given)
        if given is not None:
            return attrs.evolve(record, context=operation)
        headers = _injected(propagator, operation)
        if not headers and not operation.span.is_recording():
            # Nothing in this process records or passes on traces; it may still measure.
            return attrs.evolve(record, context=operation) if self._is_measured() else record
        # What the program itself has set under these names is no context, and a consumer may read the first one.
        names = {name for name, _value in headers}
        others = (header for header in record.headers if header[0] not in names)
        return attrs.evolve(record, headers=(*others, *headers), context=operation)

    def on_acknowledgement(self, metadata: RecordMetadata, error: Exception | None, context: Any) -> None:
        """End the span of a record."""
        if context is None:
            return
        if context.span.is_recording():
            if metadata.partition >= 0:
                context.span.set_attribute(semconv.PARTITION, str(metadata.partition))
            if metadata.offset >= 0:
                context.span.set_attribute(semconv.OFFSET, metadata.offset)
        self._end(context, error)

    def on_send_table(self, rows: ProducerRows) -> ProducerRows:
        """Start the span of a table with its first rows, and give all rows its context."""
        operation = rows.context or self._start(rows.topic, {}, None)
        headers = _injected(
            self._propagator or propagate.get_global_textmap(), operation, owns_span=operation is not rows.context
        )
        return attrs.evolve(rows, added_headers=(*rows.added_headers, *headers), context=operation)

    def on_table_acknowledgement(
        self, topic: str, result: ottla.TableResult, error: Exception | None, context: Any
    ) -> None:
        """End the span of a table."""
        if context is None:
            return
        context.span.set_attribute(semconv.BATCH_COUNT, result.rows)
        if len(result.partitions) == 1:
            context.span.set_attribute(semconv.PARTITION, str(next(iter(result.partitions))))
        self._end(context, error)

    def _start(self, topic: str, more: Mapping[str, Any], given: Context | None) -> _Operation:
        """Start a span of kind PRODUCER.

        If the program has put a trace context into the headers, *given*, consumers continue that one. Then the span has
        the kind CLIENT, and a link to it.
        """
        span = self._tracer.start_span(
            f"send {topic}",
            kind=SpanKind.PRODUCER if given is None else SpanKind.CLIENT,
            attributes={**self._attributes, semconv.DESTINATION: topic, **more},
            links=() if given is None else (Link(trace.get_current_span(given).get_span_context()),),
        )
        return _Operation(span, topic, self._clock())

    def _is_measured(self) -> bool:
        """Whether the program has a meter provider, which may come later than the producer."""
        instrument = getattr(self._durations, "_real_instrument", self._durations)  # of the API's proxy
        return instrument is not None and not isinstance(instrument, metrics.NoOpHistogram)

    def _of_record(self, record: ProducerRecord) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if record.partition is not None:
            found[semconv.PARTITION] = str(record.partition)
        if record.value is None:
            found[semconv.TOMBSTONE] = True
        if self._message_key and (key := _text(record.key)) is not None:
            found[semconv.MESSAGE_KEY] = key
        return found

    def _end(self, operation: _Operation, error: Exception | None) -> None:
        attributes = {**semconv.OPERATION, semconv.DESTINATION: operation.topic}
        span = operation.span
        if error is not None:
            attributes[semconv.ERROR_TYPE] = semconv.error_type(error)
            span.set_attribute(semconv.ERROR_TYPE, attributes[semconv.ERROR_TYPE])
            span.set_status(Status(StatusCode.ERROR, str(error)))
        # With the span's context, so that the SDK can keep the span as an exemplar.
        self._durations.record(self._clock() - operation.started_at, attributes, trace.set_span_in_context(span))
        span.end()


@hookimpl
def ottla_config_keys() -> Sequence[ConfigKey]:
    """The key for message keys in spans."""
    return [
        ConfigKey(
            name=MESSAGE_KEY,
            type=boolean,
            default=False,
            meaning="whether spans have the keys of records that are text; keys may be personal data",
        )
    ]


@hookimpl
def ottla_interceptor(config: PluginConfig, context: PluginContext) -> Interceptor:
    """The interceptor named `opentelemetry`."""
    return TracingInterceptor(message_key=config[MESSAGE_KEY], context=context)


def _given_context(propagator: TextMapPropagator, headers: Sequence[Header]) -> Context | None:
    """Return the context in headers that the program itself has set, if there is a valid one."""
    if not headers or propagator.fields.isdisjoint(name for name, _value in headers):
        return None
    found = propagator.extract(headers, Context(), _HEADERS)
    return found if trace.get_current_span(found).get_span_context().is_valid else None


def _injected(propagator: TextMapPropagator, operation: _Operation, *, owns_span: bool = True) -> Headers:
    """Return the headers with the context of a span. The span ends if that fails: nothing else would end it."""
    headers: Headers = []
    try:
        propagator.inject(headers, trace.set_span_in_context(operation.span), _HEADERS)
    except Exception as error:
        if owns_span:
            operation.span.set_status(Status(StatusCode.ERROR, str(error)))
            operation.span.end()
        raise
    return headers


def _text(key: Any) -> str | None:
    if isinstance(key, bytes):
        try:
            key = key.decode()
        except UnicodeDecodeError:
            return None
    return key if isinstance(key, str) and key.isprintable() else None
