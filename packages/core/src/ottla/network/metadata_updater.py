"""Metadata updates: which broker to ask and when, and when to rebootstrap.

The client manages the connections; `Metadata` decides what is requested.
"""

from __future__ import annotations

from typing import Final

from ottla.errors import (
    BrokerError,
    ConnectionRetiredError,
    ErrorCode,
    NetworkError,
    OttlaError,
    UnsupportedVersionError,
)
from ottla.errors.robust_logger import robust_logger
from ottla.network.backoff import Backoff, RetrySchedule
from ottla.network.bootstrap_connection import BootstrapConnection
from ottla.network.client_context import ClientContext
from ottla.network.connection import Connection
from ottla.network.connection_closer import ConnectionCloser
from ottla.network.connection_stage import Stage
from ottla.network.metadata import RequestedTopics
from ottla.network.metadata_log import MetadataLog
from ottla.network.metadata_messages import metadata_request, read_response
from ottla.network.request import Completion, Request

logger = robust_logger(__name__)

_RARE: Final = 10.0
"""Seconds. If brokers ask for a rebootstrap less often, the backoff starts again."""

_LEFT_AFTER: Final = 3.0
"""Seconds for which a connection to the only bootstrap server is kept although its metadata cannot be used."""

_QUOTA_AGE: Final = 1.0
"""Seconds after which the error that names a quota is replaced by one that says how long the quota lasts by now."""


class MetadataUpdater:
    """The metadata requests of one producer, at most one at a time; the client sends them.

    `reached`: a broker was ever ready at the address that it advertises. `connects_ahead`: brokers are known now,
    and nothing asks for a connection to one of them.
    """

    def __init__(
        self,
        context: ClientContext,
        *,
        closer: ConnectionCloser,
        rebootstraps: bool,
        rebootstrap_trigger: float,
        backoff: Backoff,
    ) -> None:
        self._metadata = context.metadata
        self._connections = context.connections
        self._metadata.setup = self._connections.setup
        self._throttled = context.throttled
        self._bootstrap_connection = BootstrapConnection(context)
        self._quota: OttlaError | None = None  # of a broker that takes no request because of it, and since when
        self._quota_at = float("-inf")
        self._closer = closer
        self._client_id = context.client_id
        self._rebootstraps = rebootstraps
        self._rebootstrap_trigger = rebootstrap_trigger
        self._in_flight = False
        self._rebootstrapped_at = float("-inf")
        self._rebootstrap_schedule = RetrySchedule(backoff)  # counts losses of all brokers since one was ready
        # Counts the times that brokers asked for a rebootstrap, each soon after the one before.
        self._demand_schedule = RetrySchedule(backoff)
        self.reached = self.connects_ahead = False
        self.log = MetadataLog(client_id=context.client_id)

    def note_ready(self, connection: Connection) -> None:
        """Note that a broker takes requests; at its advertised address unless it is a bootstrap server."""
        if connection.broker.id >= 0:
            self.reached = True
            if connection.short_lives < 2:  # else it was ready before, and lost again immediately
                self._rebootstrap_schedule.reset()

    def forget_request(self) -> None:
        """Forget the lost request in flight, if there is one; request metadata again."""
        self._in_flight = False
        self._metadata.request_update()

    def due(self, now: float) -> bool:
        """Return whether a metadata request has to be sent now, before any other request."""
        return not self._in_flight and now >= self._metadata.due_at()

    def due_at(self, now: float) -> float:
        """The time of the next metadata request, without further events."""
        if self._in_flight:
            return float("inf")
        metadata_at = self._metadata.due_at()
        if metadata_at > now:
            return metadata_at
        # No connection took the request. A throttled connection takes it after its pause, a lost one is retried after
        # its backoff. While a connection is being set up, no new one is made, unless its broker does not answer.
        connections = self._connections
        making = any(connection.setting_up and connection.slow_at > now for connection in connections)
        changes = [
            max(connection.retry_at, connection.throttled_until)
            for connection in connections
            if not making or connection.stage is Stage.READY
        ]
        changes += [connection.slow_at for connection in connections]
        return min((at for at in [*changes, self._rebootstrap_schedule.next_at] if at > now), default=float("inf"))

    def choose_connection(self, now: float) -> Connection | None:
        """The connection for a request that is due; rebootstraps if every broker was lost."""
        self._rebootstrap_if_lost(now)
        return self._connections.least_loaded(self._metadata.cluster.brokers.values(), now)

    def postpone(self, now: float) -> None:
        """Note that a request is due and that no connection takes it, perhaps because of a quota."""
        noted = self._quota
        if self._metadata.last_error in (None, noted) and now >= self._quota_at + _QUOTA_AGE:
            errors = (self._throttled.error(connection, now) for connection in self._connections)
            self._quota, self._quota_at = next((error for error in errors if error is not None), None), now
            self._metadata.last_error = self._quota  # None once the quota is over: something else is in the way
        self.log.wanted(self._metadata.last_error, now, setup=self._connections.setup)

    def request(self, now: float) -> Request:
        """The request to send now."""
        wanted = self._metadata.begin(now)
        self._in_flight = True
        return metadata_request(wanted.topics, on_complete=lambda completion: self._complete(completion, wanted))

    def _rebootstrap_if_lost(self, now: float) -> None:
        """Rebootstrap if no known broker is left, or if none has sent metadata for too long."""
        cluster = self._metadata.cluster
        if cluster.bootstrap or not self._rebootstraps:
            return
        # Brokers that the bootstrap servers name are tried first, each after its own backoff. The rebootstrap has a
        # backoff of its own: each response may name other brokers that have no address or cannot be reached.
        tried = self._rebootstrap_schedule.allows(now) and self._connections.none_left(
            cluster.brokers.values(), since=self._rebootstrapped_at
        )
        if tried:
            why = "every known broker was lost or cannot be reached"
        elif self._metadata.seconds_without_update(now) >= self._rebootstrap_trigger:
            why = f"no metadata within metadata.recovery.rebootstrap.trigger.ms ({self._rebootstrap_trigger:g} s)"
        else:
            return
        self._rebootstrap(why, now, known=self._rebootstrap_schedule.counted() > 0)

    def _rebootstrap_as_asked(self, now: float) -> None:
        """Rebootstrap because a broker requires it, with a backoff: each time causes a login at a bootstrap server."""
        pace = self._demand_schedule
        if not pace.allows(now):
            return  # metadata is requested again after its own backoff
        if now - pace.next_at > _RARE:
            pace.reset()
        pace.wait(now)
        pace.count()
        self._rebootstrap("a broker returned REBOOTSTRAP_REQUIRED", now, known=pace.counted() > 1)

    def _rebootstrap(self, why: str, now: float, *, known: bool) -> None:
        # Warn once per outage: if only bootstrap servers can be reached, this happens every second.
        if known:
            logger.debug("%s: %s; asking bootstrap.servers again", self._client_id, why)
        else:
            logger.warning("%s: %s; asking bootstrap.servers again", self._client_id, why)
        self._rebootstrapped_at = now
        self._rebootstrap_schedule.wait(now)
        self._rebootstrap_schedule.count()
        self._metadata.rebootstrap(now)
        self._closer.close_gone(now)

    def _leave_bootstrap_server(self, node: int, error: OttlaError, now: float) -> None:
        """Close a connection to a bootstrap server to which the next request would go again.

        A single server may be starting, or be a load balancer behind which the next connection leads to another one.
        """
        if node >= 0:
            return
        connection = self._connections[node]
        why = f"{connection.broker} sends no usable metadata: {error}"
        if isinstance(error, UnsupportedVersionError):  # it offers other versions to a new connection only
            failure = NetworkError(why)
            failure.__cause__ = error
            self._closer.close(connection, failure)
        elif len(self._metadata.cluster.brokers) > 1 or now - connection.opened_at >= _LEFT_AFTER:
            # It is not a failure of the connection, whose log would have each error a second time.
            self._closer.close(connection, ConnectionRetiredError(why))

    def _complete(self, completion: Completion, wanted: RequestedTopics) -> None:
        self._in_flight = False
        if completion.error is not None:
            self._metadata.fail(completion.error, completion.now)
            if isinstance(completion.error, UnsupportedVersionError):
                self._leave_bootstrap_server(completion.node, completion.error, completion.now)
            return
        try:
            response = read_response(completion.response, wanted.topics)
        except OttlaError as error:
            self._metadata.fail(error, completion.now)
            self.log.failed(error, completion.now)
            self._leave_bootstrap_server(completion.node, error, completion.now)
            refused = isinstance(error, BrokerError) and error.code is ErrorCode.REBOOTSTRAP_REQUIRED
            if refused and self._rebootstraps and not self._metadata.cluster.bootstrap:
                self._rebootstrap_as_asked(completion.now)
            return
        self.log.note_cluster(response.cluster_id)
        connection = self._connections[completion.node]
        # If a topic was wanted, its record follows, and connects to the leader.
        self.connects_ahead = self._metadata.cluster.bootstrap and not wanted.topics
        if self._metadata.update(
            response.brokers,
            response.topics,
            completion.now,
            partial=wanted.partial,
            cluster_id=response.cluster_id,
            connected_at=connection.opened_at,
        ):
            self.log.note_other_topics(response.topics)
        self.log.answered(response.topics, completion.now)
        self.log.note_brokers(response.brokers)
        self.log.left_out(response.left_out, completion.now)
        if self._bootstrap_connection.keep(connection, completion.now):
            self.note_ready(connection)
        self._closer.close_gone(completion.now)
