"""The connection between a layer and its peer: it moves bytes when and as far as the test says, and can be lost."""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Callable
from typing import Final

Pair = tuple[socket.socket, socket.socket]

PIECE: Final = 65536
SMALL: Final = 16384
_RESET_AT_CLOSE: Final = struct.pack("ii", 1, 0)


class Wire:
    """Four sockets: `layer_end` and `peer` are for the two sides, the other two are the wire's own."""

    def __init__(self, make_pair: Callable[[], Pair], *, large_buffers: bool) -> None:
        self.layer_end, self._near = make_pair()
        self.peer_end, self._far = make_pair()
        for sock in self._sockets:
            sock.setblocking(False)
            if not large_buffers:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SMALL)
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL)
        self.to_layer = _Direction(self._far, self._near)
        self.from_layer = _Direction(self._near, self._far)

    def carry(self, max_bytes: int = PIECE) -> None:
        """Move up to *max_bytes* in each direction, ends included, without waiting."""
        self.to_layer.carry(max_bytes)
        self.from_layer.carry(max_bytes)

    def say(self, data: bytes) -> None:
        """Send the layer bytes that its peer never sent."""
        self._near.setblocking(True)
        self._near.sendall(data)
        self._near.setblocking(False)

    def hang_up(self) -> None:
        """Close the wire at the layer's side; no more bytes follow."""
        self._near.close()

    def reset(self) -> None:
        """Reset the connection, as after a crash of the peer's machine."""
        with contextlib.suppress(OSError):  # already closed, or a socket without SO_LINGER
            self._near.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_AT_CLOSE)
        self._near.close()

    def release(self) -> None:
        """Make a call return that waits for this wire; called from another thread."""
        with contextlib.suppress(OSError):  # already closed
            self.layer_end.shutdown(socket.SHUT_RDWR)
        self.reset()  # the layer may have replaced or closed its socket

    def close(self) -> None:
        """Close every socket, the layer's included."""
        for sock in self._sockets:
            sock.close()

    @property
    def _sockets(self) -> tuple[socket.socket, ...]:
        return self.layer_end, self._near, self.peer_end, self._far


class _Direction:
    """One direction. `carried` counts the bytes that arrived; the wire moves no more than `allowed`."""

    def __init__(self, source: socket.socket, sink: socket.socket) -> None:
        self._source = source
        self._sink = sink
        self._pending = b""
        self.carried = 0
        self.allowed: int | None = None
        self.ended = False

    def carry(self, max_bytes: int) -> None:
        try:
            self._take(max_bytes)
            self._give()
        except (BlockingIOError, InterruptedError):
            pass
        except OSError:
            self._end()

    def _take(self, max_bytes: int) -> None:
        if self.allowed is not None:
            max_bytes = min(max_bytes, self.allowed - self.carried)
        if self.ended or self._pending or max_bytes <= 0:
            return
        self._pending = self._source.recv(max_bytes)
        if not self._pending:
            self._end()

    def _give(self) -> None:
        if self._pending:
            sent = self._sink.send(self._pending)
            self._pending = self._pending[sent:]
            self.carried += sent

    def _end(self) -> None:
        self._pending, self.ended = b"", True
        with contextlib.suppress(OSError):  # already closed
            self._sink.shutdown(socket.SHUT_WR)


def tcp_pair() -> Pair:
    """Return the two ends of a TCP connection on this machine."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ours = socket.create_connection(listener.getsockname())
        theirs, _address = listener.accept()
    for sock in (ours, theirs):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return ours, theirs
