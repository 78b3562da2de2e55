"""Metrics of all producers of a program, created when Prometheus collects them.

One collector serves all producers, because a name may be registered only once.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable
from typing import Final

from prometheus_client.core import Metric
from prometheus_client.registry import Collector, CollectorRegistry

from ottla.interfaces import MetricDescription, MetricName, MetricsRegistry

_NOT_A_NAME: Final = re.compile(r"[^a-zA-Z0-9_]")
_TOTAL: Final = "_total"


class ProducersCollector(Collector):
    """Read the current producers' metrics at each collection. For any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._producers: list[MetricsRegistry] = []

    def add(self, producer: MetricsRegistry, *, to: CollectorRegistry) -> None:
        """Add a producer; with the first one, the collector joins the registry."""
        with self._lock:
            if not self._producers:
                to.register(self)
            self._producers.append(producer)

    def remove(self, producer: MetricsRegistry, *, of: CollectorRegistry) -> None:
        """Remove a producer; with the last one, the collector leaves the registry."""
        with self._lock:
            self._producers = [each for each in self._producers if each is not producer]
            if not self._producers:
                of.unregister(self)

    def describe(self) -> Iterable[Metric]:
        """Return nothing: a registration must not read metrics yet."""
        return ()

    def collect(self) -> Iterable[Metric]:
        """Return every metric of every producer, by name."""
        with self._lock:
            producers = list(self._producers)
        metrics: dict[str, Metric] = {}
        for producer in producers:
            described = {(each.group, each.name): each for each in producer.describe()}
            for name, value in producer.snapshot().items():
                _add(metrics, name, value, described.get((name.group, name.name)))
        return metrics.values()


def _add(metrics: dict[str, Metric], name: MetricName, value: float, described: MetricDescription | None) -> None:
    """Add one sample. A metric without a description may decrease, so it is a gauge."""
    grows = described is not None and described.cumulative
    full = _name(f"kafka_{name.group.removesuffix('-metrics')}_{name.name}")
    family = full.removesuffix(_TOTAL) if grows else full
    metric = metrics.get(family)
    if metric is None:
        meaning = "" if described is None else described.meaning
        metric = metrics[family] = Metric(family, meaning, "counter" if grows else "gauge")
    metric.add_sample(f"{family}{_TOTAL}" if grows else full, {_name(label): of for label, of in name.tags}, value)


def _name(text: str) -> str:
    return _NOT_A_NAME.sub("_", text)
