"""Metrics: the numbers of producers are read when OpenTelemetry collects; values of histograms are recorded at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from opentelemetry import metrics

from ottla.hookspecs import hookimpl
from ottla.interfaces import (
    ConfigKey,
    MetricName,
    MetricsRegistry,
    MetricsReporter,
    PluginConfig,
    PluginContext,
    boolean,
)
from ottla_opentelemetry.instruments import Instruments, ObservedProducer, instruments_of

ottla_conformance: Final = "ottla_opentelemetry.conformance:OpenTelemetryReporterConformance"

HISTOGRAMS: Final = "opentelemetry.histograms"


class OpenTelemetryReporter:
    """Exports a producer's metrics as instruments of a meter provider, by default of the global one."""

    def __init__(
        self,
        *,
        meter_provider: metrics.MeterProvider | None = None,
        histograms: bool = True,
        context: PluginContext,
    ) -> None:
        self._meter_provider = meter_provider
        self._histograms = histograms
        self._context = context
        self._instruments: Instruments | None = None
        self._producer: ObservedProducer | None = None
        self._end: Callable[[], None] = lambda: None

    def start(self, registry: MetricsRegistry) -> None:
        """Export from now on. Does not read the metrics."""
        self._instruments = instruments_of(self._meter_provider)
        self._producer = self._instruments.add(
            registry, client_id=self._context.client_id or "", clock=self._context.clock
        )
        if self._histograms:
            self._end = registry.subscribe(partial(_record, self._instruments, self._producer))

    def close(self) -> None:
        """Stop. The last values are in the collections of the next two minutes, or in the first one after them."""
        self._end()
        if self._instruments is not None and self._producer is not None:
            self._instruments.remove(self._producer)

    def collect(self) -> int:
        """Observe what a collection would; return the number of values. For tests."""
        return 0 if self._instruments is None else len(self._instruments.collect())


@hookimpl
def ottla_config_keys() -> Sequence[ConfigKey]:
    """The key for histograms."""
    return [
        ConfigKey(
            name=HISTOGRAMS,
            type=boolean,
            default=True,
            meaning="whether times and sizes are exported as histograms, which takes the SDK some 10 µs for each value",
        )
    ]


@hookimpl
def ottla_reporter(config: PluginConfig, context: PluginContext) -> MetricsReporter:
    """The reporter named `opentelemetry`."""
    return OpenTelemetryReporter(histograms=config[HISTOGRAMS], context=context)


def _record(
    instruments: Instruments, producer: ObservedProducer, name: MetricName, value: float, _records: int
) -> None:
    """Record a value once for its batch: OpenTelemetry's API counts calls."""
    instruments.record(producer, name, value)
