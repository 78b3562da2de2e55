"""The transport plugin of a mock producer: it stands where the configuration wants one, and connects to nothing."""

from __future__ import annotations

import socket
from collections.abc import Sequence

from ottla.hookspecs import hookimpl
from ottla.interfaces import Target, Transport, TransportLayer


class NoTransport:
    """Never asked."""

    def targets(self, host: str, port: int) -> Sequence[Target] | None:
        """Nowhere."""
        return ()

    def open(self, sock: socket.socket, host: str, port: int) -> TransportLayer:
        """There is nothing to open."""
        raise NotImplementedError("a mock producer has no connections")


@hookimpl
def ottla_transport() -> Transport:
    """The transport named `plaintext`, wherever a mock producer looks for it."""
    return NoTransport()
