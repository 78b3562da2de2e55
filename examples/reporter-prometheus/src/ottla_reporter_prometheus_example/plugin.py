"""The plugin: its key, and the reporter for `metric.reporters=prometheus`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from prometheus_client import REGISTRY

from ottla.hookspecs import hookimpl
from ottla.interfaces import ConfigKey, MetricsRegistry, MetricsReporter, PluginConfig, PluginContext
from ottla_reporter_prometheus_example import server
from ottla_reporter_prometheus_example.collector import ProducersCollector

LISTEN: Final = "prometheus.listen"

ottla_conformance: Final = "ottla_reporter_prometheus_example.conformance:PrometheusConformance"

_collector: Final = ProducersCollector()


class PrometheusReporter:
    """Publish a producer's metrics in the program's registry, and over HTTP if an address is configured."""

    def __init__(self, *, listen: server.Address | None = None, context: PluginContext) -> None:
        self._listen = listen
        self._context = context
        self._producer: MetricsRegistry | None = None

    def start(self, registry: MetricsRegistry) -> None:
        """Publish the metrics. Raises OSError if the address is not available; then nothing is published."""
        if self._listen is not None:
            server.open_at(self._listen)
            self._context.logger.info(
                "%s: Prometheus can read the metrics at %s:%d", self._context.client_id, *self._listen
            )
        self._producer = registry
        _collector.add(registry, to=REGISTRY)

    def close(self) -> None:
        """Stop publishing the metrics."""
        if self._producer is not None:
            _collector.remove(self._producer, of=REGISTRY)
        if self._listen is not None:
            server.close_at(self._listen)


@hookimpl
def ottla_config_keys() -> Sequence[ConfigKey]:
    """The key for the address to listen on."""
    return [
        ConfigKey(
            name=LISTEN,
            type=_address,
            default=None,
            meaning="host:port to answer Prometheus at; left out: where the program does so itself",
        )
    ]


@hookimpl
def ottla_reporter(config: PluginConfig, context: PluginContext) -> MetricsReporter:
    """The reporter named `prometheus`."""
    return PrometheusReporter(listen=config[LISTEN], context=context)


def _address(written: Any) -> server.Address:
    host, colon, port = str(written).strip().rpartition(":")
    if not (colon and host and port.isdecimal() and 0 < int(port) < 65536):
        raise ValueError("write host:port, such as 127.0.0.1:9404")
    return host.strip("[]"), int(port)
