"""A connection by way of a Unix socket keeps all that the core expects of one."""

from __future__ import annotations

import pytest

from ottla.interfaces import Transport
from ottla_testkit.conformance.peer import Serve
from ottla_testkit.conformance.transport import TransportConformance
from ottla_transport_plaintext import PlaintextTransport
from ottla_transport_unix_example import UnixTransport


class TestUnix(TransportConformance):
    @pytest.fixture
    def transport(self) -> Transport:
        return UnixTransport("/run/kafka.sock", inner=PlaintextTransport())

    @pytest.fixture
    def serve(self) -> Serve:
        return lambda sock: sock
