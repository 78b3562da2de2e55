"""The metrics of all plugins of a producer, and of its application: in the groups "plugins" and "application"."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, count
from typing import Final

from ottla.errors.log_throttle import ThrottledLog
from ottla.errors.plugin_origin import faults
from ottla.errors.robust_logger import robust_logger
from ottla.interfaces import MetricDescription, MetricName
from ottla.metrics.plugin_metric_group import PluginMetric, PluginMetricGroup

logger = robust_logger(__name__)

APPLICATION: Final = "application"


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

    def named(self, name: str) -> Sequence[float]:
        """The current values of the metrics with this name, whatever their tags."""
        return [self._read(metric, group) for group, metric in self._all() if metric.name == name]

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

    def _all(self) -> Iterator[tuple[PluginMetricGroup, PluginMetric]]:
        for group in list(self._groups):
            for metric in group.metrics():
                yield group, metric

    def _read(self, metric: PluginMetric, group: PluginMetricGroup) -> float:
        try:
            return float(metric.read())
        except faults() as error:
            plugin = dict(group.tags).get("plugin")
            owner = "application" if plugin is None else f"plugin {plugin}"
            self._throttled_log.error(
                (owner, metric.name), "the metric %s of the %s cannot be read", metric.name, owner, error=error
            )
            return float("nan")
