"""Unchanged bytes over a socket: the layer below all others, and the whole of a connection without encryption."""

from __future__ import annotations

import contextlib
import socket
import sys
from collections.abc import Sequence
from typing import Final

from ottla.interfaces import Buffer, Interest
from ottla.plugins.transports.sequential_write import send_one_by_one

MAX_CHUNKS: Final = 1024
"""As many buffers as Linux and macOS take in one call (IOV_MAX)."""


class SocketLayer:
    """One connection. It takes nothing ahead of the socket, so there is never anything to flush or to wait for."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock

    def handshake(self) -> bool:
        """Return True: there is no handshake."""
        return True

    def write(self, chunks: Sequence[Buffer]) -> int:
        """Write as much as the socket takes, in one gathered call; return the number of bytes."""
        try:
            if sys.platform == "win32":
                return send_one_by_one(self.sock, chunks)
            return self.sock.sendmsg(chunks[:MAX_CHUNKS])
        except (BlockingIOError, InterruptedError):
            return 0

    def flush(self) -> bool:
        """Return True: no bytes are held back."""
        return True

    def read_into(self, buffer: memoryview) -> int | None:
        """Read into *buffer* what the socket has now; return the number of bytes, 0 after the end, None for nothing."""
        try:
            return self.sock.recv_into(buffer)
        except (BlockingIOError, InterruptedError):
            return None

    def interest(self) -> Interest:
        """Return no events: the layer itself waits for none."""
        return Interest.NONE

    def may_read(self) -> bool:
        """Return False: no bytes are held here."""
        return False

    def close(self) -> None:
        """Notify the peer, then close."""
        with contextlib.suppress(OSError):  # the peer may be gone already
            self.sock.shutdown(socket.SHUT_RDWR)
        self.sock.close()
