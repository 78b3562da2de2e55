"""Metrics that plugins and applications add: gauges and counters in the groups "plugins" and "application"."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, count
from typing import Final

import attrs

from ottla.errors import IllegalStateError
from ottla.errors.log_throttle import ThrottledLog
from ottla.errors.plugin_origin import faults
from ottla.errors.robust_logger import robust_logger
from ottla.interfaces import MetricDescription, MetricName

logger = robust_logger(__name__)

PLUGINS: Final = "plugins"
LABELS: Final = ("client-id", "config", "class", "plugin")
"""The labels of every plugin's metrics; labels of its own follow. KIP-877 has no `plugin`, the entry point's name."""

APPLICATION: Final = "application"

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class PluginCounter:
    """A number that only grows. For any thread."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a signal handler may interrupt it, and count as well
        self.total = 0.0

    def add(self, amount: float = 1.0) -> None:
        """Add an amount, which is not negative."""
        if amount < 0:
            raise ValueError(f"a counter cannot be increased by {amount!r}, because it only grows")
        with self._lock:
            self.total += amount


@attrs.frozen(kw_only=True, eq=False, repr=False)
class _Metric:
    name: str
    tags: tuple[tuple[str, str], ...]
    read: Callable[[], float]
    cumulative: bool
    unit: str
    meaning: str

    @property
    def form(self) -> tuple[bool, str, str, tuple[str, ...]]:
        """Kind of value, unit, meaning and labels, which all metrics of one name must share."""
        return self.cumulative, self.unit, self.meaning, tuple(label for label, _of in self.tags)


class PluginMetricGroup:
    """The `PluginMetrics` of one plugin, or of the application. For any thread."""

    def __init__(self, group: str = PLUGINS, *, labels: tuple[str, ...] = LABELS) -> None:
        self.group = group
        self.labels = labels
        """The labels of all its metrics."""
        self._lock = threading.RLock()
        self._metrics: dict[tuple[str, tuple[tuple[str, str], ...]], _Metric] = {}
        self._closed = False
        self.tags: tuple[tuple[str, str], ...] = ()
        """The tags of `labels` after the first one; set by `PluginMetricGroups.publish`."""

    def add_gauge(
        self, name: str, read: Callable[[], float], *, unit: str, meaning: str, tags: Mapping[str, str] | None = None
    ) -> None:
        """Add a metric whose value *read* returns."""
        self._add(name, read, cumulative=False, unit=unit, meaning=meaning, tags=tags)

    def add_counter(
        self, name: str, *, unit: str, meaning: str, tags: Mapping[str, str] | None = None
    ) -> PluginCounter:
        """Add a metric that only grows, and return its counter."""
        counter = PluginCounter()
        self._add(name, lambda: counter.total, cumulative=True, unit=unit, meaning=meaning, tags=tags)
        return counter

    def remove(self, name: str, tags: Mapping[str, str] | None = None) -> None:
        """Remove a metric; nothing happens if there is none."""
        with self._lock:
            self._metrics.pop((name, _pairs(tags)), None)

    def close(self) -> None:
        """Remove all metrics, and take no more."""
        with self._lock:
            self._closed = True
            self._metrics.clear()

    def metrics(self) -> Sequence[_Metric]:
        """The metrics at this moment."""
        with self._lock:
            return tuple(self._metrics.values())

    def _add(
        self,
        name: str,
        read: Callable[[], float],
        *,
        cumulative: bool,
        unit: str,
        meaning: str,
        tags: Mapping[str, str] | None,
    ) -> None:
        own = _pairs(tags)
        if not isinstance(name, str) or _NAME.fullmatch(name) is None:
            raise ValueError(f"the name of a metric is {name!r}; write one such as cache-hits-total")
        if reserved := [label for label, _of in own if label in self.labels]:
            whose = "every plugin's" if self.group == PLUGINS else "all"
            raise ValueError(f"the metric {name!r} has a tag {reserved[0]!r}, which {whose} metrics have")
        metric = _Metric(name=name, tags=own, read=read, cumulative=cumulative, unit=unit, meaning=meaning)
        with self._lock:
            if self._closed:
                raise IllegalStateError(f"the metric {name!r} cannot be added: the producer is closed")
            if (name, own) in self._metrics:
                raise ValueError(f"the {self.group.removesuffix('s')} has a metric {name!r} with these tags already")
            if any(other.form != metric.form for other in self._metrics.values() if other.name == name):
                raise ValueError(f"metrics named {name!r} must have the same unit, meaning and labels")
            self._metrics[name, own] = metric


class PluginMetricGroups:
    """The metrics of all plugins of one producer, and those of its application. For any thread."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._lock = threading.RLock()
        self.application = PluginMetricGroup(APPLICATION, labels=("client-id",))
        self._groups = [self.application]
        self._closed = False
        self._throttled_log = ThrottledLog(logger, clock=clock)

    def publish(self, group: PluginMetricGroup, *, config: str, class_name: str, plugin: str) -> None:
        """Show the metrics of one more plugin, under these tags; close the group if these groups are closed.

        Where the metrics of another object have the same tags, `plugin` becomes `plugin#2`, `plugin#3` and so on.
        Otherwise the values of one object would replace those of the other.
        """
        with self._lock:
            taken = {each.tags for each in self._groups}
            names = chain((plugin,), (f"{plugin}#{number}" for number in count(2)))
            candidates = ((("config", config), ("class", class_name), ("plugin", name)) for name in names)
            group.tags = next(tags for tags in candidates if tags not in taken)
            self._groups.append(group)
            if self._closed:
                group.close()

    def snapshot(self, client: tuple[str, str]) -> Iterator[tuple[MetricName, float]]:
        """The current values; *client* is the tag with the client id. A gauge that raises is logged and NaN."""
        for group, metric in self._all():
            yield MetricName(group.group, metric.name, (client, *group.tags, *metric.tags)), self._read(metric, group)

    def describe(self) -> Sequence[MetricDescription]:
        """Descriptions of the metrics that were added so far."""
        return list(
            dict.fromkeys(
                MetricDescription(
                    group=group.group,
                    name=metric.name,
                    labels=(*group.labels, *(label for label, _of in metric.tags)),
                    cumulative=metric.cumulative,
                    unit=metric.unit,
                    meaning=metric.meaning,
                )
                for group, metric in self._all()
            )
        )

    def close(self) -> None:
        """Remove all these metrics, and take no more."""
        with self._lock:
            self._closed = True
            for group in self._groups:
                group.close()

    def _all(self) -> Iterator[tuple[PluginMetricGroup, _Metric]]:
        for group in list(self._groups):
            for metric in group.metrics():
                yield group, metric

    def _read(self, metric: _Metric, group: PluginMetricGroup) -> float:
        try:
            return float(metric.read())
        except faults() as error:
            plugin = dict(group.tags).get("plugin")
            owner = "application" if plugin is None else f"plugin {plugin}"
            self._throttled_log.error(
                (owner, metric.name), "the metric %s of the %s cannot be read", metric.name, owner, error=error
            )
            return float("nan")


def _pairs(tags: Mapping[str, str] | None) -> tuple[tuple[str, str], ...]:
    """The tags by label: as in Java, their order does not distinguish metrics."""
    return tuple(sorted((str(label), str(of)) for label, of in (tags or {}).items()))
