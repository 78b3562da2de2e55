"""How `ottla plugins check` asks the reporter for figures; only the check imports this, and with it the testkit."""

from __future__ import annotations

from prometheus_client import REGISTRY, generate_latest

from ottla.interfaces import MetricsReporter
from ottla_testkit.conformance import MetricsReporterConformance


class PrometheusConformance(MetricsReporterConformance):
    """Reads the program's registry, as a server would."""

    def collect(self, reporter: MetricsReporter) -> None:
        generate_latest(REGISTRY)
