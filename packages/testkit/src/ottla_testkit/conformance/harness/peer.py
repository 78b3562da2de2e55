"""The peer of a layer's connection: implemented by the plugin's author, driven by the suite."""

from __future__ import annotations

import socket
from typing import Final, Protocol

_PIECE: Final = 65536


class Peer(Protocol):
    """The remote end of a transport under test: a TLS server, or a proxy with the broker behind it.

    Owns a connected non-blocking socket. No method waits. A lost connection is no error: `ended` is then true.
    """

    received: bytearray
    """Bytes that the layer was given to write, as far as they have arrived."""
    ended: bool
    """Whether the layer has closed its side, or the connection is lost."""

    def advance(self) -> None:
        """Do all that is possible now: the next step of a handshake, read, and write pending bytes."""

    def write(self, data: bytes) -> None:
        """Queue bytes that the layer has to read; `advance` sends them after the handshake, as the socket allows."""

    def finish(self) -> None:
        """Send nothing after the bytes so far: the layer has to read 0. Reading continues."""


class PlainPeer:
    """Peer that sends and receives bytes unchanged; for a handshake, subclass it and override `advance`."""

    def __init__(self, sock: socket.socket) -> None:
        self.received = bytearray()
        self.ended = False
        self._sock = sock
        self._unsent = bytearray()
        self._finishing = False

    def advance(self) -> None:
        """Read and write as much as the socket allows."""
        try:
            self._send()
            while data := self._sock.recv(_PIECE):
                self.received += data
            self.ended = True
        except (BlockingIOError, InterruptedError):
            pass
        except OSError:
            self.ended = True

    def write(self, data: bytes) -> None:
        """Queue bytes; `advance` sends them as the socket allows."""
        self._unsent += data

    def finish(self) -> None:
        """Half-close after the last byte."""
        self._finishing = True

    def _send(self) -> None:
        try:
            while self._unsent:
                send_part(self._sock, self._unsent, maximum=_PIECE)
        except (BlockingIOError, InterruptedError):
            return
        if self._finishing:
            self._finishing = False
            self._sock.shutdown(socket.SHUT_WR)


def send_part(sock: socket.socket, unsent: bytearray, *, maximum: int) -> None:
    """Send up to *maximum* bytes, and remove those that the socket takes."""
    # PyPy frees no view by itself before a collection, and until then the bytearray keeps its size.
    with memoryview(unsent) as whole, whole[:maximum] as part:
        taken = sock.send(part)
    del unsent[:taken]
