"""The plaintext transport keeps all that the core expects of one."""

from __future__ import annotations

import pytest

from ottla.interfaces import Transport
from ottla_testkit.conformance.peer import Serve
from ottla_testkit.conformance.transport import TransportConformance
from ottla_transport_plaintext import PlaintextTransport


class TestPlaintext(TransportConformance):
    @pytest.fixture
    def transport(self) -> Transport:
        return PlaintextTransport()

    @pytest.fixture
    def serve(self) -> Serve:
        return lambda sock: sock
