"""A transport's layer over another layer, or on the socket below it."""

from __future__ import annotations

from ottla.errors import InvalidPluginError
from ottla.errors.quoting import class_name
from ottla.interfaces import SupportsOpenOver, Transport, TransportLayer, supports
from ottla.plugins.transports.socket_layer import SocketLayer


def open_layer(transport: Transport, lower: TransportLayer, host: str, port: int) -> TransportLayer:
    """Return the transport's layer for this host and port, with *lower* for its bytes.

    If *lower* is a `SocketLayer`, the transport gets its socket, so no call passes through a layer that does nothing.
    Raises InvalidPluginError if *lower* is any other layer, and the transport lacks `SupportsOpenOver`.
    """
    if type(lower) is SocketLayer:
        return transport.open(lower.sock, host, port)
    if supports(transport, SupportsOpenOver):
        return transport.open_over(lower, host, port)
    raise InvalidPluginError(
        f"{class_name(transport)} takes only a socket, and here it gets the bytes of another layer; its package must "
        "implement open_over, see ottla.interfaces.SupportsOpenOver"
    )
