"""The metrics that one plugin adds, or the application: gauges and counters."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import attrs

from ottla.errors import IllegalStateError

PLUGINS: Final = "plugins"
LABELS: Final = ("client-id", "config", "class", "plugin")
"""The labels of every plugin's metrics; its own labels follow. KIP-877 has no `plugin`, the entry point's name."""

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_SEPARATOR: Final = re.compile(r"[._-]")
_UNIT_AT_THE_END: Final = re.compile(r"(?:^|_)(?:ms|ns|bytes?|seconds)$")
_BASE_UNITS: Final[Mapping[str, str]] = {"ms": "_seconds", "ns": "_seconds", "s": "_seconds", "bytes": "_bytes"}


class PluginCounter:
    """A number that only grows. For any thread."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a signal handler may interrupt it, and count as well
        self.total = 0.0

    def add(self, amount: float = 1.0) -> None:
        """Add an amount, which is finite and not negative."""
        if not 0 <= amount <= sys.float_info.max:  # no comparison with NaN holds
            reason = "because it only grows" if amount < 0 else "but by a finite number"
            raise ValueError(f"a counter cannot be increased by {_number(amount)}, {reason}")
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


@attrs.define(eq=False)
class _Namesakes:
    """The metrics of one name: what they share, and their number."""

    form: tuple[bool, str, str, tuple[str, ...]]
    exported: str
    number: int = 1


class PluginMetricGroup:
    """The `PluginMetrics` of one plugin, or of the application. For any thread."""

    def __init__(self, group: str = PLUGINS, *, labels: tuple[str, ...] = LABELS) -> None:
        self.group = group
        self.labels = labels
        """The labels of all its metrics."""
        self._lock = threading.RLock()
        self._metrics: dict[tuple[str, tuple[tuple[str, str], ...]], PluginMetric] = {}
        self._names: dict[str, _Namesakes] = {}
        self._exported: dict[str, str] = {}
        """The name by the form that exporters change it to."""
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
            if self._metrics.pop((name, _pairs(tags)), None) is None:
                return
            namesakes = self._names[name]
            namesakes.number -= 1
            if not namesakes.number:
                del self._names[name], self._exported[namesakes.exported]

    def close(self) -> None:
        """Remove all metrics, and take no more."""
        with self._lock:
            self._closed = True
            for each in (self._metrics, self._names, self._exported):
                each.clear()

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
        for what, given in (("unit", unit), ("meaning", meaning)):
            if not isinstance(given, str) or not given.strip():
                raise ValueError(f"the {what} of the metric {name!r} must be a text, not {given!r}")
        if not callable(read):
            raise ValueError(f"the metric {name!r} needs a function that returns its value, not {read!r}")
        metric = PluginMetric(name=name, tags=own, read=read, cumulative=cumulative, unit=unit, meaning=meaning)
        with self._lock:
            if self._closed:
                raise IllegalStateError(f"the metric {name!r} cannot be added: the producer is closed")
            if (name, own) in self._metrics:
                raise ValueError(f"the {self.group.removesuffix('s')} has a metric {name!r} with these tags already")
            self._name(metric)
            self._metrics[name, own] = metric

    def _name(self, metric: PluginMetric) -> None:
        """Count one more metric of this name. Raises ValueError if those that are there do not allow it."""
        namesakes = self._names.get(metric.name)
        if namesakes is not None:
            if namesakes.form != metric.form:
                raise ValueError(f"metrics named {metric.name!r} must have the same unit, meaning and labels")
            namesakes.number += 1
            return
        exported = _exported(metric)
        if (other := self._exported.setdefault(exported, metric.name)) != metric.name:
            raise ValueError(
                f"the metric {metric.name!r} would be one with {other!r} where metrics are exported, because their "
                "names differ only in '.', '-', '_', upper case, '-total' or a unit; name it otherwise"
            )
        self._names[metric.name] = _Namesakes(metric.form, exported)


def _exported(metric: PluginMetric) -> str:
    """The name as exporters may change it: without separators and `total`, and with the base unit at its end."""
    plain = _SEPARATOR.sub("_", metric.name.lower()).removesuffix("_total")
    base = _BASE_UNITS.get(metric.unit)
    return plain if base is None else _UNIT_AT_THE_END.sub("", plain) + base


def _number(amount: float) -> str:
    try:
        return repr(amount)
    except ValueError:  # an int with too many digits
        return "so large a number"


def _pairs(tags: Mapping[str, str] | None) -> tuple[tuple[str, str], ...]:
    """The tags by label: as in Java, their order does not distinguish metrics."""
    return tuple(sorted((str(label), str(of)) for label, of in (tags or {}).items()))
