"""A trace goes from a handler through a real Kafka to a consumer of confluent-kafka, by OpenTelemetry's own parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from ottla import Producer
from ottla_opentelemetry.instrumentor import OttlaInstrumentor
from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.pytest_plugin import MakeTopic
from readback import read_back

pytestmark = pytest.mark.kafka


def consume(tracer: trace.Tracer, headers: Sequence[tuple[str, bytes | None]]) -> None:
    """A consumer's span, in the trace that the headers of a record have."""
    carrier = {name: value.decode() for name, value in headers if value is not None}
    context = TraceContextTextMapPropagator().extract(carrier)
    tracer.start_span("process orders", context, SpanKind.CONSUMER).end()


def test_a_trace_goes_through_kafka_to_a_consumer(kafka: KafkaCluster, make_topic: MakeTopic) -> None:
    exporter, reader = InMemorySpanExporter(), InMemoryMetricReader()
    tracers = TracerProvider(shutdown_on_exit=False)
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = tracers.get_tracer("shop")
    topic = make_topic(partitions=1)
    instrumentor = OttlaInstrumentor()
    instrumentor.instrument(tracer_provider=tracers, meter_provider=MeterProvider([reader], shutdown_on_exit=False))
    try:
        with Producer(bootstrap_servers=kafka.bootstrap_servers, client_id="shop") as producer:
            with tracer.start_as_current_span("POST /orders", kind=SpanKind.SERVER):
                producer.send(topic, b"three apples")
            producer.flush()
            with tracer.start_as_current_span("nightly"):
                producer.send_table(topic, pa.table({"value": [b"a", b"b"]}))
    finally:
        instrumentor.uninstrument()
    for record in read_back(kafka.bootstrap_servers, topic):
        consume(tracer, record.headers or ())

    spans = exporter.get_finished_spans()
    handler, sent, consumed = traced(spans, "POST /orders")
    assert sent.parent is not None
    assert consumed.parent is not None
    assert (handler.kind, sent.kind, consumed.kind) == (SpanKind.SERVER, SpanKind.PRODUCER, SpanKind.CONSUMER)
    assert sent.parent.span_id == handler.context.span_id
    assert consumed.parent.span_id == sent.context.span_id
    assert sent.attributes is not None
    assert (sent.attributes["messaging.destination.name"], sent.attributes["messaging.kafka.offset"]) == (topic, 0)
    _nightly, table, *rows = traced(spans, "nightly")
    assert table.attributes is not None
    assert table.attributes["messaging.batch.message_count"] == len(rows) == 2
    assert {row.parent.span_id for row in rows if row.parent} == {table.context.span_id}
    assert sent_messages(reader) == 3


def traced(spans: Sequence[ReadableSpan], root: str) -> list[ReadableSpan]:
    """The spans of the trace that begins with the root, by start."""
    [first] = [span for span in spans if span.name == root]
    of_trace = [span for span in spans if span.context.trace_id == first.context.trace_id]
    return sorted(of_trace, key=lambda span: span.start_time or 0)


def sent_messages(reader: InMemoryMetricReader) -> float:
    data: Any = reader.get_metrics_data()
    metrics = {metric.name: metric for scope in data.resource_metrics[0].scope_metrics for metric in scope.metrics}
    [point] = metrics["messaging.client.sent.messages"].data.data_points
    value: float = point.value
    return value
