"""The transport by way of a proxy keeps the whole contract, the proxy's part included."""

from __future__ import annotations

import socket

import pytest

from ottla.interfaces import Transport
from ottla_testkit.conformance import PlainFarEnd, TransportConformance
from ottla_transport_plaintext import PlaintextTransport
from ottla_transport_socks5_example import Socks5Transport
from ottla_transport_socks5_example.negotiation import Login

SCRIPT = [
    (b"\x05\x02\x00\x02", b"\x05\x02"),
    (b"\x01\x05alice\x06secret", b"\x01\x00"),
    (b"\x05\x01\x00\x03\x05kafka\x23\x84", b"\x05\x00\x00\x01\x7f\x00\x00\x01\x04\x38"),
]


class Proxy(PlainFarEnd):
    """Plays its part line by line, and is the broker after the last."""

    def __init__(self, sock: socket.socket) -> None:
        super().__init__(sock)
        self._said_early = bytearray()
        self._script = list(SCRIPT)

    def advance(self) -> None:
        super().advance()
        while self._script and len(self.received) >= len(self._script[0][0]):
            line, answer = self._script.pop(0)
            assert self.received.startswith(line), f"{bytes(self.received)!r} was said for {line!r}"
            del self.received[: len(line)]
            super().write(answer)
            if not self._script:
                super().write(bytes(self._said_early))
            super().advance()

    def write(self, data: bytes) -> None:
        if self._script:
            self._said_early += data
        else:
            super().write(data)


class TestSocks5(TransportConformance):
    host = "kafka"

    @pytest.fixture
    def transport(self) -> Transport:
        login = Login(b"alice", b"secret")
        return Socks5Transport([], proxy="proxy:1080", login=login, inner=PlaintextTransport())

    @pytest.fixture
    def far_end(self) -> type[Proxy]:
        return Proxy
