"""Construction of the client and the metadata for blocking requests, from a producer's settings."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from ottla.concurrency.environment import SYSTEM
from ottla.config import ProducerConfig
from ottla.errors.secret import hide_settings
from ottla.network import NetworkClient
from ottla.network.backoff import Backoff
from ottla.network.build import build_authentication, build_backoff, build_client, build_metadata, build_selector
from ottla.network.metadata import Metadata
from ottla.plugins.calls import CLOSE_SECONDS, PluginCloser
from ottla.plugins.config_references import read_draft
from ottla.plugins.registry import Registry
from ottla.plugins.selection import choose

_numbers = itertools.count(1)


@attrs.frozen(kw_only=True)
class ClientAndMetadata:
    """Client and metadata for blocking requests from the thread of the caller; no records are sent."""

    client: NetworkClient
    metadata: Metadata
    clock: Callable[[], float]
    backoff: Backoff
    config: ProducerConfig
    """Has the secrets that must not appear in quoted text of brokers."""
    closer: PluginCloser

    def close(self) -> None:
        """Close the connections and the plugins."""
        self.client.shutdown()
        self.closer.close(CLOSE_SECONDS)


def connect(settings: Mapping[str, Any]) -> ClientAndMetadata:
    """Client and metadata by a producer's configuration; does not connect yet. Raises ConfigError or PluginError."""
    settings = hide_settings(settings)
    registry = Registry()
    config, plugins = choose(read_draft(settings, registry=registry), registry)
    backoff = build_backoff(config.delivery.retry_backoff, config.delivery.retry_backoff_max, SYSTEM)
    selector = build_selector(
        config.connection, plugins.transport, SYSTEM, origin=plugins.origin("transport", plugins.transport)
    )
    metadata = build_metadata(config, selector.wakeup, backoff, SYSTEM)
    client_id = config.connection.client_id or f"ottla-transactions-{next(_numbers)}"
    authentication = build_authentication(plugins.mechanism, client_id, selector.wakeup, SYSTEM)
    client = build_client(config, selector, metadata, authentication, client_id, SYSTEM)
    return ClientAndMetadata(
        client=client,
        metadata=metadata,
        clock=SYSTEM.clock,
        backoff=backoff,
        config=config,
        closer=plugins.closer(),
    )
