"""Why brokers take no requests: for errors, log lines and decisions about what to wait for."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import attrs

from ottla.errors import OttlaError, SecurityError
from ottla.network.client_context import ClientContext
from ottla.network.connection import Connection
from ottla.network.connection_stage import DISCONNECTED
from ottla.network.connection_waits import wait_of
from ottla.network.metadata_updater import MetadataUpdater
from ottla.results.stories import WaitKind


@attrs.frozen(eq=False, repr=False)
class Obstacles:
    """What keeps the brokers of a client from taking requests. Nothing here has an effect. For the I/O thread."""

    _context: ClientContext
    _metadata_updater: MetadataUpdater
    _with_remedy: Callable[[Connection, OttlaError], OttlaError]

    def down(self, node: int) -> bool:
        """Return whether the last attempt to reach a broker failed, and the next one has not begun."""
        connection = self._context.connections.get(node)
        return connection is not None and connection.stage is DISCONNECTED

    def all_failed(self, nodes: Iterable[int], *, since: float) -> bool:
        """Return whether each of these brokers could not be reached, at any address and after *since*."""
        brokers = self._context.metadata.cluster.brokers
        return self._context.connections.none_left([brokers[node] for node in nodes if node in brokers], since=since)

    def refused_by_all(self) -> SecurityError | None:
        """The error with which all brokers refuse us although a bootstrap server accepted us; else None.

        None as well once any broker was ready.
        """
        cluster, connections = self._context.metadata.cluster, self._context.connections
        if self._metadata_updater.reached or cluster.bootstrap or not connections.accepted:
            return None
        return connections.refused_by_all(cluster.brokers.values())

    def failure(self, node: int) -> OttlaError | None:
        """The error of a broker's last connection or attempt, while it has no connection; else None."""
        connection = self._context.connections.get(node)
        if connection is None or connection.obstacle is None:
            return None
        return self._with_remedy(connection, connection.obstacle)

    def waits_for(self, node: int, now: float) -> tuple[WaitKind, str] | None:
        """What keeps a broker from taking a request now, with a detail, or None if nothing does."""
        connection = self._context.connections.get(node)
        if connection is None:
            return None
        return wait_of(connection, now) or ((WaitKind.METADATA, str(node)) if self._metadata_updater.due(now) else None)

    def waits_for_leaders(self) -> WaitKind:
        """What partitions without a leader wait for: while all brokers are lost, no leader can be known."""
        return WaitKind.BOOTSTRAP if self._context.metadata.cluster.bootstrap else WaitKind.NO_LEADER

    def quota(self, node: int, now: float) -> OttlaError | None:
        """An error that describes a broker's throttling because of a quota; None if it does not throttle."""
        connection = self._context.connections.get(node)
        return self._context.throttled.error(connection, now) if connection is not None else None
