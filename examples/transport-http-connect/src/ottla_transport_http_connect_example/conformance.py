"""A proxy with a broker behind it, for the conformance suite of this transport; `ottla plugins check` uses it, too.

It needs ottla-testkit, so no other module may import it.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import Any, ClassVar, Final

import pytest

from ottla_testkit.conformance import PlainPeer, TransportConformance

_END: Final = b"\r\n\r\n"
_RESPONSE: Final = b"HTTP/1.1 200 Connection established\r\nVia: 1.1 suite\r\n\r\n"


class ConnectPeer(PlainPeer):
    """Accept any destination, and be the broker from then on."""

    def __init__(self, sock: socket.socket) -> None:
        super().__init__(sock)
        self._early = b""
        self._connected = False

    def advance(self) -> None:
        """Do the proxy's part first; the broker receives none of its bytes."""
        super().advance()
        if not self._connected and _END in self.received:
            head, _end, rest = bytes(self.received).partition(_END)
            assert head.startswith(b"CONNECT "), "that is no request for a connection"
            self.received[:] = rest
            self._connected = True
            super().write(self.response(head) + self._early)
            super().advance()

    def response(self, head: bytes) -> bytes:
        """Return the response to a request."""
        return _RESPONSE

    def write(self, data: bytes) -> None:
        """Take the broker's bytes, which wait until the connection is open."""
        if self._connected:
            super().write(data)
        else:
            self._early += data


class RefusingPeer(ConnectPeer):
    """Refuse any destination, with the login in the reason, and keep the connection open."""

    def response(self, head: bytes) -> bytes:
        """Return a refusal that quotes the last line of the request."""
        return b"HTTP/1.1 403 not with " + head.splitlines()[-1] + b"\r\nContent-Length: 0\r\n\r\n"


class HttpConnectConformance(TransportConformance):
    """All requirements for a transport, the proxy's part included."""

    host = "kafka"
    settings: ClassVar[Mapping[str, Any]] = {"http.connect.proxy": "127.0.0.1:3128"}

    @pytest.fixture
    def peer(self) -> type[ConnectPeer]:
        return ConnectPeer

    @pytest.fixture
    def refusing_peer(self) -> type[RefusingPeer]:
        return RefusingPeer
