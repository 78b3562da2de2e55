"""Completion of requests that are written, and of those whose response has arrived; throttle times of responses."""

from __future__ import annotations

from typing import Any

from ottla.errors import ConnectionFailedError, ProtocolError
from ottla.network.client_context import ClientContext
from ottla.network.connection import Connection
from ottla.network.connection_closer import ConnectionCloser
from ottla.network.connection_opener import ConnectionOpener
from ottla.network.connection_stage import RENEWING
from ottla.network.in_flight_requests import InFlight
from ottla.network.request_writer import RequestWriter


class ResponseReader:
    """Handles the requests that a poll has written, and the responses that it has received."""

    def __init__(
        self,
        context: ClientContext,
        *,
        writer: RequestWriter,
        opener: ConnectionOpener,
        closer: ConnectionCloser,
    ) -> None:
        self._selector = context.selector
        self._connections = context.connections
        self._writer = writer
        self._opener = opener
        self._closer = closer
        self._throttled = context.throttled
        self._completions = context.completions
        self._log = context.log
        self._counters = context.counters

    def note_written(self, now: float) -> None:
        """Handle requests that are completely written. One that expects no response (`acks=0`) is completed here."""
        written, self._writer.written = self._writer.written, []
        for node in (*written, *self._selector.sent):
            connection = self._connections[node]
            connection.use(now)
            sent = connection.in_flight.written()
            if sent is None:
                continue
            if sent.setup:
                self._opener.written(connection, now)
                continue
            self._note_working(connection, now)  # a listener that requires a login would have closed the connection
            connection.in_flight.unconfirmed = sent
            self._completions.written(sent.request, connection, now)

    def read(self, now: float) -> None:
        """Handle the responses that have arrived; an unreadable one closes its connection."""
        for node, frame in self._selector.received:
            connection = self._connections[node]
            connection.use(now)
            self._counters.node(node).responses.add(len(frame) + 4)
            try:
                sent, response = connection.in_flight.pair(frame)
                if sent.setup:
                    self._opener.answered(connection, response, now)
                else:
                    self._complete(connection, sent, response, now)
            except ProtocolError as cause:
                error = ConnectionFailedError(f"{connection.broker} sent an unreadable response: {cause}")
                error.__cause__ = cause
                self._closer.close(connection, error)
            if connection.reason is not None and not (connection.closing or connection.in_flight):
                self._closer.close(connection, connection.reason)

    def _complete(self, connection: Connection, sent: InFlight, response: Any, now: float) -> None:
        self._note_working(connection, now)
        throttle_ms = getattr(response, "throttle_time_ms", 0)
        self._throttled.throttle(connection, sent.request.message, sent.version, throttle_ms, now)
        if connection.stage is RENEWING:
            self._opener.begin_renewal_time(connection, now)
        self._completions.answered(sent.request, connection, response, now)

    def _note_working(self, connection: Connection, now: float) -> None:
        """Reset the failures of a broker that answers, or that takes requests which expect no response."""
        if connection.note_working():
            self._log.answered(connection, now)
