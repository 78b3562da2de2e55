"""The reporter keeps the whole contract, with a server of its own and without."""

from __future__ import annotations

import pytest

from ottla.interfaces import MetricsReporter
from ottla_reporter_prometheus import PrometheusReporter, plugin
from ottla_reporter_prometheus.conformance import PrometheusConformance
from ottla_testkit.conformance import plugin_context
from ottla_testkit.processes.free_ports import free_ports


class TestInTheRegistry(PrometheusConformance):
    @pytest.fixture
    def reporter(self) -> MetricsReporter:
        return PrometheusReporter(context=plugin_context())

    @pytest.fixture
    def another(self) -> MetricsReporter:
        return PrometheusReporter(context=plugin_context())


class TestWithAServer(PrometheusConformance):
    """Two reporters share the server."""

    @pytest.fixture
    def port(self) -> int:
        [port] = free_ports(1)
        return port

    @pytest.fixture
    def reporter(self, port: int) -> MetricsReporter:
        return PrometheusReporter(listen=("127.0.0.1", port), context=plugin_context())

    @pytest.fixture
    def another(self, port: int) -> MetricsReporter:
        return PrometheusReporter(listen=("127.0.0.1", port), context=plugin_context())


def test_the_plugin_names_its_conformance_suite() -> None:
    assert plugin.ottla_conformance == f"{PrometheusConformance.__module__}:{PrometheusConformance.__name__}"
