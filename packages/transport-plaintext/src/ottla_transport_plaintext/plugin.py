"""Unchanged bytes over a TCP socket.

This is the smallest possible transport, and an example for others: a `Transport` for each producer, a `TransportLayer`
for each connection, and one hook that returns the transport.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Sequence
from typing import Final

from ottla.hookspecs import hookimpl
from ottla.interfaces import Buffer, Interest, PluginConfig, Target, Transport, TransportLayer

MAX_CHUNKS: Final = 1024
"""As many buffers as Linux takes in one call (IOV_MAX)."""


class PlaintextTransport:
    """Opens connections without encryption."""

    def targets(self, host: str, port: int) -> Sequence[Target] | None:
        """None: names are resolved as usual."""
        return None

    def open(self, sock: socket.socket, host: str, port: int) -> TransportLayer:
        """A layer over the connected socket."""
        return PlaintextLayer(sock)


class PlaintextLayer:
    """One connection. Takes nothing ahead of the socket, so there is never anything to flush or to wait for."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock

    def handshake(self) -> bool:
        """Return True: there is no handshake."""
        return True

    def write(self, chunks: Sequence[Buffer]) -> int:
        """Write as much as the socket takes, in one gathered call; return the number of bytes."""
        try:
            return self._sock.sendmsg(chunks[:MAX_CHUNKS])
        except (BlockingIOError, InterruptedError):
            return 0

    def flush(self) -> bool:
        """Return True: no bytes are held back."""
        return True

    def read_into(self, buffer: memoryview) -> int | None:
        """Read into *buffer* what the socket has now; return the number of bytes, 0 after the end, None for nothing."""
        try:
            return self._sock.recv_into(buffer)
        except (BlockingIOError, InterruptedError):
            return None

    def interest(self) -> Interest:
        """Return no events: the layer waits for none of its own."""
        return Interest.NONE

    def may_read(self) -> bool:
        """Return False: no bytes are held here."""
        return False

    def close(self) -> None:
        """Notify the peer, then close."""
        with contextlib.suppress(OSError):  # the peer may be gone already
            self._sock.shutdown(socket.SHUT_RDWR)
        self._sock.close()


@hookimpl
def ottla_transport(config: PluginConfig, inner: Transport | None) -> Transport:
    """The transport named `plaintext`."""
    return PlaintextTransport()
