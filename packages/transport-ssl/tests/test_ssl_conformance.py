"""The TLS transport keeps the whole contract, in either version."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from ottla.interfaces import Transport
from ottla_testkit.conformance import TransportConformance
from tls_peers import Peer
from tls_peers import transport as tls_transport

AHEAD = 65536


class TlsFarEnd:
    """A server's half of TLS, which encrypts no more than it can soon send."""

    def __init__(self, sock: socket.socket, context: ssl.SSLContext) -> None:
        self._peer = Peer(sock, context)
        self.received = self._peer.got
        self._unsaid = bytearray()
        self._finishing = False

    @property
    def ended(self) -> bool:
        return self._peer.ended or self._peer.error is not None

    @ended.setter
    def ended(self, ended: bool) -> None:
        self._peer.ended = ended

    def advance(self) -> None:
        self._peer.step()
        while self._peer.ready and self._unsaid and not self._waits():
            self._peer.say(bytes(self._unsaid[:AHEAD]))
            del self._unsaid[:AHEAD]
        if self._finishing and not self._unsaid and not self._waits():
            self._finishing = False
            self._peer.say_goodbye()

    def write(self, data: bytes) -> None:
        self._unsaid += data

    def finish(self) -> None:
        self._finishing = True

    def _waits(self) -> bool:
        self._peer.push()
        waiting = self._peer.take_outgoing()
        self._peer._unsent = waiting
        return bool(waiting)


class TestTls(TransportConformance):
    port = 9093

    @pytest.fixture(params=["TLSv1.2", "TLSv1.3"])
    def transport(self, request: pytest.FixtureRequest, trusting: Mapping[str, Any]) -> Transport:
        return tls_transport({**trusting, "ssl.enabled.protocols": request.param})

    @pytest.fixture
    def far_end(self, server_context: ssl.SSLContext) -> Callable[[socket.socket], TlsFarEnd]:
        server_context.num_tickets = 2  # as a broker's
        return lambda sock: TlsFarEnd(sock, server_context)
