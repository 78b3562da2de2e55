"""The transport by way of a Unix socket keeps the whole contract."""

from __future__ import annotations

import socket

import pytest

from ottla.interfaces import Transport
from ottla_testkit.conformance import PlainFarEnd, TransportConformance
from ottla_transport_plaintext import PlaintextTransport
from ottla_transport_unix_example import UnixTransport


class TestUnix(TransportConformance):
    def socket_pair(self) -> tuple[socket.socket, socket.socket]:
        return socket.socketpair()

    @pytest.fixture
    def transport(self) -> Transport:
        return UnixTransport("/run/kafka.sock", inner=PlaintextTransport())

    @pytest.fixture
    def far_end(self) -> type[PlainFarEnd]:
        return PlainFarEnd
