"""Construction of the client and the metadata for blocking requests, from a producer's settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

from ottla.concurrency.environment import SYSTEM
from ottla.config import ProducerConfig
from ottla.errors.secret import hide_settings
from ottla.network import NetworkClient
from ottla.network.backoff import Backoff
from ottla.network.build import build_authentication, build_backoff, build_client, build_metadata, build_selector
from ottla.network.metadata import Metadata
from ottla.plugins.plugin_objects import PluginObjects, numbered
from ottla.plugins.registry import Registry
from ottla.plugins.selection import Plugins, choose_plugins

_name_client: Final = numbered("ottla-transactions")


@attrs.frozen(kw_only=True)
class ClientAndMetadata:
    """Client and metadata for blocking requests from the thread of the caller; no records are sent."""

    client: NetworkClient
    metadata: Metadata
    clock: Callable[[], float]
    backoff: Backoff
    config: ProducerConfig
    """Contains the secrets that must not appear when a broker's text is quoted."""
    plugins: Plugins

    def close(self) -> None:
        """Close the connections, then the plugins."""
        try:
            self.client.shutdown()
        finally:
            self.plugins.close()


def connect(settings: Mapping[str, Any]) -> ClientAndMetadata:
    """Build client and metadata from a producer's configuration; does not connect yet.

    Raises ConfigError or PluginError.
    """
    settings = hide_settings(settings)
    objects = PluginObjects(name_client=_name_client, clock=SYSTEM.clock)
    config, plugins = choose_plugins(settings, registry=Registry(), objects=objects)
    try:
        return _client_and_metadata(config, plugins)
    except BaseException:
        plugins.close()
        raise


def _client_and_metadata(config: ProducerConfig, plugins: Plugins) -> ClientAndMetadata:
    backoff = build_backoff(config.delivery.retry_backoff, config.delivery.retry_backoff_max, SYSTEM)
    selector = build_selector(config.connection, plugins.transport, SYSTEM)
    metadata = build_metadata(config, selector.wakeup, backoff, SYSTEM)
    metadata.checks_clusters = True
    authentication = build_authentication(plugins.mechanism, plugins.client_id, selector.wakeup, SYSTEM)
    client = build_client(config, selector, metadata, authentication, plugins.client_id, SYSTEM)
    return ClientAndMetadata(
        client=client, metadata=metadata, clock=SYSTEM.clock, backoff=backoff, config=config, plugins=plugins
    )
