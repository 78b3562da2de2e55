"""Writes of several chunks to a socket that takes one chunk a call."""

from __future__ import annotations

import socket
from collections.abc import Sequence

from ottla.interfaces import Buffer


def send_one_by_one(sock: socket.socket, chunks: Sequence[Buffer]) -> int:
    """Write chunk after chunk until the socket takes no more; return the number of bytes. Windows has no `sendmsg`.

    Raises BlockingIOError if the socket takes nothing.
    """
    written = 0
    for chunk in chunks:
        view = memoryview(chunk).cast("B")
        try:
            count = sock.send(view)
        except BlockingIOError:
            if not written:
                raise
            return written
        written += count
        if count < len(view):
            break
    return written
