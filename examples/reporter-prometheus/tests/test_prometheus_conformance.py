"""The reporter keeps the whole contract; what Prometheus would read is read from the program's registry."""

from __future__ import annotations

import pytest
from prometheus_client import REGISTRY, generate_latest

from ottla.interfaces import MetricsReporter
from ottla_reporter_prometheus_example import PrometheusReporter
from ottla_testkit.conformance import MetricsReporterConformance
from ottla_testkit.free_ports import free_ports


class TestInTheRegistry(MetricsReporterConformance):
    @pytest.fixture
    def reporter(self) -> MetricsReporter:
        return PrometheusReporter()

    @pytest.fixture
    def another(self) -> MetricsReporter:
        return PrometheusReporter()

    def collect(self, reporter: MetricsReporter) -> None:
        generate_latest(REGISTRY)


class TestWithAServer(TestInTheRegistry):
    """Two reporters share the server."""

    @pytest.fixture
    def port(self) -> int:
        return next(iter(free_ports(1)))

    @pytest.fixture
    def reporter(self, port: int) -> MetricsReporter:
        return PrometheusReporter(listen=("127.0.0.1", port))

    @pytest.fixture
    def another(self, port: int) -> MetricsReporter:
        return PrometheusReporter(listen=("127.0.0.1", port))
