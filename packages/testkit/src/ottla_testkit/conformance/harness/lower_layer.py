"""A layer below the one under test: it has a handshake, holds bytes in both directions, and fails if it is misused."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Sequence
from typing import Final

from ottla.interfaces import Buffer, Interest
from ottla_testkit.conformance.harness.checked_layer import check
from ottla_testkit.conformance.harness.peer import send_part

_TURNS: Final = 3
"""Calls of `handshake` until it is done."""
_AHEAD: Final = 64 * 1024
_PIECES: Final = (1, 1000, 3, 16_384)
"""Bytes that one read returns, in turn: so a TLS connection returns what is left of its records."""


class LowerLayer:
    """Passes bytes on unchanged, as a tunnel does through a proxy that is itself reached by TLS.

    With *always_may_read*, `may_read` is always True: it is a hint, and a read may find nothing.
    """

    def __init__(self, sock: socket.socket, *, always_may_read: bool = False) -> None:
        self._sock = sock
        self._always_may_read = always_may_read
        self._turns = 0
        self._ahead = bytearray()
        self._unsent = bytearray()
        self._reads = 0
        self._ended = False
        self._lost: OSError | None = None

    def handshake(self) -> bool:
        """Return True from the third call on; until then the layer waits for room to write, which the socket has."""
        self._turns += 1
        return self._turns >= _TURNS

    def write(self, chunks: Sequence[Buffer]) -> int:
        """Hold up to 64 kB until the socket takes them."""
        self._check_ready("write()")
        self.flush()
        taken = 0
        for chunk in chunks:
            part = memoryview(chunk)[: _AHEAD - len(self._unsent)]
            self._unsent += part
            taken += len(part)
        return taken

    def flush(self) -> bool:
        """Send what is held."""
        self._check_ready("flush()")
        with contextlib.suppress(BlockingIOError, InterruptedError):
            while self._unsent:
                send_part(self._sock, self._unsent, maximum=_AHEAD)
        return not self._unsent

    def read_into(self, buffer: memoryview) -> int | None:
        """Return bytes in pieces, though more of them are here."""
        self._check_ready("read_into()")
        check(len(buffer) > 0, "read_into() of the lower layer was called without room for a byte")
        if not self._ahead:
            self._take()
        if not self._ahead:
            if self._lost is not None:
                raise self._lost
            return 0 if self._ended else None
        self._reads += 1
        piece = min(len(buffer), len(self._ahead), _PIECES[self._reads % len(_PIECES)])
        buffer[:piece] = self._ahead[:piece]
        del self._ahead[:piece]
        return piece

    def interest(self) -> Interest:
        """Return WRITE during the handshake, and while bytes are held."""
        return Interest.WRITE if self._turns < _TURNS or self._unsent else Interest.NONE

    def may_read(self) -> bool:
        """Return whether bytes were taken from the socket that are not read yet; always True if the test says so."""
        return self._always_may_read or bool(self._ahead)

    def close(self) -> None:
        """Send what the socket takes now, and close it."""
        with contextlib.suppress(OSError):
            if self._unsent:
                self._sock.send(self._unsent)
            self._sock.shutdown(socket.SHUT_RDWR)
        self._sock.close()

    def _take(self) -> None:
        """Take what the socket has, an end or an error included, which stay."""
        if self._ended or self._lost is not None:
            return
        try:
            taken = self._sock.recv(_AHEAD)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._lost = error
            return
        self._ended = not taken
        self._ahead += taken

    def _check_ready(self, call: str) -> None:
        check(
            self._turns >= _TURNS,
            f"{call} of the lower layer was called before its handshake() had returned True",
        )
