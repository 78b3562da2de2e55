"""The peer of this transport's connections for its conformance suite; `ottla plugins check` uses it, too.

It needs ottla-testkit, so nothing else may import it.
"""

from __future__ import annotations

import socket
from collections.abc import Callable

import pytest
from ottla_testkit.conformance import PlainPeer, TransportConformance

from ottla_transport_line_proxy.plugin import ADDRESS, TOKEN


class LineProxyPeer(PlainPeer):
    """The proxy, and the broker behind it: what it hears and says after the request."""

    def __init__(self, sock: socket.socket, *, expected: bytes) -> None:
        super().__init__(sock)
        self._expected = expected
        self._connected = False
        self._early = b""

    def advance(self) -> None:
        """Answer the request, once all of it is here."""
        super().advance()
        if self._connected or b"\n" not in self.received:
            return
        request, _, rest = bytes(self.received).partition(b"\n")
        del self.received[:]
        if request != self._expected:
            super().write(b"NO such request\n")
        else:
            self._connected = True
            self.received += rest
            super().write(b"OK\n" + self._early)
        super().advance()

    def write(self, data: bytes) -> None:
        """Take the broker's bytes, which follow the answer."""
        if self._connected:
            super().write(data)
        else:
            self._early += data


class LineProxyConformance(TransportConformance):
    """All requirements for a transport."""

    settings = {ADDRESS: "localhost:9000", TOKEN: "token-of-the-suite"}  # noqa: RUF012

    @pytest.fixture
    def peer(self) -> Callable[[socket.socket], LineProxyPeer]:
        expected = f"CONNECT {self.host} {self.port} {self.settings[TOKEN]}".encode()
        return lambda sock: LineProxyPeer(sock, expected=expected)
