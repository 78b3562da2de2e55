"""The layer through a proxy keeps all that the core expects of one, with and without a login, around plaintext."""

from __future__ import annotations

import socket

import pytest

from ottla.interfaces import Target, Transport
from ottla_testkit.conformance.peer import Serve
from ottla_testkit.conformance.transport import TransportConformance
from ottla_transport_plaintext import PlaintextTransport
from ottla_transport_socks5_example import Socks5Transport
from ottla_transport_socks5_example.negotiation import Login

PROXY = [Target(socket.AF_INET, ("127.0.0.1", 1080))]
CONNECTED = b"\x05\x00\x00\x01\x7f\x00\x00\x01\x04\x38"


def _exactly(sock: socket.socket, size: int) -> bytes:
    heard = b""
    while len(heard) < size:
        more = sock.recv(size - len(heard))
        if not more:
            raise ConnectionError("the layer hung up")
        heard += more
    return heard


def _take_connect(sock: socket.socket) -> socket.socket:
    head = _exactly(sock, 5)
    _exactly(sock, head[4] + 2)
    sock.sendall(CONNECTED)
    return sock


class TestSocks5(TransportConformance):
    host = "kafka"

    @pytest.fixture
    def transport(self) -> Transport:
        return Socks5Transport(PROXY, proxy="proxy:1080", login=None, inner=PlaintextTransport())

    @pytest.fixture
    def serve(self) -> Serve:
        def serve(sock: socket.socket) -> socket.socket:
            _exactly(sock, 3)
            sock.sendall(b"\x05\x00")
            return _take_connect(sock)

        return serve


class TestSocks5WithALogin(TestSocks5):
    @pytest.fixture
    def transport(self) -> Transport:
        login = Login(b"alice", b"secret")
        return Socks5Transport(PROXY, proxy="proxy:1080", login=login, inner=PlaintextTransport())

    @pytest.fixture
    def serve(self) -> Serve:
        def serve(sock: socket.socket) -> socket.socket:
            _exactly(sock, 4)
            sock.sendall(b"\x05\x02")
            _exactly(sock, 2 + 5 + 1 + 6)
            sock.sendall(b"\x01\x00")
            return _take_connect(sock)

        return serve
