"""Spans of records and tables, by OpenTelemetry's semantic conventions, and the contexts in their headers."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import attrs
import pyarrow as pa
import pytest
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import SpanKind, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from ottla import BrokerError, DeliveryError, ErrorCode, InvalidRecordError, TableReadError
from ottla_opentelemetry import TracingInterceptor
from ottla_opentelemetry.conventions import error_type
from ottla_opentelemetry.interceptor import MESSAGE_KEY, ottla_config_keys, ottla_interceptor
from ottla_testkit.conformance import plugin_context
from ottla_testkit.mock_producer import MockProducer

GIVEN = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@attrs.frozen
class Sdk:
    """An SDK of the test's own."""

    exporter: InMemorySpanExporter = attrs.Factory(InMemorySpanExporter)
    reader: InMemoryMetricReader = attrs.Factory(InMemoryMetricReader)
    tracers: TracerProvider = attrs.Factory(lambda: TracerProvider(shutdown_on_exit=False))

    def interceptor(self, **options: Any) -> TracingInterceptor:
        self.tracers.add_span_processor(SimpleSpanProcessor(self.exporter))
        return TracingInterceptor(
            tracer_provider=self.tracers,
            meter_provider=MeterProvider([self.reader], shutdown_on_exit=False),
            context=plugin_context(client_id="shop"),
            **options,
        )

    def spans(self) -> Sequence[ReadableSpan]:
        return self.exporter.get_finished_spans()


@pytest.fixture
def sdk() -> Sdk:
    return Sdk()


@pytest.fixture
def producer(sdk: Sdk) -> Iterator[MockProducer]:
    with MockProducer(interceptor_classes=[sdk.interceptor()]) as producer:
        yield producer


def context_in(headers: Sequence[tuple[str, bytes | None]]) -> trace.SpanContext:
    """The context that a consumer finds, by OpenTelemetry's own propagator."""
    carrier = {name: value.decode() for name, value in headers if value is not None}
    return trace.get_current_span(TraceContextTextMapPropagator().extract(carrier)).get_span_context()


def test_a_record_has_a_span_and_its_headers_have_its_context(sdk: Sdk, producer: MockProducer) -> None:
    with sdk.tracers.get_tracer("shop").start_as_current_span("POST /orders") as parent:
        producer.send("orders", b"three apples", key=b"42", headers=[("own", b"1")]).result(timeout=10)

    [span, _parent] = sdk.spans()
    [record] = producer.history
    assert (span.name, span.kind, span.status.status_code) == ("send orders", SpanKind.PRODUCER, StatusCode.UNSET)
    assert span.parent is not None
    assert span.parent.span_id == parent.get_span_context().span_id
    assert span.attributes == {
        "messaging.system": "kafka",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": "orders",
        "messaging.client.id": "shop",
        "messaging.destination.partition.id": "0",
        "messaging.kafka.offset": 0,
    }
    assert context_in(record.headers).span_id == span.context.span_id
    assert [name for name, _value in record.headers] == ["own", "traceparent"]


def test_a_context_of_the_program_stays_and_is_linked_to(sdk: Sdk, producer: MockProducer) -> None:
    producer.send("orders", b"value", headers=[("traceparent", GIVEN.encode())]).result(timeout=10)

    [span] = sdk.spans()
    [record] = producer.history
    assert list(record.headers) == [("traceparent", GIVEN.encode())]
    assert (span.kind, [f"{link.context.span_id:x}" for link in span.links]) == (SpanKind.CLIENT, ["b7ad6b7169203331"])


@pytest.mark.parametrize("wrong", [b"", b"\xff\xfe", b"00-zz", None, b"x" * 100_000])
def test_a_context_that_is_none_is_replaced(sdk: Sdk, producer: MockProducer, wrong: bytes | None) -> None:
    producer.send("orders", b"value", headers=[("traceparent", wrong), ("own", b"1")]).result(timeout=10)

    [span] = sdk.spans()
    [record] = producer.history
    assert (span.kind, span.links) == (SpanKind.PRODUCER, ())
    assert [name for name, _value in record.headers] == ["own", "traceparent"]
    assert context_in(record.headers).span_id == span.context.span_id


class BrokenPropagator(TraceContextTextMapPropagator):
    """A propagator that cannot put a context into headers."""

    def inject(self, *_arguments: Any, **_options: Any) -> None:
        raise LookupError("no context")


def test_a_span_ends_even_if_its_context_cannot_be_passed_on(sdk: Sdk) -> None:
    with MockProducer(interceptor_classes=[sdk.interceptor(propagator=BrokenPropagator())]) as producer:
        producer.send("orders", b"value")
        producer.send_table("orders", pa.table({"value": [b"a"]}))
        producer.flush()

    assert [record.value for record in producer.history] == [b"value", b"a"]
    assert [(span.status.status_code, span.status.description) for span in sdk.spans()] == [
        (StatusCode.ERROR, "no context"),
        (StatusCode.ERROR, "no context"),
    ]


def test_a_record_that_send_refuses_is_an_error(sdk: Sdk, producer: MockProducer) -> None:
    with pytest.raises(InvalidRecordError):
        producer.send("orders", 7)

    [span] = sdk.spans()
    assert span.status.status_code is StatusCode.ERROR
    assert span.attributes is not None
    assert span.attributes["error.type"] == "ottla.errors.InvalidRecordError"


def test_a_failed_delivery_names_the_code_of_the_broker(sdk: Sdk) -> None:
    with MockProducer(interceptor_classes=[sdk.interceptor()], auto_complete=False) as producer:
        delivery = producer.send("orders", b"value")
        producer.error_next(BrokerError(ErrorCode.NOT_ENOUGH_REPLICAS))
        assert isinstance(delivery.exception(), DeliveryError)

    [span] = sdk.spans()
    assert span.attributes is not None
    assert span.attributes["error.type"] == "NOT_ENOUGH_REPLICAS"
    assert span.status.description == str(delivery.exception())
    assert "messaging.kafka.offset" not in span.attributes


def test_an_error_without_a_code_is_named_by_its_class() -> None:
    failed = DeliveryError("x", topic="t", partition=0, attempts=1, possibly_persisted=False)

    assert error_type(ValueError("x")) == "ValueError"
    assert error_type(failed) == "ottla.errors.DeliveryError"
    assert error_type(pa.ArrowKeyError("x")) == "pyarrow.lib.ArrowKeyError"


@pytest.mark.parametrize(
    ("interrupt", "name"),
    [(asyncio.CancelledError(), "asyncio.exceptions.CancelledError"), (KeyboardInterrupt(), "KeyboardInterrupt")],
)
def test_an_error_that_an_interrupt_caused_has_the_name_of_the_interrupt(interrupt: BaseException, name: str) -> None:
    interrupted = TableReadError("send_table was interrupted")
    interrupted.__cause__ = interrupt

    assert error_type(interrupted) == name


def test_a_table_has_one_span_and_all_rows_have_its_context(sdk: Sdk, producer: MockProducer) -> None:
    producer.send_table("orders", pa.table({"value": [b"a", b"b", b"c"]}))
    producer.flush()

    [span] = sdk.spans()
    assert span.attributes is not None
    assert (span.name, span.attributes["messaging.batch.message_count"]) == ("send orders", 3)
    assert {context_in(record.headers).span_id for record in producer.history} == {span.context.span_id}
    assert len(producer.history) == 3


def test_a_key_is_in_a_span_only_if_asked_for_and_text(sdk: Sdk) -> None:
    with MockProducer(interceptor_classes=[sdk.interceptor(message_key=True)]) as producer:
        for key in (b"42", b"\xff", None, b"a\nb"):
            producer.send("orders", None, key=key)

    found = [span.attributes.get("messaging.kafka.message.key") for span in sdk.spans() if span.attributes]
    assert found == ["42", None, None, None]
    assert all(span.attributes["messaging.kafka.message.tombstone"] for span in sdk.spans() if span.attributes)


def test_a_trace_that_is_not_sampled_still_travels() -> None:
    sdk = Sdk(tracers=TracerProvider(ALWAYS_OFF, shutdown_on_exit=False))
    with MockProducer(interceptor_classes=[sdk.interceptor()]) as producer:
        producer.send("orders", b"value")
        [record] = producer.history

    assert context_in(record.headers).is_valid
    assert not context_in(record.headers).trace_flags.sampled
    assert sdk.spans() == ()


def test_without_an_sdk_records_are_sent_unchanged() -> None:
    with MockProducer({"interceptor.classes": "opentelemetry"}) as producer:
        producer.send("orders", b"value", headers=[("own", b"1")])
        producer.send_table("orders", pa.table({"value": [b"a"]}))
        producer.flush()

    assert [list(record.headers) for record in producer.history] == [[("own", b"1")], []]


def test_the_duration_of_a_span_is_a_value_with_the_span_as_exemplar(sdk: Sdk, producer: MockProducer) -> None:
    producer.send("orders", b"value").result(timeout=10)

    data: Any = sdk.reader.get_metrics_data()
    [metric] = data.resource_metrics[0].scope_metrics[0].metrics
    [point] = metric.data.data_points
    assert (metric.name, metric.unit, point.count) == ("messaging.client.operation.duration", "s", 1)
    assert dict(point.attributes) == {
        "messaging.system": "kafka",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": "orders",
    }
    assert [exemplar.span_id for exemplar in point.exemplars] == [sdk.spans()[0].context.span_id]
    assert point.explicit_bounds[0] == 0.005


def test_records_are_measured_without_tracing(sdk: Sdk) -> None:
    interceptor = TracingInterceptor(
        tracer_provider=trace.NoOpTracerProvider(),
        meter_provider=MeterProvider([sdk.reader], shutdown_on_exit=False),
        context=plugin_context(client_id="shop"),
    )
    with MockProducer(interceptor_classes=[interceptor]) as producer:
        for _ in range(3):
            producer.send("orders", b"value")

    data: Any = sdk.reader.get_metrics_data()
    [metric] = data.resource_metrics[0].scope_metrics[0].metrics
    assert (metric.name, metric.data.data_points[0].count) == ("messaging.client.operation.duration", 3)
    assert [list(record.headers) for record in producer.history] == [[], [], []]


def test_a_meter_provider_that_comes_later_measures_records() -> None:
    program = """
from opentelemetry import metrics
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from ottla_testkit.mock_producer import MockProducer

reader = InMemoryMetricReader()
with MockProducer({"interceptor.classes": "opentelemetry"}) as producer:
    producer.send("orders", b"before")
    metrics.set_meter_provider(MeterProvider([reader]))
    producer.send("orders", b"after")
[metric] = reader.get_metrics_data().resource_metrics[0].scope_metrics[0].metrics
print(metric.name, metric.data.data_points[0].count)
"""
    made = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)

    assert made.stdout == "messaging.client.operation.duration 1\n"


def test_the_key_of_the_plugin_is_a_flag() -> None:
    [key] = ottla_config_keys()

    assert (key.name, key.type("True"), key.type("false")) == (MESSAGE_KEY, True, False)
    with pytest.raises(ValueError, match="it must be true or false"):
        key.type("yes")
    assert isinstance(ottla_interceptor(config={MESSAGE_KEY: True}, context=plugin_context()), TracingInterceptor)
