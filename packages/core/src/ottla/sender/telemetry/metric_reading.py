"""The metrics that a subscription wants, with what a sum has gained since the last push."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence

import attrs

from ottla.interfaces import MetricName, MetricsRegistry
from ottla.sender.telemetry.metric_names import telemetry_attributes, telemetry_name
from ottla.sender.telemetry.otlp import OtlpMetric, Point, Temporality
from ottla.sender.telemetry.subscription import Subscription


@attrs.frozen(kw_only=True)
class Reading:
    """The value of one metric that is wanted, and its name in telemetry; *cumulative*: it only grows."""

    metric: MetricName
    name: str
    value: float
    cumulative: bool


class MetricReader:
    """Reads a producer's metrics for pushes. For one thread at a time."""

    def __init__(self, registry: MetricsRegistry, *, clock_ns: Callable[[], int]) -> None:
        self._registry = registry
        self._clock_ns = clock_ns
        self._began_ns = clock_ns()
        self._delta = False
        self._pushed: dict[MetricName, tuple[float, int]] = {}
        """The values of sums in the last push, and its time, while brokers want deltas."""
        self._pushed_before = self._pushed
        self._present: Collection[MetricName] = ()
        """The metrics of the last snapshot; those of a broker that left may be missing."""

    def read(self, subscription: Subscription) -> Sequence[Reading]:
        """The metrics that are wanted, without those that have no value, such as an average of nothing."""
        if subscription.delta != self._delta:
            self._delta = subscription.delta
            self._pushed = self._pushed_before = {}
        cumulative = {(each.group, each.name) for each in self._registry.describe() if each.cumulative}
        names: dict[tuple[str, str], str | None] = {}
        readings = []
        snapshot = self._registry.snapshot()
        self._present = snapshot.keys()
        for metric, value in snapshot.items():
            kind = metric.group, metric.name
            if kind not in names:
                name = telemetry_name(*kind)
                names[kind] = name if subscription.wants(name) else None
            wanted = names[kind]
            if wanted is not None and not math.isnan(value):
                readings.append(Reading(metric=metric, name=wanted, value=value, cumulative=kind in cumulative))
        return readings

    def metrics(self, readings: Iterable[Reading], at_ns: int) -> Sequence[OtlpMetric]:
        """The readings for a push at this time: points of the same name are one metric."""
        points: dict[tuple[str, bool], list[Point]] = {}
        for reading in readings:
            points.setdefault((reading.name, reading.cumulative), []).append(self._point(reading, at_ns))
        of_sums = Temporality.DELTA if self._delta else Temporality.CUMULATIVE
        return [
            OtlpMetric(name=name, points=of, temporality=of_sums if cumulative else None)
            for (name, cumulative), of in points.items()
        ]

    def note_pushed(self, readings: Iterable[Reading], at_ns: int) -> None:
        """Count sums from here on: these readings are in a push, which may or may not arrive."""
        if self._delta:
            self._pushed_before = self._pushed
            sums = {reading.metric: (reading.value, at_ns) for reading in readings if reading.cumulative}
            known = {metric: pushed for metric, pushed in self._pushed.items() if metric in self._present}
            self._pushed = known | sums

    def take_back(self) -> None:
        """Count sums from where they were before the last push, which brokers have refused."""
        self._pushed = self._pushed_before

    def now_ns(self) -> int:
        """The time in nanoseconds since 1970."""
        return self._clock_ns()

    def _point(self, reading: Reading, at_ns: int) -> Point:
        attributes = telemetry_attributes(reading.metric.tags)
        if not reading.cumulative:
            return Point(value=reading.value, at_ns=at_ns, attributes=attributes)
        pushed, since_ns = self._pushed.get(reading.metric, (0.0, self._began_ns))
        if reading.value < pushed:  # the broker left, and its counters were dropped before it came back
            pushed = 0.0
        return Point(value=reading.value - pushed, at_ns=at_ns, since_ns=since_ns, attributes=attributes)
