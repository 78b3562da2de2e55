"""The metrics of Ottla's producers for Prometheus."""

from ottla_reporter_prometheus.plugin import PrometheusReporter

__all__ = ["PrometheusReporter"]

__version__ = "0.1.0"
