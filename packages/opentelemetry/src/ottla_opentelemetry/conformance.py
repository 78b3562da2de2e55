"""The conformance classes for `ottla plugins check`, which imports them and the testkit. No SDK is needed."""

from __future__ import annotations

from typing import cast

from ottla.interfaces import MetricsReporter
from ottla_opentelemetry.reporter import OpenTelemetryReporter
from ottla_testkit.conformance import InterceptorConformance, MetricsReporterConformance


class OpenTelemetryReporterConformance(MetricsReporterConformance):
    """Observe the instruments, as a collection of an SDK would."""

    def collect(self, reporter: MetricsReporter) -> None:
        cast(OpenTelemetryReporter, reporter).collect()


class TracingConformance(InterceptorConformance):
    """As every interceptor."""
