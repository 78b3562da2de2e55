"""The context that plugins under test get."""

from __future__ import annotations

from ottla_testkit.conformance import plugin_context
from ottla_testkit.manual_clock import ManualClock


def test_the_clock_of_a_context_is_moved_by_the_test_alone() -> None:
    clock = ManualClock(3.0)

    assert plugin_context().clock() == plugin_context().clock()
    assert plugin_context(clock).clock() == 3.0


def test_a_plugin_may_add_metrics_to_the_context_of_a_test() -> None:
    context = plugin_context(client_id="shop")
    context.metrics.add_counter("calls-total", unit="calls", meaning="Calls.").add()

    assert context.client_id == "shop"
