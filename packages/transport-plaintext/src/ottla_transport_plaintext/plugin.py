"""Unchanged bytes over a TCP socket.

This is the smallest possible transport, and an example for others: a `Transport` for each producer, a `TransportLayer`
for each connection, and one hook that returns the transport.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence

from ottla.hookspecs import hookimpl
from ottla.interfaces import PluginConfig, Target, Transport, TransportLayer
from ottla.plugins.transports import SocketLayer


class PlaintextTransport:
    """Opens connections without encryption."""

    def targets(self, host: str, port: int) -> Sequence[Target] | None:
        """Return None: names are resolved as usual."""
        return None

    def open(self, sock: socket.socket, host: str, port: int) -> TransportLayer:
        """A layer over the connected socket."""
        return SocketLayer(sock)

    def open_over(self, lower: TransportLayer, host: str, port: int) -> TransportLayer:
        """The other layer itself: there is nothing to add."""
        return lower


@hookimpl
def ottla_transport(config: PluginConfig, inner: Transport | None) -> Transport:
    """The transport named `plaintext`."""
    return PlaintextTransport()
