"""An example of a metrics reporter: a producer's metrics for Prometheus."""

from ottla_reporter_prometheus_example.plugin import PrometheusReporter

__all__ = ["PrometheusReporter"]

__version__ = "0.1.0"
