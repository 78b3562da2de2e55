"""The transport by way of a proxy keeps the whole contract, with a login and without."""

from __future__ import annotations

import pytest

from ottla.interfaces import HostTarget, Transport
from ottla_transport_plaintext import PlaintextTransport
from ottla_transport_socks5_example import Socks5Transport
from ottla_transport_socks5_example.conformance import Socks5Conformance
from ottla_transport_socks5_example.negotiation import UserPassword

pytestmark = pytest.mark.unmeasured


class TestWithALogin(Socks5Conformance):
    secrets = ("hunter2-of-alice",)

    @pytest.fixture
    def transport(self) -> Transport:
        login = UserPassword(b"alice", self.secrets[0].encode())
        return Socks5Transport(HostTarget("proxy", 1080), login=login, inner=PlaintextTransport())


class TestWithoutALogin(Socks5Conformance):
    host = "::1"

    @pytest.fixture
    def transport(self) -> Transport:
        return Socks5Transport(HostTarget("proxy", 1080), login=None, inner=PlaintextTransport())
