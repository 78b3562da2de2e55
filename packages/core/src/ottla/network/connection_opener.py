"""New connections: addresses, the socket, ApiVersions and login, and the renewal of sessions.

Performs the steps of each connection's `ConnectionSetup`. `ConnectionCloser` handles failures.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import attrgetter
from typing import assert_never

from ottla.errors import ConnectionRetiredError, NetworkError
from ottla.errors.robust_logger import robust_logger
from ottla.network.api_versions import Features, NodeApiVersions
from ottla.network.authentication import Ask, Authentication, LoggedIn, Token
from ottla.network.backoff import Backoff
from ottla.network.client_context import ClientContext
from ottla.network.cluster_check import ClusterCheck
from ottla.network.connection import Connection
from ottla.network.connection_closer import ConnectionCloser
from ottla.network.connection_setup import ConnectionSetup, SetupStep
from ottla.network.connection_stage import DISCONNECTED, READY, Stage
from ottla.network.metadata_updater import MetadataUpdater
from ottla.network.request_writer import RequestWriter
from ottla.protocol import API_VERSIONS, METADATA

logger = robust_logger(__name__)


class ConnectionOpener:
    """Makes connections ready for requests."""

    def __init__(
        self,
        context: ClientContext,
        *,
        writer: RequestWriter,
        closer: ConnectionCloser,
        metadata_updater: MetadataUpdater,
        authentication: Authentication | None,
        setup_backoff: Backoff,
        canonical_bootstrap: bool,
    ) -> None:
        self._metadata = context.metadata
        self._selector = context.selector
        self._connections = context.connections
        self._writer = writer
        self._closer = closer
        self._throttled = context.throttled
        self.cluster_check = ClusterCheck(context, writer=writer, closer=closer, log=metadata_updater.log)
        self._metadata_updater = metadata_updater
        self._authentication = authentication
        self._log = context.log
        self._counters = context.counters.producer
        self._node_connected = context.counters.node_connected
        self._setup_backoff = setup_backoff
        self._canonical_bootstrap = canonical_bootstrap
        self._client_id = context.client_id
        self.features = Features()
        """The cluster's finalized features, from ApiVersions responses."""
        self.offered: set[int] = set()
        """The keys of the APIs that any server has offered so far."""

    def takes(self, connection: Connection, now: float) -> bool:
        """Return whether a connection takes a request now; begins to connect it if necessary. Never blocks.

        A session that ends soon is renewed first; a short session is replaced by a new connection.
        """
        if connection.may_connect(now):
            self._connect(connection, now)
        if not connection.may_send(now) or (connection.unchecked and self._metadata.checks_before_all):
            return False
        if now < connection.session.renew_at:
            return True
        if connection.session.short_sessions:
            self._end_short_session(connection, now)
        else:
            self._renew(connection, now)
        return False

    def connected(self, connection: Connection, now: float) -> None:
        """Begin the setup of a connection whose socket is connected."""
        if connection.stage is not Stage.CONNECTING:
            return
        connection.stage, connection.address_deadline = Stage.NEGOTIATING, float("inf")
        broker = connection.broker
        connection.setup = ConnectionSetup(
            self._authentication, host=connection.host, port=broker.port, peer=str(broker)
        )
        self._counters.connected.add(1)
        self._node_connected(broker.id)
        self._follow(connection, connection.setup.begin, now)

    def answered(self, connection: Connection, body: memoryview, now: float) -> None:
        """Continue a setup after a response. Raises ProtocolError if the response cannot be parsed."""
        assert connection.setup is not None
        self._follow(connection, partial(connection.setup.response, body), now)

    def written(self, connection: Connection, now: float) -> None:
        """Continue a setup after writing a message that has no response: the last one of some logins."""
        assert connection.setup is not None
        self._follow(connection, connection.setup.written, now)

    def advance(self, now: float) -> None:
        """Continue connections whose host name is resolved, and logins whose mechanism has finished computing."""
        for connection in self._connections.all:
            if connection.stage is READY or connection.stage is DISCONNECTED:
                continue
            if connection.stage is Stage.RESOLVING:
                self._continue_connecting(connection, now)
            while (setup := connection.setup) is not None and setup.computed and not connection.closing:
                self._follow(connection, setup.resume, now)

    def begin_renewal_time(self, connection: Connection, now: float) -> None:
        """Start the time-out of a re-authentication with the last response to an earlier request.

        A broker serves a connection in order: it reads the login's first message only now, or after the throttle time.
        """
        if connection.stage is Stage.RENEWING and not connection.in_flight.precedes_setup:
            connection.setup_deadline = max(now, connection.throttled_until) + self._setup_backoff.delay(0)

    def forget_features(self) -> None:
        """Keep only what the newest connection knows: the epochs of a cluster that was set up again are smaller."""
        newest = max(
            (each for each in self._connections if each.stage is READY), key=attrgetter("opened_at"), default=None
        )
        self.features = Features() if newest is None else newest.features

    def close(self) -> None:
        """End the worker thread of the logins."""
        if self._authentication is not None:
            self._authentication.close()

    def _connect(self, connection: Connection, now: float) -> None:
        connection.stage, connection.began_at = Stage.RESOLVING, now
        connection.setup_deadline = now + self._setup_backoff.delay(connection.failed_setups)
        self._continue_connecting(connection, now)

    def _continue_connecting(self, connection: Connection, now: float) -> None:
        """Connect to the next of the broker's addresses, once they are resolved."""
        broker = connection.broker
        try:
            if not connection.addresses:
                connection.address = None
                canonical = self._canonical_bootstrap and broker.id < 0
                addresses = self._selector.resolve(broker.host, broker.port, canonical=canonical)
                if addresses is None:
                    return
                connection.try_addresses(addresses)
            address = connection.begin_address(now)
            logger.debug("%s: connecting to %s", self._client_id, broker)
            connection.stage, connection.host = Stage.CONNECTING, address.host
            self._selector.connect(broker.id, address.target, address.host, broker.port)
        except NetworkError as error:
            self._closer.failed(connection, error, now)

    def _end_short_session(self, connection: Connection, now: float) -> None:
        """Close the connection once all its requests are answered; the next connection waits for its backoff."""
        if connection.in_flight.unconfirmed is not None and not connection.in_flight.asked_to_confirm:
            self._writer.ask_to_confirm(connection, now)
        elif not connection.awaits_responses:
            reason = ConnectionRetiredError(f"the short session at {connection.broker} is almost over")
            self._closer.close(connection, reason)

    def _renew(self, connection: Connection, now: float) -> None:
        connection.stage = Stage.RENEWING
        connection.session.renewing_since = now
        # If earlier requests are in flight, the time-out starts with the last of their responses.
        waits = connection.in_flight.precedes_setup
        connection.setup_deadline = float("inf") if waits else now + self._setup_backoff.delay(0)
        self._log_in(connection, now)

    def _log_in(self, connection: Connection, now: float) -> None:
        assert connection.setup is not None
        self._follow(connection, partial(connection.setup.log_in, connection.versions), now)

    def _follow(self, connection: Connection, next_step: Callable[[], SetupStep], now: float) -> None:
        """Perform the next step of a connection's setup; a NetworkError closes the connection."""
        try:
            match step := next_step():
                case Ask() | Token():
                    connection.session.asked_at = now
                    self._writer.write_step(connection, step, now)
                case NodeApiVersions():
                    self._take_versions(connection, step, now)
                case LoggedIn(session=seconds):
                    self._admit(connection, seconds, now)
                case None:
                    pass
                case _:
                    assert_never(step)
        except NetworkError as error:
            self._closer.close(connection, error)

    def _take_versions(self, connection: Connection, api_versions: NodeApiVersions, now: float) -> None:
        assert connection.setup is not None
        self._throttled.throttle(connection, API_VERSIONS, api_versions.version, api_versions.throttle_ms, now)
        if api_versions.ask_again_with is not None:
            self._follow(connection, connection.setup.begin, now)
            return
        if METADATA.key not in api_versions.versions:
            raise NetworkError(
                f"{connection.broker} offers no Metadata requests, so no broker serves this address; a controller's "
                "listener does not, either: check the port, and the proxy if one is in between"
            )
        connection.answered = True
        connection.versions = dict(api_versions.versions)
        connection.features = api_versions.features
        self.features = self.features.newer(api_versions.features)
        self.offered.update(api_versions.versions)
        if self._authentication is not None:
            connection.stage = Stage.AUTHENTICATING
        self._log_in(connection, now)

    def _admit(self, connection: Connection, session_seconds: float, now: float) -> None:
        """Mark a connection as ready after ApiVersions and login."""
        if self._authentication is not None:
            renewal_after = self._authentication.renewal_after(session_seconds)
            connection.session.begin(session_seconds, renewal_after=renewal_after, now=now)
            renewed = connection.stage is Stage.RENEWING
            (self._counters.renewals if renewed else self._counters.logins).add(1)
            if renewed:
                self._counters.renewal_times.add((now - connection.session.renewing_since) * 1000.0)
        opened = connection.stage is not Stage.RENEWING
        connection.become_ready(now)
        self._connections.accepted = True
        self._metadata_updater.note_ready(connection)
        logger.debug("%s: %s is ready", self._client_id, connection.broker)
        self._log.ready(connection, now)
        if opened:
            self.cluster_check.begin(connection, now)
        if connection.session.short_sessions > 1:  # a single one may be the end of a token's lifetime
            self._log.short_session(connection)
