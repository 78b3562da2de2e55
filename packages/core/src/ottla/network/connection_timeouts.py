"""Time-outs of connections: requests in flight, setup, and idle connections."""

from __future__ import annotations

from collections.abc import Iterable

from ottla.errors import ConnectionRetiredError, RequestTimeoutError
from ottla.network.address_failures import shown
from ottla.network.client_context import ClientContext
from ottla.network.connection import Connection
from ottla.network.connection_closer import ConnectionCloser
from ottla.network.connection_errors import SLOW_MECHANISM, TIMEOUT_HINTS
from ottla.network.connection_stage import Stage


class ConnectionTimeouts:
    """Closes connections that timed out or that were idle for too long."""

    def __init__(self, context: ClientContext, *, closer: ConnectionCloser) -> None:
        self._connections = context.connections
        self._selector = context.selector
        self._closer = closer
        self._request_timeout = context.request_timeout

    def next_at(self) -> float:
        """The time of the next time-out."""
        at = float("inf")
        for connection in self._connections.all:  # without min and a generator: each round asks
            deadline = connection.next_deadline()
            if deadline < at:
                at = deadline
        return at

    def close_overdue(self, received: Iterable[tuple[int, object]], now: float, polled_at: float) -> None:
        """Close idle connections, and those that were overdue when the poll started, at *polled_at*.

        Those that have just *received* a response stay: more may have arrived, since a poll returns one for each.
        """
        overdue = [connection for connection in self._connections.all if connection.next_deadline() <= now]
        if not overdue:
            return
        answered = {node for node, _frame in received}
        idle: list[Connection] = []
        for connection in overdue:
            if connection.closing or connection.broker.id in answered:
                continue
            if connection.stage is Stage.READY and not connection.in_flight and not connection.in_flight.writing:
                idle.append(connection)
            elif connection.stage is Stage.RESOLVING:
                self._closer.failed(connection, self._error(connection, now), now)  # there is nothing to close yet
            elif connection.address_deadline <= polled_at < connection.setup_deadline:
                self._try_next_address(connection)
            elif connection.next_deadline() <= polled_at:
                self._closer.close(connection, self._error(connection, now))
                if connection.stage is Stage.READY and connection.in_flight:
                    self._retire_silent(connection, since=connection.in_flight[0].sent_at)
        for connection in sorted(idle, key=lambda each: each.idle_at):
            self._retire(connection)

    def _try_next_address(self, connection: Connection) -> None:
        """Close a connection whose peer is silent, since the name has another address.

        Often the address is the IPv6 one of a host that is reached by IPv4 only, and no answer will ever come.
        """
        connection.address_deadline = float("inf")
        if self._selector.established(connection.broker.id):  # its handshake may take longer
            return
        assert connection.address is not None, "it is being connected to"
        connection.silent.add(connection.address.target)
        self._closer.close(
            connection,
            RequestTimeoutError(
                f"{shown(connection.address)}, an address of {connection.broker}, did not accept a connection in time: "
                "the next address of the name is tried, and from now on this one last; check what drops the packets, "
                "or remove the address from the name"
            ),
        )

    def _retire(self, connection: Connection) -> None:
        """Close a connection that had nothing to do for `connections.max.idle.ms`."""
        # Requests with acks=0 were written that long ago, and the broker kept the connection: nothing is lost.
        connection.in_flight.unconfirmed = None
        reason = ConnectionRetiredError(f"{connection.broker} had no request for connections.max.idle.ms")
        self._closer.close(connection, reason)

    def _retire_silent(self, dead: Connection, *, since: float) -> None:
        """Close idle connections on which nothing came either *since* a request was sent that got no answer.

        A gateway or firewall that forgets connections forgets all that are idle, without a word. The next request would
        choose one of these, and wait as long again; a new connection costs next to nothing.
        """
        for connection in self._connections.all:
            if connection.stage is not Stage.READY or connection.closing or connection.used_at > since:
                continue
            flight = connection.in_flight
            if not flight and not flight.writing and flight.unconfirmed is None:
                reason = ConnectionRetiredError(
                    f"{connection.broker} was idle while {dead.broker} did not answer: a new connection is safer"
                )
                self._closer.close(connection, reason)

    def _error(self, connection: Connection, now: float) -> RequestTimeoutError:
        if connection.in_flight.writing:
            return self._unwritten(connection)
        if not connection.setting_up or now < connection.setup_deadline:
            name = connection.in_flight[0].request.message.name
            article = "an" if name.startswith(("A", "E", "I", "O")) else "a"
            waited = f"request.timeout.ms ({self._request_timeout:g} s)"
            return RequestTimeoutError(f"{connection.broker} did not answer {article} {name} request within {waited}")
        computing = connection.setup is not None and connection.setup.waits_for
        hint = SLOW_MECHANISM if computing else TIMEOUT_HINTS.get(connection.stage, "")
        return RequestTimeoutError(
            f"the connection to {connection.broker} was not ready within {_setup_time(connection)}{hint}"
        )

    def _unwritten(self, connection: Connection) -> RequestTimeoutError:
        if connection.setting_up:
            waited = _setup_time(connection)
        else:
            waited = f"request.timeout.ms ({self._request_timeout:g} s)"
        return RequestTimeoutError(
            f"{connection.broker} did not read a whole request within {waited}: it has stopped reading, or the "
            "transport keeps bytes that it should pass on to the socket"
        )


def _setup_time(connection: Connection) -> str:
    return f"socket.connection.setup.timeout.ms (the client was still {connection.doing})"
