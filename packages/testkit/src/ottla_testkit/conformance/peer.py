"""The other end of a connection: the author's half of the handshake, on a thread, then a stream in the test's hands."""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import threading
from collections.abc import Callable
from typing import Final, TypeAlias

Serve: TypeAlias = Callable[[socket.socket], socket.socket]
"""The server's half of a handshake: gets a connected socket that waits, and returns the one (mostly the same, or an
`ssl.SSLSocket` over it) whose bytes are the broker's. OSError when the connection fails."""

_NOT_NOW: Final = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class Peer:
    """`step` says and hears what can be said and heard now; `got` is what was heard, `unsaid` what was not sent yet."""

    def __init__(self, sock: socket.socket, serve: Serve, *, patience: float) -> None:
        self._sock = sock
        self._sock.settimeout(patience)
        self._stream: socket.socket | None = None
        self._error: Exception | None = None
        self.unsaid = bytearray()
        self.got = bytearray()
        self.ended = False
        self._thread = threading.Thread(target=self._shake, args=(serve,), name="conformance-peer", daemon=True)
        self._thread.start()

    @property
    def ready(self) -> bool:
        """Whether its half of the handshake is done."""
        if self._thread.is_alive():
            return False
        if self._error is not None and not isinstance(self._error, OSError):
            raise AssertionError(f"the test's own peer failed: {self._error!r}") from self._error
        return self._stream is not None

    def say(self, data: bytes) -> None:
        """To be sent as `step` is called."""
        self.unsaid += data

    def step(self) -> int:
        """Go on, and say how many bytes that moved."""
        if not self.ready or self._stream is None or self.ended:
            return 0
        return self._send(self._stream) + self._receive(self._stream)

    def breathe(self, seconds: float) -> None:
        """Leave the processor to its half of the handshake, or to whoever wants it."""
        self._thread.join(seconds)
        if not self._thread.is_alive():
            select.select([], [], [], seconds)

    def hang_up(self) -> None:
        """Close in the usual way."""
        self.ended = True
        stream = self._stream or self._sock
        with contextlib.suppress(OSError):
            stream.shutdown(socket.SHUT_RDWR)
        stream.close()

    def close(self) -> None:
        """Wait for the thread, whose connection is cut already, and close what is left."""
        self._thread.join()
        if self._stream is not None:
            self._stream.close()
        self._sock.close()

    def _shake(self, serve: Serve) -> None:
        try:
            stream = serve(self._sock)
            stream.setblocking(False)
        except Exception as error:
            self._error = error
            return
        self._stream = stream

    def _send(self, stream: socket.socket) -> int:
        if not self.unsaid:
            return 0
        try:
            sent = stream.send(self.unsaid)
        except _NOT_NOW:
            return 0
        except OSError:
            self.ended = True
            return 0
        del self.unsaid[:sent]
        return sent

    def _receive(self, stream: socket.socket) -> int:
        try:
            data = stream.recv(1 << 16)
        except _NOT_NOW:
            return 0
        except OSError:
            data = b""
        self.ended = not data
        self.got += data
        return len(data)
