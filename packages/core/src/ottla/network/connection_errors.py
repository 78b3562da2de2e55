"""Errors for the end of a connection.

Errors of a TLS handshake come from the transport: `handshake_errors` of the package `ottla_transport_ssl` says what to
do about each. Errors of a login come from `ottla.network.authentication.login_errors`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ottla.errors import BrokersUnreachableError, ConnectionFailedError, OttlaError, SessionExpiredError
from ottla.network.connection import Connection
from ottla.network.connection_stage import Stage

TIMEOUT_HINTS: Final[Mapping[Stage, str]] = {
    Stage.CONNECTING: (
        "; a firewall, a VPN or a wrong address drops packets without a response, and a server that is not Kafka may "
        "never answer a TLS handshake"
    ),
    Stage.NEGOTIATING: "; it took the connection and has sent nothing: it may be frozen, or not be a Kafka broker",
}
"""The possible cause when a peer sends nothing until socket.connection.setup.timeout.ms has passed, by stage."""

SLOW_MECHANISM: Final = "; what it asks for, such as a password, a token or a ticket, takes too long"
"""The cause when that time passes while our own mechanism computes."""


def describe(connection: Connection, error: OttlaError) -> str:
    """An error's message, preceded by the broker's name unless it has that already."""
    broker, text = str(connection.broker), str(error)
    return text if text.startswith(broker) else f"{broker}: {text}"


def ended_unused(connection: Connection, error: OttlaError, *, since: float) -> bool:
    """Return whether the peer ended a connection without requests in flight, as brokers do with idle ones.

    A connection that never got a response must have been ready before *since*: a peer that answers ApiVersions and then
    closes the connection is failing.
    """
    return (
        connection.stage is Stage.READY
        and not connection.in_flight
        and not connection.closing
        and (connection.received_any or connection.ready_at <= since)
        and type(error) in (ConnectionFailedError, SessionExpiredError)
    )


def closed_before_api_versions(error: ConnectionFailedError) -> ConnectionFailedError:
    """The error for a peer that closed the connection without a response to our first request."""
    guess = ConnectionFailedError(
        f"{error}; it never responded: a listener that expects TLS or SASL does that (security.protocol), and so "
        "does a proxy without a broker behind it, or a broker at its max.connections or max.connections.per.ip"
    )
    guess.__cause__ = error
    return guess


def never_reached(connection: Connection, error: OttlaError) -> BrokersUnreachableError:
    """The error, with a remedy, for a broker that was never reached at the address that it advertises.

    The broker may be starting, so attempts continue.
    """
    remedy = BrokersUnreachableError(
        f"{connection.broker} was never reached at this address, which it advertises; check the broker's "
        f"advertised.listeners and the network in between; last error: {error}"
    )
    remedy.__cause__ = error
    return remedy


def closed_after_api_versions(error: ConnectionFailedError) -> ConnectionFailedError:
    """The error for a peer that answered ApiVersions and closed the connection at the next request."""
    guess = ConnectionFailedError(
        f"{error}; it responded only to ApiVersions: a listener that requires a login does that (put SASL_ before "
        "the value of security.protocol), and so does a broker that is shutting down"
    )
    guess.__cause__ = error
    return guess


def forget_frames(error: BaseException) -> None:
    """Drop the tracebacks of an error that is kept, and of its causes.

    The frames refer to the round in which the connection ended, and would keep its batches in memory until another
    connection fails.
    """
    cause: BaseException | None = error
    while cause is not None:
        cause.__traceback__ = None
        cause = cause.__cause__ or cause.__context__
