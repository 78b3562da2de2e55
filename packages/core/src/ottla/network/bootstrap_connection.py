"""The connection to a bootstrap server becomes the one to the broker that advertises this address.

So the first record does not wait for another connection with another TLS handshake and login: far from the broker, that
is half of its latency.
"""

from __future__ import annotations

from ottla.errors.robust_logger import robust_logger
from ottla.network.client_context import ClientContext
from ottla.network.cluster import Broker
from ottla.network.connection import Connection
from ottla.network.connection_stage import DISCONNECTED, READY

logger = robust_logger(__name__)


class BootstrapConnection:
    """Finds the broker behind a connection to a bootstrap server, from the metadata that came over it."""

    def __init__(self, context: ClientContext) -> None:
        self._selector = context.selector
        self._metadata = context.metadata
        self._connections = context.connections
        self._log = context.log
        self._counters = context.counters
        self._client_id = context.client_id

    def keep(self, connection: Connection, now: float) -> bool:
        """Make the connection that of the broker with the same address. Return False if there is no such broker.

        No `ClusterCheck` is needed: this cluster is the one that metadata is from. If no topic of the response had a
        known id, it may have been set up again: another connection is made, and checked.
        """
        server = connection.broker
        if server.id >= 0 or connection.stage is not READY or connection.closing:
            return False
        if self._metadata.checks_clusters and not self._metadata.topic_ids.compared:
            return False
        broker = self._advertising(server)
        if broker is None or connection.host != broker.host:  # another name was authenticated
            return False
        previous = self._connections.get(broker.id)
        if previous is not None and previous.stage is not DISCONNECTED:
            return False
        logger.debug("%s: the connection to %s is that of %s", self._client_id, server, broker)
        self._log.gone(connection, now)
        self._selector.rename(server.id, broker.id)
        self._connections.rename(connection, broker)
        if connection.setup is not None:
            connection.setup.peer = str(broker)  # errors of the session's renewal name it
        self._counters.node_left(server.id)
        self._counters.node_connected(broker.id)
        self._log.ready(connection, now)
        self._log.answered(connection, now)  # this ends an outage of the broker before a rebootstrap
        return True

    def _advertising(self, server: Broker) -> Broker | None:
        """The only broker with the address of a bootstrap server; None if several have it: it is a load balancer's."""
        brokers = self._metadata.cluster.brokers.values()
        found = [broker for broker in brokers if (broker.host, broker.port) == (server.host, server.port)]
        return found[0] if len(found) == 1 and found[0].id >= 0 else None
