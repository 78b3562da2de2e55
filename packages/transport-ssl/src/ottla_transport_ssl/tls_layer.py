"""TLS over a socket, and TLS over another layer, such as a proxy tunnel that is itself TLS-encrypted."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Sequence

from ottla.errors import NetworkError
from ottla.interfaces import Interest, TransportLayer
from ottla.plugins.transports import lower_details
from ottla_transport_ssl.contexts import Setup
from ottla_transport_ssl.tls_stream import RECEIVE, TlsStream


class TlsLayer(TlsStream):
    """TLS over a socket. Created by `TlsTransport.open`."""

    def __init__(self, sock: socket.socket, *, setup: Setup, peer: str, server_name: str) -> None:
        super().__init__(setup=setup, peer=peer, server_name=server_name)
        self._sock = sock

    def close(self) -> None:
        """Send as much of close_notify as the socket takes without waiting, and close the connection."""
        with contextlib.suppress(OSError):  # the peer may have closed already; an SSLError is one, too
            self._send_close_notify()
            self._sock.shutdown(socket.SHUT_RDWR)
        self._sock.close()

    def _pull(self) -> bytes | None:
        try:
            return self._sock.recv(RECEIVE)
        except (BlockingIOError, InterruptedError):
            return None

    def _push(self) -> bool:
        while self._unsent or self._outgoing.pending:
            if not self._unsent:
                self._unsent = memoryview(self._outgoing.read())
            try:
                sent = self._sock.send(self._unsent)
            except (BlockingIOError, InterruptedError):
                return False
            self._unsent = self._unsent[sent:]
            if self._unsent:
                return False  # the socket is full
        return True


class TlsOverLayer(TlsStream):
    """TLS over another layer, whose handshake comes first. Created by `TlsTransport.open_over`."""

    def __init__(self, lower: TransportLayer, *, setup: Setup, peer: str, server_name: str) -> None:
        super().__init__(setup=setup, peer=peer, server_name=server_name)
        self._lower = lower
        self._begun = False  # the lower layer's handshake is done
        self._buffer = memoryview(bytearray(RECEIVE))
        self._over = False  # the lower layer's end: a regular one, or this error
        self._lost: OSError | NetworkError | None = None

    def handshake(self) -> bool:
        """Complete the lower layer's handshake, then this one's, as far as possible without blocking."""
        if not self._begun:
            if not self._lower.handshake():
                return False
            self._begun = True
        return super().handshake()

    def interest(self) -> Interest:
        """Return the events that the lower layer or this one waits for."""
        if not self._begun:
            return self._lower.interest()
        own = super().interest()  # sends first, which the lower layer may then wait for
        return own | self._lower.interest()

    def may_read(self) -> bool:
        """Whether bytes wait here or in the lower layer, or an end of that layer was not reported yet."""
        return super().may_read() or self._over or self._lower.may_read()

    def details(self) -> Sequence[tuple[str, str]]:
        """Return the details of the lower layer, then those of this handshake, for messages."""
        return *lower_details(self._lower), *super().details()

    def close(self) -> None:
        """Send close_notify as far as the lower layer takes it, and close that layer."""
        with contextlib.suppress(OSError, NetworkError):  # the peer may have closed already
            self._send_close_notify()
        self._lower.close()

    def _pull(self) -> bytes | None:
        """Read until the lower layer has nothing more, because only then its socket reports the next bytes.

        It may give a few bytes at a time, so what limits a call is their sum. Bytes come before the end behind them.
        """
        filled = 0
        while filled < RECEIVE and not self._over:
            try:
                got = self._lower.read_into(self._buffer[filled:])
            except (OSError, NetworkError) as error:
                self._over, self._lost = True, error
                break
            if got is None:
                break
            self._over = got == 0
            filled += got
        if filled:
            return bytes(self._buffer[:filled])
        if self._lost is not None:
            raise self._lost
        return b"" if self._over else None

    def _push(self) -> bool:
        while self._unsent or self._outgoing.pending:
            if not self._unsent:
                self._unsent = memoryview(self._outgoing.read())
            taken = self._lower.write([self._unsent])
            if not taken:
                return False
            self._unsent = self._unsent[taken:]
        return self._lower.flush()
