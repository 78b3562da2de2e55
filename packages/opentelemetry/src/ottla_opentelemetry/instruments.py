"""Instruments of one meter provider, which all producers of a program share: a name may be used only once."""

from __future__ import annotations

import math
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final
from weakref import WeakKeyDictionary

import attrs
from opentelemetry import metrics
from opentelemetry.metrics import CallbackOptions, Observation

import ottla
from ottla.interfaces import Histogram, MetricDescription, MetricName, MetricsRegistry
from ottla_opentelemetry import conventions as semconv

_FRESH: Final = 0.2
"""Seconds for which a snapshot serves all instruments of a collection: a collection reads some sixty."""

Key = tuple[str, str]
"""Group and name of a metric."""

_Recorder = tuple[metrics.Histogram, float, dict[str, str]]
"""The instrument for one name with tags, the divisor for its values, and its attributes."""


@attrs.define(eq=False)
class _Producer:
    """A producer's metrics, with the snapshot of the current collection."""

    registry: MetricsRegistry
    clock: Callable[[], float]
    values: Mapping[Key, list[tuple[MetricName, float]]] = attrs.Factory(dict)
    read_at: float = -math.inf

    def of(self, key: Key) -> Iterable[tuple[MetricName, float]]:
        """Return the current values of one metric, by name."""
        now = self.clock()
        if not self.read_at <= now < self.read_at + _FRESH:
            self.read(now)
        return self.values.get(key, ())

    def read(self, now: float) -> None:
        """Take a snapshot."""
        found: dict[Key, list[tuple[MetricName, float]]] = defaultdict(list)
        for name, value in self.registry.snapshot().items():
            found[name.group, name.name].append((name, value))
        self.values, self.read_at = found, now


class Instruments:
    """The instruments of a meter provider, and the producers whose values they observe. For any thread."""

    def __init__(self, provider: metrics.MeterProvider) -> None:
        self._meter = provider.get_meter(semconv.SCOPE, ottla.__version__, semconv.SCHEMA_URL)
        self._lock = threading.Lock()
        self._producers: tuple[_Producer, ...] = ()
        self._last: dict[str, list[tuple[MetricName, float]]] = defaultdict(list)
        """The last values of closed producers by instrument, for its next collection."""
        self._callbacks: dict[str, Callable[[CallbackOptions], Iterable[Observation]]] = {}
        """By instrument."""
        self._names: dict[Key, list[str]] = {}
        """The instruments of each metric."""
        self._histograms: dict[str, metrics.Histogram] = {}
        self._recorders: dict[MetricName, _Recorder] = {}
        """By name with tags; the tags of closed producers are removed."""

    def add(self, registry: MetricsRegistry, *, clock: Callable[[], float]) -> None:
        """Observe a producer; make instruments for those of its metrics that have none."""
        with self._lock:
            self._producers = (*self._producers, _Producer(registry, clock))
            for described in registry.describe():
                key = (described.group, described.name)
                if key not in self._names and not semconv.omitted(*key):
                    self._observe(key, described)

    def remove(self, registry: MetricsRegistry) -> None:
        """Observe a producer no more; the next collection gets its last values."""
        values = registry.snapshot()
        with self._lock:
            self._producers = tuple(each for each in self._producers if each.registry is not registry)
            for name in registry.histograms():
                self._recorders.pop(name, None)
            for name, value in values.items():
                for instrument in self._names.get((name.group, name.name), ()):
                    self._last[instrument].append((name, value))

    def record(self, registry: MetricsRegistry, name: MetricName, value: float) -> None:
        """Record a value of a histogram; the first one makes its instrument."""
        found = self._recorders.get(name) or self._recorder(name, registry.histograms().get(name))
        if found is not None:
            histogram, divisor, attributes = found
            histogram.record(value / divisor, attributes)

    def collect(self) -> Sequence[Observation]:
        """Return what a collection would observe."""
        return [each for observe in list(self._callbacks.values()) for each in observe(CallbackOptions())]

    def _observe(self, key: Key, described: MetricDescription) -> None:
        unit, divisor = semconv.unit_of(described.unit)
        named = [(semconv.metric_name(*key), unit, described.meaning)]
        if key == semconv.SENT:
            named.append((semconv.SENT_MESSAGES, "{message}", "Number of messages sent to the broker."))
        make = self._meter.create_observable_counter if described.cumulative else self._meter.create_observable_gauge
        for name, ucum, meaning in named:
            self._callbacks[name] = partial(self._values, key, name, divisor)
            make(name, [self._callbacks[name]], ucum, meaning)
        self._names[key] = [name for name, _unit, _meaning in named]

    def _values(self, key: Key, instrument: str, divisor: float, _options: CallbackOptions) -> Iterator[Observation]:
        with self._lock:
            producers, last = self._producers, self._last.pop(instrument, [])
        operation = semconv.SEND if instrument == semconv.SENT_MESSAGES else {}
        for name, value in (*last, *(pair for each in producers for pair in each.of(key))):
            if not math.isnan(value):  # an average or a maximum of nothing
                yield Observation(value / divisor, {**operation, **semconv.attributes(name)})

    def _recorder(self, name: MetricName, of: Histogram | None) -> _Recorder | None:
        if of is None:
            return None
        ucum, divisor = semconv.unit_of(of.unit)
        instrument = semconv.metric_name(name.group, name.name)
        with self._lock:
            if instrument not in self._histograms:
                self._histograms[instrument] = self._meter.create_histogram(
                    instrument,
                    ucum,
                    of.meaning,
                    explicit_bucket_boundaries_advisory=[bound / divisor for bound in of.bounds],
                )
            made = self._recorders[name] = (self._histograms[instrument], divisor, semconv.attributes(name))
        return made


_of_providers: Final[WeakKeyDictionary[metrics.MeterProvider, Instruments]] = WeakKeyDictionary()
_lock: Final = threading.Lock()


def instruments_of(provider: metrics.MeterProvider) -> Instruments:
    """Return the instruments of a meter provider."""
    with _lock:
        found = _of_providers.get(provider)
        if found is None:
            found = _of_providers[provider] = Instruments(provider)
        return found
