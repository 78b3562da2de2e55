"""The end of connections: its reason, the backoff after it, the requests that were in flight, and the log line.

It decides which error describes the end, when the next attempt is allowed, and whether to raise a fatal error because
all servers refuse us.
"""

from __future__ import annotations

from collections.abc import Sequence

from ottla.errors import (
    ConnectionFailedError,
    ConnectionRetiredError,
    NameResolutionError,
    NetworkError,
    OttlaError,
    ProtocolMismatchError,
    SecurityError,
    SessionExpiredError,
)
from ottla.errors.robust_logger import robust_logger
from ottla.network.backoff import Backoff
from ottla.network.client_context import ClientContext
from ottla.network.connection import Connection
from ottla.network.connection_errors import (
    closed_after_api_versions,
    closed_before_api_versions,
    describe,
    ended_unused,
    forget_frames,
    never_reached,
)
from ottla.network.connection_stage import Stage
from ottla.network.in_flight_requests import InFlight

logger = robust_logger(__name__)


class ConnectionCloser:
    """Closes connections, and handles connections that the peer closed."""

    def __init__(
        self,
        context: ClientContext,
        *,
        reconnect_backoff: Backoff,
    ) -> None:
        self._selector = context.selector
        self._connections = context.connections
        self._metadata = context.metadata
        self._completions = context.completions
        self._log = context.log
        self._counters = context.counters.producer
        self._node_left = context.counters.node_left
        self._reconnect_backoff = reconnect_backoff
        self._request_timeout = context.request_timeout
        self._client_id = context.client_id
        self._unclosed: set[int] = set()  # nodes whose connection must be closed before the next request
        self.finishing = False
        """Whether a broker that left the cluster still has responses to send."""

    def close(self, connection: Connection, reason: NetworkError) -> None:
        """Close a connection; the next poll reports its end."""
        if connection.stage is Stage.RESOLVING:
            connection.lost()  # there is nothing to close yet
        elif not connection.closing:
            connection.closing, connection.reason = True, reason
            self._selector.close(connection.broker.id, reason)

    def close_after_responses(self, connection: Connection, reason: NetworkError) -> None:
        """Close a connection once its requests in flight have responses; from now on it takes no others."""
        if connection.in_flight:
            connection.reason = reason
        else:
            self.close(connection, reason)

    def close_gone(self, now: float) -> None:
        """Close the connections of brokers that left the cluster or moved to another address.

        A broker that metadata no longer lists may be in its controlled shutdown, or fenced: it still answers requests
        in flight, which may have written records. Its connection is closed after the last response.
        """
        cluster = self._metadata.cluster
        self.finishing = False
        for connection in self._connections.gone(cluster.brokers.values()):
            if connection.awaits_responses and connection.broker.id not in cluster.brokers and not cluster.bootstrap:
                self.finishing = True
                continue
            if connection.stage is not Stage.DISCONNECTED:
                self.close(connection, ConnectionRetiredError(f"{connection.broker} is not part of the cluster"))
            # Connections to brokers that may come back keep their backoff.
            if connection.stage is Stage.DISCONNECTED and not cluster.bootstrap:
                self._connections.forget(connection)
                self._node_left(connection.broker.id)
                self._log.gone(connection, now)

    def disconnected(self, connection: Connection, error: OttlaError, now: float) -> None:
        """Handle a connection that has ended; the reason that `close` got takes precedence over *error*."""
        self.failed(connection, connection.reason or _meaning(connection, error, now), now)

    def failed(self, connection: Connection, error: OttlaError, now: float) -> None:
        """Handle a lost connection or a failed attempt: fail its requests, and allow the next attempt later."""
        forget_frames(error)
        self._warn_of_unconfirmed(connection, error, now)
        retired = isinstance(error, ConnectionRetiredError)
        if connection.count_life(now, by_broker=not retired):
            self._metadata.note_short_connection()
        harmless = ended_unused(connection, error, since=now - self._request_timeout)
        setting_up = connection.stage not in (Stage.READY, Stage.RENEWING)
        unanswered = self._end(connection, error)
        backoff = self._reconnect_backoff.delay(connection.attempts)
        if retired:
            logger.debug("%s: %s", self._client_id, describe(connection, error))
            if connection.session.short_sessions:
                connection.retry_at = now + backoff
        else:
            connection.retry_at = now + backoff
            connection.last_failure = error
            self._metadata.request_update()  # the broker may be shutting down, and its partitions have new leaders
            if harmless:
                self._log.ended(connection, error, now)
            else:
                connection.failed_setups += setting_up
                self._count_failure(connection, error, now)
        for sent in unanswered:
            self._completions.failed(sent.request, connection, error, now)

    def forget_all(self, error: NetworkError, now: float) -> None:
        """Forget every connection without counting a failure; `close_forgotten` closes the sockets.

        If this raises, the next call repeats the rest.
        """
        for connection in self._connections:
            self._unclosed.add(connection.broker.id)
        for connection in self._connections:
            if connection.stage is Stage.DISCONNECTED:
                continue
            self._completions.fail_all(connection, error, now)
            self._end(connection, error)
            connection.addresses = ()
            connection.failed_addresses.clear()
            connection.setup_deadline = float("inf")

    def close_forgotten(self, error: NetworkError) -> None:
        """Close the sockets of connections that `forget_all` forgot."""
        for node in self._unclosed:
            self._selector.close(node, error)
        self._selector.poll(0.0)
        self._unclosed.clear()

    def close_all(self, now: float) -> None:
        """Fail all requests in flight because the producer is closed; the selector closes the sockets."""
        for connection in self._connections:
            error = ConnectionFailedError("the producer was closed")
            self._count_end(connection, error)
            for sent in connection.lost():
                self._completions.failed(sent.request, connection, error, now)

    def with_remedy(self, connection: Connection, error: OttlaError) -> OttlaError:
        """Add a remedy to the error if the address is advertised, not configured, and no broker ever answered there."""
        broker = connection.broker
        configured = (broker.host, broker.port) in self._metadata.bootstrap_addresses
        if connection.answered or broker.id < 0 or configured or isinstance(error, SecurityError):
            return error
        return never_reached(connection, error)

    def _end(self, connection: Connection, error: OttlaError) -> Sequence[InFlight]:
        """Reset a connection that has ended; return its unanswered requests."""
        if connection.setup is not None:
            connection.setup.abandon()
        self._count_end(connection, error)
        return connection.lost()

    def _count_end(self, connection: Connection, error: OttlaError) -> None:
        if connection.stage not in (Stage.DISCONNECTED, Stage.RESOLVING, Stage.CONNECTING):
            self._counters.closed.add(1)
        if isinstance(error, SecurityError):
            if connection.stage is Stage.RENEWING:
                self._counters.lost_renewals.add(1)
            elif not isinstance(error, SessionExpiredError):  # the end of a session that was accepted
                self._counters.refusals.add(1)

    def _count_failure(self, connection: Connection, error: OttlaError, now: float) -> None:
        logger.debug("%s: %s: %s", self._client_id, connection.broker, error)
        explained = self.with_remedy(connection, error)
        self._log.failed(connection, explained, now)
        self._metadata.note(explained)  # it is what is known of a broker that a rebootstrap forgets
        final = isinstance(error, ProtocolMismatchError | SecurityError) or (
            isinstance(error, NameResolutionError) and error.final
        )
        connection.note_failure(error, now, final=final)
        self._fail_fatally_if_refused()

    def _fail_fatally_if_refused(self) -> None:
        """Report a fatal error to waiting callers if no server ever accepted us and all of them refuse us."""
        if self._connections.accepted:
            return
        refusal = self._connections.refusal_of_all(self._metadata.cluster.brokers.values())
        if refusal is not None:
            self._metadata.fail_fatally(refusal)

    def _warn_of_unconfirmed(self, connection: Connection, error: OttlaError, now: float) -> None:
        """Warn that records with `acks=0` may be lost.

        If their deadline has passed, the peer had enough time to serve or refuse them: the end has another reason.
        """
        unconfirmed = connection.in_flight.unconfirmed
        if unconfirmed is not None and now < unconfirmed.deadline:
            logger.warning(
                "%s: records that were sent to %s with acks=0 may be lost: %s",
                self._client_id,
                connection.broker,
                error,
            )


def _meaning(connection: Connection, error: OttlaError, now: float) -> OttlaError:
    """The error for a connection that the peer ended at this stage."""
    if type(error) is not ConnectionFailedError or connection.setup is None:
        return error
    if connection.stage is Stage.NEGOTIATING:
        return closed_before_api_versions(error)
    if connection.setup.logs_in:
        return connection.setup.end_error(
            connection.stage,
            error,
            expired=now >= connection.session.ends_at,
            unanswered=connection.awaits_responses and not connection.received_any,
            again=connection.short_lives > 0,
        )
    return closed_after_api_versions(error) if connection.in_flight and not connection.received_any else error
