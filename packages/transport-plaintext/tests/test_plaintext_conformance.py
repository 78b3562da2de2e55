"""The plaintext transport keeps the whole contract."""

from __future__ import annotations

import pytest

from ottla.interfaces import Transport
from ottla_testkit.conformance import PlainPeer, TransportConformance
from ottla_transport_plaintext import PlaintextTransport

pytestmark = pytest.mark.unmeasured


class TestPlaintext(TransportConformance):
    @pytest.fixture
    def transport(self) -> Transport:
        return PlaintextTransport()

    @pytest.fixture
    def peer(self) -> type[PlainPeer]:
        return PlainPeer
