"""The context that a plugin under test gets."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from ottla.interfaces import MetricName, PluginContext
from ottla.metrics.plugin_metric_group import PLUGINS, PluginMetricGroup
from ottla_testkit.manual_clock import ManualClock


def plugin_context(clock: Callable[[], float] | None = None, *, client_id: str | None = "conformance") -> PluginContext:
    """A context for a hook, with a clock that only the test moves: a `ManualClock`, unless another one is given."""
    return PluginContext(
        client_id=client_id,
        logger=logging.getLogger("ottla.plugin.conformance"),
        clock=ManualClock() if clock is None else clock,
        metrics=PluginMetricGroup(),
    )


def metric_values(context: PluginContext) -> Mapping[MetricName, float]:
    """The metrics that a plugin has added to a context of `plugin_context`, with no tags but its own."""
    group = context.metrics
    if not isinstance(group, PluginMetricGroup):
        raise TypeError(f"the metrics of a context of plugin_context() can be read, not {type(group).__name__}")
    return {MetricName(PLUGINS, metric.name, metric.tags): float(metric.read()) for metric in group.metrics()}
