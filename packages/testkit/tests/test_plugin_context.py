"""The context that plugins under test get."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.interfaces import MetricName, PluginContext
from ottla_testkit.conformance import metric_values, plugin_context
from ottla_testkit.manual_clock import ManualClock


class Unreadable:
    """The metrics of a producer, for instance."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(name)


def test_the_clock_of_a_context_is_moved_by_the_test_alone() -> None:
    clock = ManualClock(3.0)

    assert plugin_context().clock() == plugin_context().clock()
    assert plugin_context(clock).clock() == 3.0


def test_a_plugin_may_add_metrics_to_the_context_of_a_test() -> None:
    context = plugin_context(client_id="shop")
    context.metrics.add_counter("calls-total", unit="calls", meaning="Calls.", tags={"server": "a"}).add(2)
    context.metrics.add_gauge("waiting", lambda: 0.5, unit="calls", meaning="Calls under way.")

    assert context.client_id == "shop"
    assert metric_values(context) == {
        MetricName("plugins", "calls-total", (("server", "a"),)): 2.0,
        MetricName("plugins", "waiting"): 0.5,
    }


def test_metrics_of_another_context_cannot_be_read() -> None:
    context = plugin_context()
    other = PluginContext(client_id="shop", logger=context.logger, clock=context.clock, metrics=Unreadable())

    with pytest.raises(TypeError, match=r"the metrics of a context of plugin_context\(\) can be read, not Unreadable"):
        metric_values(other)
