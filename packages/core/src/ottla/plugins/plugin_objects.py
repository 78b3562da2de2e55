"""The objects that plugins make for one producer: each gets the producer's context, and all are closed in the end.

Objects are closed in the reverse order of their creation, so that an object is closed before those that it was given.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from ottla.interfaces import PluginConfig
from ottla.metrics.plugin_metric_group import PluginMetricGroup
from ottla.metrics.plugin_metrics import PluginMetricGroups
from ottla.plugins.calls import PluginCloser
from ottla.plugins.former_interceptors import AdaptedInterceptor
from ottla.plugins.registry import Plugin

_WITH_SECRETS: Final = frozenset({"authenticator", "config_provider"})
"""Kinds whose exceptions may have a secret in their message."""


def numbered(prefix: str) -> Callable[[str | None], str | None]:
    """A function that returns the configured client id, or else *prefix* with a number. For any thread."""
    numbers = itertools.count(1)
    return lambda configured: configured or f"{prefix}-{next(numbers)}"


name_producer: Final = numbered("ottla-producer")


class PluginObjects:
    """Makes the objects of one producer's plugins; `close` closes them.

    *name_client* returns the client id as it is used, for the configured one, which may be None.
    """

    def __init__(
        self,
        *,
        name_client: Callable[[str | None], str | None] = name_producer,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name_client = name_client
        self._clock = clock
        self.client_id: str | None = None
        """The client id as it is used; None while the configuration is read."""
        self.closer = PluginCloser()
        self.metrics = PluginMetricGroups(clock=clock)

    def create(self, plugin: Plugin, config: PluginConfig, **extra: object) -> Any:
        """The object that the plugin's hook makes; *extra* are the hook's other arguments. Raises PluginError."""
        metrics = PluginMetricGroup()
        context = plugin.context(client_id=self.client_id, clock=self._clock, metrics=metrics)
        made = plugin.create(config, context=context, **extra)
        own = made.former if isinstance(made, AdaptedInterceptor) else made
        # Not before: a hook that fails leaves no metrics, and a reader sees none without the class of the object.
        self.metrics.publish(metrics, config=_setting(plugin, extra), class_name=type(own).__name__, plugin=plugin.name)
        # A reporter begins nothing before it is started, and is added then; what the program made, it closes.
        if plugin.makes_objects and plugin.info.kind.name != "reporter":
            self.closer.add(str(plugin), made, secret=plugin.info.kind.name in _WITH_SECRETS, first=True)
        return made

    def close(self, timeout: float) -> None:
        """Close all objects in about *timeout* seconds, then remove their metrics."""
        self.closer.close(timeout)
        self.metrics.close()


def _setting(plugin: Plugin, extra: Mapping[str, object]) -> str:
    """The key that names the plugin, by the arguments of its hook."""
    match plugin.info.kind.name:
        case "serializer":
            return "key.serializer" if extra["is_key"] else "value.serializer"
        case "transport":
            return "security.protocol" if extra["inner"] is None else "connection.via"
        case _:
            return plugin.info.kind.setting
