"""The metrics that one plugin adds, or the application: gauges and counters."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import attrs

from ottla.errors import IllegalStateError

PLUGINS: Final = "plugins"
LABELS: Final = ("client-id", "config", "class", "plugin")
"""The labels of every plugin's metrics; its own labels follow. KIP-877 has no `plugin`, the entry point's name."""

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
class PluginMetric:
    """A metric of a plugin, or of the application. *read* returns its value."""

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
        self._metrics: dict[tuple[str, tuple[tuple[str, str], ...]], PluginMetric] = {}
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

    def metrics(self) -> Sequence[PluginMetric]:
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
        metric = PluginMetric(name=name, tags=own, read=read, cumulative=cumulative, unit=unit, meaning=meaning)
        with self._lock:
            if self._closed:
                raise IllegalStateError(f"the metric {name!r} cannot be added: the producer is closed")
            if (name, own) in self._metrics:
                raise ValueError(f"the {self.group.removesuffix('s')} has a metric {name!r} with these tags already")
            if any(other.form != metric.form for other in self._metrics.values() if other.name == name):
                raise ValueError(f"metrics named {name!r} must have the same unit, meaning and labels")
            self._metrics[name, own] = metric


def _pairs(tags: Mapping[str, str] | None) -> tuple[tuple[str, str], ...]:
    """The tags by label: as in Java, their order does not distinguish metrics."""
    return tuple(sorted((str(label), str(of)) for label, of in (tags or {}).items()))
