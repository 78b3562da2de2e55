"""The context that a plugin under test gets."""

from __future__ import annotations

import logging
from collections.abc import Callable

from ottla.interfaces import PluginContext
from ottla.metrics.plugin_metrics import PluginMetricGroup
from ottla_testkit.manual_clock import ManualClock


def plugin_context(clock: Callable[[], float] | None = None, *, client_id: str | None = "conformance") -> PluginContext:
    """A context for a hook, with a clock that only the test moves: a `ManualClock`, unless another one is given."""
    return PluginContext(
        client_id=client_id,
        logger=logging.getLogger("ottla.plugin.conformance"),
        clock=ManualClock() if clock is None else clock,
        metrics=PluginMetricGroup(),
    )
