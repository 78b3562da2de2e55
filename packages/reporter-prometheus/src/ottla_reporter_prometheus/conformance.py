"""The conformance class for `ottla plugins check`, which imports it and the testkit. It reads the reporter."""

from __future__ import annotations

from prometheus_client import REGISTRY, generate_latest

from ottla.interfaces import MetricsReporter
from ottla_testkit.conformance import MetricsReporterConformance


class PrometheusConformance(MetricsReporterConformance):
    """Read the program's registry, as a server would."""

    def collect(self, reporter: MetricsReporter) -> None:
        generate_latest(REGISTRY)
