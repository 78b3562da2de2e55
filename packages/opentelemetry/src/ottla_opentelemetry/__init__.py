"""OpenTelemetry for Ottla's producers: traces by an interceptor, metrics by a reporter."""

from ottla_opentelemetry.interceptor import TracingInterceptor
from ottla_opentelemetry.reporter import OpenTelemetryReporter

__all__ = ["OpenTelemetryReporter", "TracingInterceptor"]

__version__ = "0.1.0"
