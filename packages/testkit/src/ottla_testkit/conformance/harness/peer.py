"""Who is at the other end of a layer's connection: written by the plugin's author, moved by the suite."""

from __future__ import annotations

import socket
from typing import Final, Protocol

_PIECE: Final = 65536


class Peer(Protocol):
    """The broker's half of an encryption, a proxy and the broker behind it: what the layer has to get through.

    Owns a connected socket that does not block. Nothing here waits, and a connection that breaks is no error: then it
    has `ended`.
    """

    received: bytearray
    """What the layer was given to write, as far as it has come."""
    ended: bool
    """Whether the layer's end has come, or the connection is lost."""

    def advance(self) -> None:
        """Do what can be done now: a handshake's next step, hear, say what waits to be said."""

    def write(self, data: bytes) -> None:
        """Take bytes that the layer is to read; they leave by and by, once the handshake is over."""

    def finish(self) -> None:
        """Say nothing more after these: the layer is to read 0. It goes on hearing."""


class PlainPeer:
    """Says and hears bytes as they are; one with a handshake subclasses it, and overrides `advance`."""

    def __init__(self, sock: socket.socket) -> None:
        self.received = bytearray()
        self.ended = False
        self._sock = sock
        self._unsaid = bytearray()
        self._finishing = False

    def advance(self) -> None:
        """Hear and say as much as the socket allows."""
        try:
            self._say()
            while heard := self._sock.recv(_PIECE):
                self.received += heard
            self.ended = True
        except (BlockingIOError, InterruptedError):
            pass
        except OSError:
            self.ended = True

    def write(self, data: bytes) -> None:
        """To be said by and by."""
        self._unsaid += data

    def finish(self) -> None:
        """A half-close after the last byte."""
        self._finishing = True

    def _say(self) -> None:
        try:
            while self._unsaid:
                del self._unsaid[: self._sock.send(memoryview(self._unsaid)[:_PIECE])]
        except (BlockingIOError, InterruptedError):
            return
        if self._finishing:
            self._finishing = False
            self._sock.shutdown(socket.SHUT_WR)
