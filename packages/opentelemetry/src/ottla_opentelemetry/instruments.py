"""Instruments of one meter provider, which all producers of a program share: a name may be used only once."""

from __future__ import annotations

import math
import os
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, count
from typing import Final, TypeVar
from weakref import WeakKeyDictionary

import attrs
from opentelemetry import metrics
from opentelemetry.metrics import CallbackOptions, Observation

import ottla
from ottla.interfaces import Histogram, MetricDescription, MetricName, MetricsRegistry
from ottla_opentelemetry import conventions as semconv

_FRESH: Final = 0.2
"""Seconds for which a snapshot serves all instruments of a collection: a collection reads some sixty."""

_SHOWN: Final = 120.0
"""Seconds after its end for which collections have a producer's last values. OpenTelemetry does not say which reader
collects, and each of them collects every minute by default."""

_KEPT: Final = 2000
"""The number of attribute sets of closed producers for which an instrument keeps a value."""

Key = tuple[str, str]
"""Group and name of a metric."""

Attributes = tuple[tuple[str, str], ...]

_Value = TypeVar("_Value")

_Recorder = tuple[metrics.Histogram, float, dict[str, str]]
"""The instrument for one name with tags, the divisor for its values, and its attributes."""


@attrs.define(eq=False)
class ObservedProducer:
    """A producer's metrics, its client id in attributes, and the snapshot of the current collection."""

    registry: MetricsRegistry
    client_id: str
    clock: Callable[[], float]
    values: Mapping[Key, list[tuple[MetricName, float]]] = attrs.Factory(dict)
    read_at: float = -math.inf
    recorders: dict[MetricName, _Recorder] = attrs.Factory(dict)
    """Of its histograms."""

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

    def attributes(self, name: MetricName) -> dict[str, str]:
        """Return the attributes for a metric's tags."""
        found = semconv.attributes(name)
        if semconv.CLIENT_ID in found:
            found[semconv.CLIENT_ID] = self.client_id
        return found


@attrs.frozen(eq=False)
class _Last:
    """The last value of a closed producer, and the time up to which it is shown."""

    value: float
    until: float


@attrs.define(eq=False)
class _Instrument:
    """One observable instrument, and what it knows of producers that are closed."""

    key: Key
    divisor: float
    cumulative: bool
    more: Mapping[str, str]
    """Attributes of all its values."""
    ended: dict[Attributes, float] = attrs.Factory(dict)
    """The sums of closed producers, on which those of producers with the same attributes go on: no counter may fall."""
    last: dict[Attributes, _Last] = attrs.Factory(dict)
    """The last values of producers that are closed, until a collection after their time had them, too."""
    seen: dict[Attributes, float] = attrs.Factory(dict)
    """The sums of the last collection."""

    def attributes(self, producer: ObservedProducer, name: MetricName) -> Attributes:
        """Return the attributes of a value."""
        return tuple({**self.more, **producer.attributes(name)}.items())

    def end(self, attributes: Attributes, value: float, *, until: float) -> None:
        """Keep the last value of a producer that is closed, for the next collections and as the start of others."""
        if self.cumulative:
            value += self.ended.pop(attributes, 0.0)
            _keep(self.ended, attributes, value)
        self.last.pop(attributes, None)
        _keep(self.last, attributes, _Last(value, until))

    def last_values(self, now: float) -> dict[Attributes, float]:
        """Return the last values of closed producers, and forget those whose time is over: they were shown now."""
        values = {attributes: each.value for attributes, each in self.last.items()}
        self.last = {attributes: each for attributes, each in self.last.items() if now < each.until}
        return values

    def forget_in_child(self) -> None:
        """Go on from the last collection: the SDK in a forked child compares with it."""
        self.ended, self.last = dict(self.seen), {}


class Instruments:
    """The instruments of a meter provider, and the producers whose values they observe. For any thread.

    Two locks, because the SDK makes an instrument under a lock that a collection holds while it observes: what a
    collection takes (`_lock`) is never held while the SDK is called, and what is held then (`_making`) no collection
    takes.
    """

    def __init__(self, meter: metrics.Meter) -> None:
        self._meter = meter
        self._making = threading.Lock()
        self._lock = threading.Lock()
        self._producers: tuple[ObservedProducer, ...] = ()
        self._observed: dict[str, _Instrument] = {}
        self._names: dict[Key, list[str]] = {}
        """The instruments of each metric."""
        self._histograms: dict[Key, tuple[metrics.Histogram, float]] = {}
        """The instrument for each name of a histogram, and the divisor for its values."""
        self._clock: Callable[[], float] = time.monotonic

    def add(self, registry: MetricsRegistry, *, client_id: str, clock: Callable[[], float]) -> ObservedProducer:
        """Observe a producer; make instruments for those of its metrics that have none.

        Where another producer has the same client id, it becomes `id#2`, `id#3` and so on: of two gauges with the same
        attributes, one would be lost.
        """
        with self._lock:
            self._clock = clock
            taken = {each.client_id for each in self._producers}
            candidates = chain((client_id,), (f"{client_id}#{number}" for number in count(2)))
            producer = ObservedProducer(registry, next(each for each in candidates if each not in taken), clock)
            self._producers = (*self._producers, producer)
        with self._making:
            for described in registry.describe():
                key = (described.group, described.name)
                if key not in self._names and not semconv.omitted(*key):
                    self._observe(key, described)
        return producer

    def remove(self, producer: ObservedProducer) -> None:
        """Observe a producer no more; collections of the next time get its last values."""
        values = producer.registry.snapshot()
        until = producer.clock() + _SHOWN
        with self._lock:
            self._producers = tuple(each for each in self._producers if each is not producer)
            for name, value in values.items():
                for instrument in self._names.get((name.group, name.name), ()):
                    if not math.isnan(value):
                        observed = self._observed[instrument]
                        observed.end(observed.attributes(producer, name), value, until=until)

    def record(self, producer: ObservedProducer, name: MetricName, value: float) -> None:
        """Record a value of a histogram; the first one makes its instrument."""
        found = producer.recorders.get(name) or self._recorder(producer, name)
        if found is not None:
            histogram, divisor, attributes = found
            histogram.record(value / divisor, attributes)

    def collect(self) -> Sequence[Observation]:
        """Return what a collection would observe."""
        return [each for observed in list(self._observed.values()) for each in self._values(observed)]

    def forget_in_child(self) -> None:
        """Observe no producer of the parent in a forked child: their values would never change again."""
        self._making, self._lock = threading.Lock(), threading.Lock()
        self._producers = ()
        for observed in self._observed.values():
            observed.forget_in_child()

    def _observe(self, key: Key, described: MetricDescription) -> None:
        unit, divisor = semconv.unit_of(described.unit)
        named = [(semconv.metric_name(*key), unit, described.meaning)]
        if key == semconv.SENT:
            named.append((semconv.SENT_MESSAGES, "{message}", "Number of messages sent to the broker."))
        make = self._meter.create_observable_counter if described.cumulative else self._meter.create_observable_gauge
        for name, ucum, meaning in named:
            more = semconv.SEND if name == semconv.SENT_MESSAGES else {}
            self._observed[name] = observed = _Instrument(key, divisor, described.cumulative, more)
            make(name, [partial(self._values, observed)], ucum, meaning)
        self._names[key] = [name for name, _unit, _meaning in named]

    def _values(self, observed: _Instrument, _options: CallbackOptions | None = None) -> Iterator[Observation]:
        with self._lock:
            producers, ended = self._producers, dict(observed.ended)
            values = observed.last_values(self._clock())
        for producer in producers:
            for name, value in producer.of(observed.key):
                attributes = observed.attributes(producer, name)
                if not math.isnan(value):
                    values[attributes] = value + ended.get(attributes, 0.0)
                else:  # an average or a maximum of nothing; a closed producer of the same name may have had one
                    values.pop(attributes, None)
        if observed.cumulative:
            observed.seen = values
        for attributes, value in values.items():
            yield Observation(value / observed.divisor, dict(attributes))

    def _recorder(self, producer: ObservedProducer, name: MetricName) -> _Recorder | None:
        key = (name.group, name.name)
        # All histograms of a name have one description: to ask for it again would take longer with each topic.
        if key not in self._histograms and not self._make_histogram(key, producer.registry.histograms().get(name)):
            return None
        with self._lock:
            made = producer.recorders[name] = (*self._histograms[key], producer.attributes(name))
            if len(producer.recorders) > _KEPT:  # of brokers that left, or of many topics
                producer.recorders.pop(next(iter(producer.recorders)))
        return made

    def _make_histogram(self, key: Key, of: Histogram | None) -> bool:
        if of is None:
            return False
        ucum, divisor = semconv.unit_of(of.unit)
        with self._making:
            if key not in self._histograms:
                instrument = self._meter.create_histogram(
                    semconv.metric_name(*key),
                    ucum,
                    of.meaning,
                    explicit_bucket_boundaries_advisory=[bound / divisor for bound in of.bounds],
                )
                self._histograms[key] = (instrument, divisor)
        return True


def _keep(values: dict[Attributes, _Value], attributes: Attributes, value: _Value) -> None:
    """Keep a value, and drop the oldest one if there are too many."""
    values[attributes] = value
    if len(values) > _KEPT:
        del values[next(iter(values))]


_of_providers: Final[WeakKeyDictionary[metrics.MeterProvider, Instruments]] = WeakKeyDictionary()
_global: Instruments | None = None
"""The instruments of the global provider, which passes them on to the one that a program sets later."""
_lock = threading.Lock()


def instruments_of(provider: metrics.MeterProvider | None) -> Instruments:
    """Return the instruments of a meter provider, by default of the global one."""
    global _global
    current = metrics.get_meter_provider()
    with _lock:
        found = _of_providers.get(provider or current)
        if found is None and provider in (None, current):
            found = _global = _global or Instruments(_meter(current))
        elif found is None and provider is not None:
            found = _of_providers[provider] = Instruments(_meter(provider))
        assert found is not None
        return found


def _meter(provider: metrics.MeterProvider) -> metrics.Meter:
    return provider.get_meter(semconv.SCOPE, ottla.__version__, semconv.SCHEMA_URL)


def _forget_in_child() -> None:
    """Observe no producer of the parent in a forked child."""
    global _lock
    _lock = threading.Lock()
    for each in (*_of_providers.values(), *filter(None, (_global,))):
        each.forget_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)
