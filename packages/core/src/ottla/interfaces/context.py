"""The context that each plugin gets when it is made: a logger, the clock, and the plugin's own metrics."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Protocol

import attrs

from ottla.results.value_methods import ValueMethods


class MetricCounter(Protocol):
    """A number that only grows. For any thread."""

    def add(self, amount: float = 1.0) -> None:
        """Add an amount. ValueError if it is negative or not finite."""


class PluginMetrics(Protocol):
    """Metrics of a plugin's own (KIP-877), in `Producer.metrics()` and for reporters. For any thread.

    Their group is "plugins", and their tags are the client id, the key that names the plugin (`config`), the class of
    its object (`class`), the name of its entry point (`plugin`), and *tags* by label. If a producer has two objects
    with the same tags, the second one's `plugin` ends in `#2`. The metrics appear once the hook has returned the
    object, and are removed when the producer has closed its plugins. Metrics of one name have the same unit, meaning
    and labels.
    """

    def add_gauge(
        self, name: str, read: Callable[[], float], *, unit: str, meaning: str, tags: Mapping[str, str] | None = None
    ) -> None:
        """Add a metric whose value *read* returns, on the thread that reads the metrics; it must not wait.

        Raises ValueError for a name that exists or is none, or that exporters would make one with another, and for a
        unit or meaning that is no text; IllegalStateError once the producer is closed.
        """

    def add_counter(
        self, name: str, *, unit: str, meaning: str, tags: Mapping[str, str] | None = None
    ) -> MetricCounter:
        """Add a metric that only grows, and return its counter. Raises like `add_gauge`."""

    def remove(self, name: str, tags: Mapping[str, str] | None = None) -> None:
        """Remove a metric; nothing happens if there is none."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class PluginContext(ValueMethods):
    """The `context` argument of a hook: what the producer gives to each plugin, whatever its kind.

    `client_id` is the one of requests and of the tags of metrics. It is None for a config provider, which is made
    before the configuration is read, and for a table sealer without `client.id`. `logger` is
    `ottla.plugin.KIND.NAME`; its lines should begin with the client id. `clock` returns seconds and never goes
    backwards; a test or a simulation moves it.
    """

    client_id: str | None
    logger: logging.Logger
    clock: Callable[[], float]
    metrics: PluginMetrics
