"""The reporter and the interceptor keep their contracts, with the SDK and without."""

from __future__ import annotations

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from ottla.interfaces import Interceptor, MetricsReporter
from ottla_opentelemetry import OpenTelemetryReporter, TracingInterceptor, interceptor, reporter
from ottla_opentelemetry.conformance import OpenTelemetryReporterConformance, TracingConformance
from ottla_testkit.conformance import plugin_context


class TestReporter(OpenTelemetryReporterConformance):
    @pytest.fixture
    def reporter(self) -> MetricsReporter:
        return OpenTelemetryReporter(context=plugin_context())

    @pytest.fixture
    def another(self) -> MetricsReporter:
        return OpenTelemetryReporter(context=plugin_context())


class TestReporterWithTheSdk(OpenTelemetryReporterConformance):
    """Two reporters share a meter provider, which reads them."""

    @pytest.fixture
    def reader(self) -> InMemoryMetricReader:
        return InMemoryMetricReader()

    @pytest.fixture
    def provider(self, reader: InMemoryMetricReader) -> MeterProvider:
        return MeterProvider([reader])

    @pytest.fixture
    def reporter(self, provider: MeterProvider) -> MetricsReporter:
        return OpenTelemetryReporter(meter_provider=provider, context=plugin_context())

    @pytest.fixture
    def another(self, provider: MeterProvider) -> MetricsReporter:
        return OpenTelemetryReporter(meter_provider=provider, context=plugin_context())


class TestTracing(TracingConformance):
    @pytest.fixture
    def interceptor(self) -> Interceptor:
        return TracingInterceptor(context=plugin_context())


class TestTracingWithTheSdk(TracingConformance):
    @pytest.fixture
    def interceptor(self) -> Interceptor:
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(InMemorySpanExporter()))
        return TracingInterceptor(tracer_provider=provider, context=plugin_context())


def test_the_plugins_name_their_conformance_suites() -> None:
    suites = (OpenTelemetryReporterConformance, TracingConformance)
    assert (reporter.ottla_conformance, interceptor.ottla_conformance) == tuple(
        f"{suite.__module__}:{suite.__name__}" for suite in suites
    )
