"""The plugin: its hooks, and the reporter for `metric.reporters=prometheus`."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from typing import Final
from weakref import WeakKeyDictionary

from prometheus_client import REGISTRY, CollectorRegistry

from ottla.errors import ConfigError
from ottla.hookspecs import hookimpl
from ottla.interfaces import ConfigKey, MetricsRegistry, MetricsReporter, PluginConfig, PluginContext
from ottla_reporter_prometheus import keys, server
from ottla_reporter_prometheus.collector import ProducersCollector, Source

ottla_conformance: Final = "ottla_reporter_prometheus.conformance:PrometheusConformance"

OWN_REGISTRY: Final = CollectorRegistry()
"""The registry of `prometheus.registry=own`."""

_collectors: Final[WeakKeyDictionary[CollectorRegistry, ProducersCollector]] = WeakKeyDictionary()
_lock = threading.Lock()


class PrometheusReporter:
    """Publish a producer's metrics in a registry, and over HTTP if an address is given.

    A program with its own registry gives `functools.partial(PrometheusReporter, registry=...)`.
    """

    def __init__(
        self,
        *,
        listen: server.Address | None = None,
        registry: CollectorRegistry = REGISTRY,
        max_topics: int = keys.TOPICS,
        context: PluginContext,
    ) -> None:
        self._listen = listen
        self._registry = registry
        self._max_topics = max_topics
        self._context = context
        self._source: Source | None = None

    def start(self, registry: MetricsRegistry) -> None:
        """Publish the metrics.

        Raises OSError if the address is not available, and what the program's registry raises; then nothing is
        published, and nothing serves the address.
        """
        if self._listen is not None:
            server.open_at(self._listen, self._registry)
        try:
            self._source = _collector(self._registry).add(
                registry, client_id=self._context.client_id or "", max_topics=self._max_topics, to=self._registry
            )
        except BaseException:
            if self._listen is not None:
                server.close_at(self._listen)
            raise
        if self._listen is not None:
            self._context.logger.info(
                "%s: Prometheus can read the metrics at %s:%d", self._context.client_id, *self._listen
            )

    def close(self) -> None:
        """Stop publishing the metrics."""
        try:
            if self._source is not None:
                _collector(self._registry).remove(self._source, of=self._registry)
        finally:
            if self._listen is not None:
                server.close_at(self._listen)


@hookimpl
def ottla_config_keys() -> Sequence[ConfigKey]:
    """The keys for the address, the registry and the number of topics."""
    return keys.config_keys()


@hookimpl
def ottla_reporter(config: PluginConfig, context: PluginContext) -> MetricsReporter:
    """The reporter named `prometheus`."""
    own = config[keys.REGISTRY_KEY] == keys.OWN
    if own and config[keys.LISTEN] is None:
        raise ConfigError(
            [f"{keys.REGISTRY_KEY}={keys.OWN} needs {keys.LISTEN}: nothing else could read that registry"]
        )
    return PrometheusReporter(
        listen=config[keys.LISTEN],
        registry=OWN_REGISTRY if own else REGISTRY,
        max_topics=config[keys.MAX_TOPICS],
        context=context,
    )


def _collector(registry: CollectorRegistry) -> ProducersCollector:
    with _lock:
        found = _collectors.get(registry)
        if found is None:
            found = _collectors[registry] = ProducersCollector()
        return found


def _forget_in_child() -> None:
    """Let a forked child publish only its own producers, at its own addresses."""
    global _lock
    _lock = threading.Lock()
    server.forget_in_child()
    for each in _collectors.values():
        each.forget_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)
