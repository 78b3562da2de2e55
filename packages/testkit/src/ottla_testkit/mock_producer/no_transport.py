"""The transport plugin of a mock producer, which connects nowhere; the configuration requires one."""

from __future__ import annotations

import socket
from collections.abc import Sequence

from ottla.hookspecs import hookimpl
from ottla.interfaces import Target, Transport, TransportLayer


class NoTransport:
    """A transport that is never used."""

    def targets(self, host: str, port: int) -> Sequence[Target] | None:
        """Return no targets; a mock producer never calls this."""
        return ()

    def open(self, sock: socket.socket, host: str, port: int) -> TransportLayer:
        """Raise NotImplementedError: a mock producer has no connections."""
        raise NotImplementedError("a mock producer has no connections")


@hookimpl
def ottla_transport() -> Transport:
    """The transport named `plaintext` in the registry of a mock producer."""
    return NoTransport()
