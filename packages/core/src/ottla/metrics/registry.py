"""Metric names and values computed from counters: `Producer.metrics()`, and the values for reporters.

The reading thread computes, and no thread waits: if a window ends meanwhile, the values are read again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeVar

import attrs

from ottla.errors import printable
from ottla.errors.log_throttle import ThrottledLog
from ottla.errors.plugin_origin import faults
from ottla.errors.robust_logger import robust_logger
from ottla.errors.similar_names import most_similar
from ottla.interfaces import Histogram, MetricDescription, MetricName
from ottla.metrics.buckets import Buckets
from ottla.metrics.catalogue import (
    APP,
    CONNECTIONS,
    COUNT,
    HISTOGRAMS,
    LABELS,
    METRICS,
    NODE,
    OF_CIPHERS,
    PRODUCER,
    RECORD_SIZES,
    TOPIC,
    HistogramMetric,
    Metric,
    ValueKind,
)
from ottla.metrics.counter import CounterTotals
from ottla.metrics.plugin_metrics import PluginMetricGroups
from ottla.metrics.producer_counters import Counters, NodeCounters, ProducerCounters, TopicCounters
from ottla.metrics.snapshot import MetricsSnapshot
from ottla.version import __version__

T = TypeVar("T")

logger = robust_logger(__name__)

NAN: Final = float("nan")

_GROUP_OF: Final[Mapping[type, str]] = {ProducerCounters: PRODUCER, NodeCounters: NODE, TopicCounters: TOPIC}

_TRIES: Final = 5
"""The number of attempts. With windows shorter than a reading takes, a rate may be slightly wrong."""

_BY_GROUP: Final[Mapping[str, Sequence[Metric]]] = {
    group: [metric for metric in METRICS if metric.group == group and metric.kind is not ValueKind.GAUGE]
    for group in LABELS
}


_BY_NAME: Final[Mapping[tuple[str, str], Metric]] = {
    (metric.group, metric.name): metric for metric in METRICS if metric.group in (PRODUCER, NODE, TOPIC)
}


@attrs.frozen(kw_only=True, eq=False, repr=False)
class _RecentWindows:
    """The windows that values cover: how many before the open one, -1 if none are recent enough, and their seconds."""

    windows: int
    seconds: float


class MetricValues:
    """The `MetricsRegistry` of one producer. For any thread."""

    def __init__(
        self,
        *,
        counters: Counters,
        client_id: str,
        gauges: Mapping[str, Callable[[], float]],
        clock: Callable[[], float],
        started_at_ms: float = NAN,
        plugins: PluginMetricGroups | None = None,
    ) -> None:
        self._plugins = plugins or PluginMetricGroups()
        self._counters = counters
        self._client = ("client-id", client_id)
        self._gauges = {MetricName(PRODUCER, name, (self._client,)): read for name, read in gauges.items()}
        self._count = MetricName(COUNT, "count", (self._client,))
        app = (self._client, ("version", __version__))
        self._app = {MetricName(APP, "start-time-ms", app): started_at_ms, MetricName(APP, "version", app): 1.0}
        self._clock = clock
        self._lock = threading.Lock()
        self._observers: tuple[Callable[[MetricName, float, int], object], ...] = ()
        self._throttled_log = ThrottledLog(logger, clock=clock)
        self._names: dict[tuple[str, str], Sequence[tuple[Metric, MetricName]]] = {}

    def snapshot(self) -> MetricsSnapshot:
        """The current value of every metric. The average or maximum of no events is NaN."""
        values = self._read_again_if_a_window_ends(self._counted)
        values.update((name, float(read())) for name, read in self._gauges.items())
        values.update(self._app)
        values.update(self._by_cipher())
        values.update(self._plugins.snapshot(self._client))
        values[self._count] = len(values) + 1.0
        return values

    def value(self, name: str, *, topic: str | None = None, node: int | None = None) -> float:
        """The current value of one metric: of the producer, or of a topic or node, which may be unknown so far.

        Metrics of plugins and of the program count as the producer's. Raises ValueError if there is no such metric, or
        if several of these have the name, and TypeError for a name that is no text.
        """
        if not isinstance(name, str):
            raise TypeError(f"the name of a metric is text, not {type(name).__name__}")
        if topic is not None and node is not None:
            raise ValueError("a metric is of a topic or of a node: give only one of them")
        group = TOPIC if topic is not None else NODE if node is not None else PRODUCER
        metric = _BY_NAME.get((group, name))
        if metric is None:
            added = self._plugins.named(name) if group is PRODUCER else ()
            if len(added) == 1:
                return added[0]
            raise ValueError(_ambiguous(name, len(added)) if added else _unknown(group, name))
        if name == CONNECTIONS:
            return float(sum(list(self._counters.ciphers.values())))  # the I/O thread may add one
        if metric.kind is ValueKind.GAUGE:
            return float(self._gauges[MetricName(group, name, (self._client,))]())
        counters = self._counters
        sources: Callable[[str], Any] = counters.source
        if topic is not None:
            sources = partial(getattr, counters.topics.get(topic) or TopicCounters())
        elif node is not None:
            sources = partial(getattr, counters.nodes.get(node) or NodeCounters())
        return self._read_again_if_a_window_ends(
            lambda: _value(metric, sources, _recent_windows(counters, self._clock()))
        )

    def describe(self) -> Sequence[MetricDescription]:
        """Descriptions of the metrics that a snapshot may have."""
        return [
            MetricDescription(
                group=metric.group,
                name=metric.name,
                labels=OF_CIPHERS if metric.name == CONNECTIONS else LABELS[metric.group],
                cumulative=metric.kind.cumulative,
                unit=metric.unit,
                meaning=metric.meaning,
            )
            for metric in METRICS
        ] + list(self._plugins.describe())

    def histograms(self) -> Mapping[MetricName, Histogram]:
        """The distributions of latencies and sizes since the producer began."""
        return {
            MetricName(metric.group, metric.name, self._tags(metric.group, what)): _histogram(metric, scope)
            for metric in HISTOGRAMS
            for what, scope in self._scopes(metric.group)
        }

    def subscribe(self, observe: Callable[[MetricName, float, int], object]) -> Callable[[], None]:
        """Call *observe* with each value that a histogram counts from now on, until the returned function is called."""
        with self._lock:
            self._observers = (*self._observers, observe)
            self._counters.on_new = self._attach
            for group in (PRODUCER, NODE, TOPIC):
                for what, scope in self._scopes(group):
                    self._attach(scope, what)

        def end() -> None:
            with self._lock:
                self._observers = tuple(each for each in self._observers if each is not observe)

        return end

    def _attach(self, scope: Any, what: str) -> None:
        """Have the histograms of a node, a topic or the producer call the observers."""
        for metric in HISTOGRAMS:
            if metric.group == _GROUP_OF[type(scope)]:
                name = MetricName(metric.group, metric.name, self._tags(metric.group, what))
                getattr(scope, metric.source).observe = partial(self._observe, name)

    def _observe(self, name: MetricName, value: float, times: int) -> None:
        for observe in self._observers:
            try:
                observe(name, value, times)
            except faults() as error:
                self._throttled_log.error(name.name, "an observer of the histogram %s failed", name.name, error=error)

    def _by_cipher(self) -> Iterator[tuple[MetricName, float]]:
        for (cipher, protocol), number in list(self._counters.ciphers.items()):
            tags = (self._client, ("cipher", cipher), ("protocol", protocol))
            yield MetricName(PRODUCER, CONNECTIONS, tags), float(number)

    def _scopes(self, group: str) -> Iterator[tuple[str, Any]]:
        """The counters of each node or topic, with the value of the group's own label; or those of the producer."""
        counters = self._counters
        if group == NODE:
            yield from ((f"node-{node}", of_node) for node, of_node in list(counters.nodes.items()))
        elif group == TOPIC:
            yield from list(counters.topics.items())
        else:
            yield "", counters.producer

    def _read_again_if_a_window_ends(self, read: Callable[[], T]) -> T:
        for _ in range(_TRIES):
            turns = self._counters.rolls
            values = read()
            if turns == self._counters.rolls and not turns % 2:
                break  # no window has ended meanwhile
        return values

    def _counted(self) -> MetricsSnapshot:
        values = MetricsSnapshot()
        counters = self._counters
        recent = _recent_windows(counters, self._clock())
        values.update(self._read(PRODUCER, "", counters.source, recent))
        self._forget_dropped()
        for group in (NODE, TOPIC):
            for what, scope in self._scopes(group):
                values.update(self._read(group, what, partial(getattr, scope), recent))
        return values

    def _read(
        self, group: str, what: str, sources: Callable[[str], Any], recent: _RecentWindows
    ) -> Iterator[tuple[MetricName, float]]:
        for metric, name in self._named(group, what):
            yield name, _value(metric, sources, recent)

    def _forget_dropped(self) -> None:
        """Forget the names for brokers whose counters were dropped."""
        if len(self._names) > 1 + len(self._counters.nodes) + len(self._counters.topics):
            current = {(group, what) for group in (PRODUCER, NODE, TOPIC) for what, _scope in self._scopes(group)}
            self._names = {key: named for key, named in list(self._names.items()) if key in current}

    def _named(self, group: str, what: str) -> Sequence[tuple[Metric, MetricName]]:
        """The group's metrics with their names for one node or topic; made at first use."""
        named = self._names.get((group, what))
        if named is None:
            tags = self._tags(group, what)
            named = [(metric, MetricName(group, metric.name, tags)) for metric in _BY_GROUP[group]]
            self._names[group, what] = named
        return named

    def _tags(self, group: str, what: str) -> tuple[tuple[str, str], ...]:
        return (self._client, *((label, what) for label in LABELS[group][1:]))


def _ambiguous(name: str, count: int) -> str:
    return f"{count} metrics of plugins or of the program have the name {name!r}: choose one by its tags in metrics()"


def _unknown(group: str, name: str) -> str:
    """A sentence about a name that no metric of the group has: where it is, or the most similar one."""
    given = printable(repr(name))
    others = [other for other, found in _BY_NAME if found == name and other != group]
    if others:
        how = {TOPIC: "topic=...", NODE: "node=...", PRODUCER: "neither topic nor node"}
        return f"{group} has no metric {given}; {others[0]} has one: give {how[others[0]]}"
    near = most_similar(name, [found for other, found in _BY_NAME if other == group])
    return f"there is no metric {given}" + (f"; did you mean {near!r}?" if near else "; docs/metrics.md lists all")


def _histogram(metric: HistogramMetric, scope: Any) -> Histogram:
    buckets: Buckets = getattr(scope, metric.source)
    return Histogram(
        bounds=buckets.bounds,
        counts=tuple(buckets.counts),
        total=buckets.total,
        unit=metric.unit,
        meaning=metric.meaning,
    )


def _recent_windows(counters: Counters, now: float) -> _RecentWindows:
    """The current windows, as in Java: those whose start is within all samples; a short elapsed time is rounded up."""
    reach = counters.samples * counters.window
    live = [started_at for started_at in counters.window_starts if now - started_at < reach]
    passed = now - live[0] if live else 0.0
    lacking = max(counters.samples - 1 - int(passed / counters.window), 0)
    return _RecentWindows(windows=len(live) - 1, seconds=passed + lacking * counters.window)


def _value(metric: Metric, sources: Callable[[str], Any], recent: _RecentWindows) -> float:
    if metric.source == RECORD_SIZES:
        return _mean(sources("plain").since(recent.windows).total, sources("records").since(recent.windows).total)
    source = sources(metric.source)
    if metric.kind.cumulative:
        return _so_far(metric.kind, source)
    return _of_late(metric.kind, source.since(recent.windows), recent.seconds)


def _so_far(kind: ValueKind, source: Any) -> float:
    match kind:
        case ValueKind.TIMES:
            return float(source.count)
        case ValueKind.NANOSECONDS:
            return float(round(source.total * 1e9))
        case _:
            return float(source.total)


def _of_late(kind: ValueKind, mark: CounterTotals, seconds: float) -> float:
    match kind:
        case ValueKind.TIMES_PER_SECOND:
            return mark.times / seconds if seconds else 0.0
        case ValueKind.SUM_PER_SECOND:
            return mark.total / seconds if seconds else 0.0
        case ValueKind.MAXIMUM:
            return float(mark.peak) if mark.times else NAN
        case ValueKind.MEAN_NANOSECONDS:
            return _mean(mark.total * 1e9, mark.times)
        case _:
            return _mean(mark.total, mark.times)


def _mean(total: float, times: float) -> float:
    return total / times if times else NAN
