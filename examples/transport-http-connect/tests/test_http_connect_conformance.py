"""The transport by way of a proxy keeps the whole contract, with a login and without."""

from __future__ import annotations

import pytest

from ottla.interfaces import HostTarget, Transport
from ottla_transport_http_connect_example import HttpConnectTransport
from ottla_transport_http_connect_example.conformance import HttpConnectConformance
from ottla_transport_http_connect_example.negotiation import Login
from ottla_transport_plaintext import PlaintextTransport


class TestWithALogin(HttpConnectConformance):
    secrets = ("hunter2-of-alice",)

    @pytest.fixture
    def transport(self) -> Transport:
        login = Login("alice", self.secrets[0])
        return HttpConnectTransport(HostTarget("proxy", 3128), login=login, inner=PlaintextTransport())
