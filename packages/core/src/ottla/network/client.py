"""Requests to brokers: the connection for each request, and the rounds of I/O that send and complete requests.

The client passes the events of each poll to its parts, and calls each request's `on_complete` once. A `Selectable`
moves the bytes. The current time is passed in; only after a wait is the clock read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from random import Random, SystemRandom
from typing import Any, Final

from ottla.errors import NetworkError, UnsupportedVersionError
from ottla.metrics import Counters
from ottla.network.api_versions import Features
from ottla.network.authentication import Authentication
from ottla.network.backoff import Backoff
from ottla.network.client_context import ClientContext
from ottla.network.completed_requests import CompletedRequests
from ottla.network.connection_closer import ConnectionCloser
from ottla.network.connection_log import ConnectionLog
from ottla.network.connection_opener import ConnectionOpener
from ottla.network.connection_stage import DISCONNECTED, READY
from ottla.network.connection_timeouts import ConnectionTimeouts
from ottla.network.connections import Connections
from ottla.network.metadata import Metadata
from ottla.network.metadata_updater import MetadataUpdater
from ottla.network.obstacles import Obstacles
from ottla.network.request import Request
from ottla.network.request_writer import RequestWriter, version_for
from ottla.network.response_reader import ResponseReader
from ottla.network.selector_interface import Selectable
from ottla.network.throttling import ThrottledBrokers
from ottla.protocol import Message

MAX_POLLS: Final = 100
"""Brokers that answer faster than `NetworkClient.read_responses` reads must not keep the rest of a round waiting."""


class NetworkClient:
    """Sends requests over the connections of one producer. For the I/O thread."""

    def __init__(
        self,
        *,
        selector: Selectable,
        metadata: Metadata,
        client_id: str,
        max_in_flight: int,
        request_timeout: float,
        max_idle: float = float("inf"),
        reconnect_backoff: Backoff,
        setup_backoff: Backoff,
        authentication: Authentication | None = None,
        canonical_bootstrap: bool = False,
        rebootstraps: bool = True,
        rebootstrap_trigger: float = 300.0,
        counters: Counters | None = None,
        chance: Random | None = None,
        clock: Callable[[], float],
    ) -> None:
        counters = counters or Counters()
        context = ClientContext(
            selector=selector,
            metadata=metadata,
            connections=Connections(max_in_flight=max_in_flight, max_idle=max_idle, chance=chance or SystemRandom()),
            completions=CompletedRequests(client_id=client_id),
            throttled=ThrottledBrokers(counters=counters, client_id=client_id),
            log=ConnectionLog(client_id=client_id),
            counters=counters,
            client_id=client_id,
            request_timeout=request_timeout,
        )
        self._selector, self._metadata, self._clock, self._counters = selector, metadata, clock, counters
        self._connections, self._completions = context.connections, context.completions
        self.oldest_sent_at = self._connections.oldest_sent_at
        self._log, self._throttled = context.log, context.throttled
        self._writer = RequestWriter(
            selector=selector, counters=counters, client_id=client_id, request_timeout=request_timeout
        )
        self._closer = ConnectionCloser(context, reconnect_backoff=reconnect_backoff)
        self._metadata_updater = MetadataUpdater(
            context,
            closer=self._closer,
            rebootstraps=rebootstraps,
            rebootstrap_trigger=rebootstrap_trigger,
            backoff=reconnect_backoff,
        )
        self._opener = ConnectionOpener(
            context,
            writer=self._writer,
            closer=self._closer,
            metadata_updater=self._metadata_updater,
            authentication=authentication,
            setup_backoff=setup_backoff,
            canonical_bootstrap=canonical_bootstrap,
        )
        self._takes_records_unchecked = self._opener.cluster_check.takes_records
        self.offered: Set[int] = self._opener.offered
        """The keys of the APIs that any server has offered so far."""
        self.forget_features: Callable[[], None] = self._opener.forget_features
        """Forget the features of a cluster that may have been set up again: the new ones have smaller epochs."""
        self.obstacles = Obstacles(context, self._metadata_updater, self._closer.with_remedy)
        self._reader = ResponseReader(context, writer=self._writer, opener=self._opener, closer=self._closer)
        self._timeouts = ConnectionTimeouts(context, closer=self._closer)

    @property
    def features(self) -> Features:
        """The cluster's finalized features, from ApiVersions responses."""
        return self._opener.features

    # Brokers for requests

    def ready(self, node: int, now: float, *, for_records: bool = False, checked: bool = False) -> bool:
        """Return whether a broker takes a request now, one with records if *for_records*; connects if necessary.

        If *checked*, it has said that it belongs to the cluster that metadata is from. False for all brokers while a
        metadata update is due: it goes first.
        """
        broker = self._metadata.cluster.brokers.get(node)
        if broker is None:
            return False
        connection = self._connections.of(broker)
        if connection.broker is not broker:
            if connection.broker == broker:
                connection.broker = broker  # of newer metadata, so that from now on identities are equal
            else:  # a leader hint has named its new address
                self._closer.close_gone(now)
                connection = self._connections.of(broker)
        takes = self._opener.takes(connection, now)
        if connection.unchecked and (checked or (for_records and not self._takes_records_unchecked(connection))):
            return False
        return takes and not self._metadata_updater.due(now)

    def takes_records(self, node: int, now: float) -> bool:
        """Return what `ready` does for records, but without any effect: False may be wrong."""
        connection = self._connections.get(node)
        return (
            connection is not None
            and connection.broker is self._metadata.cluster.brokers.get(node)
            and connection.may_send(now)
            and not (connection.unchecked and not self._takes_records_unchecked(connection))
            and now < connection.session.renew_at
            and not self._metadata_updater.due(now)
        )

    def ready_at(self, node: int, now: float) -> float:
        """The time at which a broker may become ready without any event; infinity: only an event makes it ready."""
        connection = self._connections.get(node)
        if connection is None:
            return now
        at = connection.retry_at if connection.stage is DISCONNECTED else connection.throttled_until
        return at if at > now else float("inf")

    def least_loaded(self, now: float, *, metadata_first: bool = True, doubted: int | None = None) -> int | None:
        """The node id of the least busy broker that takes a request now, or None if no broker does. Never blocks.

        If the best broker has no connection, this begins to connect to it. With *metadata_first*, None as well while a
        metadata update is due. The broker *doubted* is chosen only if no other one can be reached.
        """
        connection = self._connections.least_loaded(self._metadata.cluster.brokers.values(), now, doubted=doubted)
        if connection is None:
            return None
        takes = self._opener.takes(connection, now)
        return connection.broker.id if takes and not (metadata_first and self._metadata_updater.due(now)) else None

    def offering(self, api_key: int, now: float) -> Sequence[int] | None:
        """The brokers that take requests now and offer those of an API, the least busy first, without any effect.

        Empty if those that take requests do not offer it; None if no broker takes requests.
        """
        if self._metadata_updater.due(now):
            return None
        brokers = self._metadata.cluster.brokers
        takes = [
            connection
            for connection in self._connections
            if brokers.get(connection.broker.id) == connection.broker
            and connection.may_send(now)
            and now < connection.session.renew_at
        ]
        offering = [connection for connection in takes if api_key in connection.versions]
        offering.sort(key=lambda connection: len(connection.in_flight))
        return [connection.broker.id for connection in offering] if takes else None

    def next_try(self, now: float) -> float:
        """The earliest time at which another broker may be tried, or infinity. For callers that found no broker."""
        changes = (
            at for c in self._connections for at in (max(c.retry_at, c.throttled_until), c.slow_at, c.busy_until)
        )
        return min((at for at in changes if at > now), default=float("inf"))

    def supported_versions(self, node: int, message: Message[Any, Any]) -> tuple[int, int] | None:
        """The lowest and highest version of a request that a connected broker supports.

        None if the broker does not support the request, or is not connected.
        """
        connection = self._connections.get(node)
        return None if connection is None else connection.versions.get(message.key)

    def in_flight(self) -> int:
        """The number of requests that wait for a response."""
        return self._connections.in_flight()

    # Requests

    def send(self, node: int, request: Request, now: float) -> None:
        """Begin to send a request to a ready broker, without blocking; a later `poll` calls its `on_complete`.

        If the broker does not support the request, it completes with an error, too.
        """
        connection = self._connections[node]
        assert connection.may_send(now), "requests are sent to ready brokers only"
        try:
            version = version_for(connection, request)
        except UnsupportedVersionError as error:
            self._completions.failed(request, connection, error, now, written=False)
            return
        self._writer.write(connection, request, version, now)

    def poll(self, timeout: float, now: float) -> float:
        """Move bytes, waiting at most *timeout* seconds, and complete requests; return the time afterwards.

        Returns earlier when work of the client itself is due.
        """
        if not self._completions:
            if self._metadata_updater.connects_ahead:
                self._connect_ahead(now)
            # Sends that waited for this request follow before its response.
            asked = self._metadata_updater.due(now) and self._ask_for_metadata(now)
            seconds = timeout
            if seconds > 0.0:
                seconds = 0.0 if self._writer.written or asked else min(timeout, self._due_at(now) - now)
            if seconds > 0.0:
                seconds -= self._clock() - now  # minus the time of this round so far: else a linger would last longer
            self._selector.poll(seconds if seconds > 0.0 else 0.0)
            polled_at, now = now, self._clock()
            self._counters.end_window_if_due(now)
            self._handle_events(now, polled_at)
            if self._log.active:
                self._log.write(now)
            if self._throttled.log.active:
                self._throttled.log.write(now)
        self._completions.run()
        if self._metadata_updater.log.active:
            self._metadata_updater.log.write(now)
        return now

    def read_responses(self, now: float) -> None:
        """Complete all requests whose responses have arrived, without waiting; a poll reads one of each connection."""
        for _ in range(MAX_POLLS):
            only_completes = bool(self._completions)
            self.poll(0.0, now)
            if not only_completes and not self._selector.received:
                break
        self._selector.wakeup()  # these polls may have taken one, and what it was for is not done yet

    @property
    def awaits_events(self) -> bool:
        """Return whether only events, or the time, bring work: no connection is being made, or has unread bytes."""
        if self._completions or self._writer.written:
            return False
        for connection in self._connections.all:  # not `all`: each record that is awaited on an event loop asks
            if connection.stage is not READY and connection.stage is not DISCONNECTED:
                return False
        return self._selector.awaits_events

    def flush_unacknowledged(self, now: float) -> bool:
        """Send a request that expects a response to each broker with unconfirmed requests. Return False if none has.

        Called before a connection with `acks=0` is closed. The kernel discards unsent bytes when a response arrives at
        a closed socket. The response to a later request confirms that the broker has taken everything before it.
        """
        unconfirmed = [connection for connection in self._connections if connection.in_flight.unconfirmed is not None]
        for connection in unconfirmed:
            if not connection.in_flight.asked_to_confirm and self._opener.takes(connection, now):
                self._writer.ask_to_confirm(connection, now)
        return bool(unconfirmed)

    def shutdown(self, *, forked: bool = False) -> None:
        """Close every connection; requests in flight complete as lost.

        *forked*: close only the descriptors of a forked child.
        """
        if forked:
            self._selector.shutdown(forked=True)
            return
        self._closer.close_all(self._clock())
        self._completions.run_all()
        self._opener.close()
        self._selector.shutdown()

    def reset(self, error: NetworkError, now: float) -> None:
        """Drop every connection; requests in flight complete with *error*.

        Called after a round that raised: the round may have read or written data without noting it, which must not be
        matched with the next response. If this method raises, the next call repeats the rest. `close_forgotten` closes
        the sockets before the next request.
        """
        self._writer.written.clear()
        self._metadata_updater.forget_request()
        self._closer.forget_all(error, now)
        self._completions.run()

    def close_forgotten(self, error: NetworkError) -> None:
        """Close the sockets of the connections that `reset` has dropped."""
        self._closer.close_forgotten(error)

    # A round

    def _connect_ahead(self, now: float) -> None:
        """Connect to any broker if no connection is left after those to bootstrap servers.

        The first record would have to wait until there is one, to get metadata of its topic.
        """
        connected = [each.broker.id for each in self._connections.all if each.stage is not DISCONNECTED]
        if not connected:
            self.least_loaded(now)
        if not connected or max(connected) >= 0:
            self._metadata_updater.connects_ahead = False

    def _ask_for_metadata(self, now: float) -> bool:
        """Send a metadata request if a broker takes it; return whether it was sent."""
        updater = self._metadata_updater
        connection = updater.choose_connection(now)
        if connection is None or not self._opener.takes(connection, now):
            updater.postpone(now)
            return False
        self.send(connection.broker.id, updater.request(now), now)
        return True

    def _handle_events(self, now: float, polled_at: float) -> None:
        """Handle the events of a poll that started at *polled_at*. Time-outs count after all that has arrived was read.

        What was overdue only at the end of the poll is checked after the next one, which does not wait: a process that
        was stopped in a poll has read nothing that arrived meanwhile.
        """
        selector, connections = self._selector, self._connections
        if self._writer.written or selector.sent:
            self._reader.note_written(now)
        if selector.received:
            self._reader.read(now)
            if self._closer.finishing:
                self._closer.close_gone(now)
        if selector.disconnected:
            for node, error in selector.disconnected.items():
                self._closer.disconnected(connections[node], error, now)
            self._closer.close_gone(now)
        for node in selector.connected:
            self._opener.connected(connections[node], now)
        self._opener.advance(now)
        self._timeouts.close_overdue(selector.received, now, polled_at)

    def _due_at(self, now: float) -> float:
        """The time at which the client itself has work to do."""
        due, metadata_at = self._timeouts.next_at(), self._metadata_updater.due_at(now)
        if metadata_at < due:
            due = metadata_at
        for log in (self._log, self._throttled.log, self._metadata_updater.log):
            if log.active:
                due = min(due, log.due_at())
        return due
