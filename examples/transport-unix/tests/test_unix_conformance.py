"""The transport by way of a Unix socket keeps the whole contract."""

from __future__ import annotations

import pytest

from ottla.interfaces import Transport
from ottla_transport_plaintext import PlaintextTransport
from ottla_transport_unix_example import UnixTransport
from ottla_transport_unix_example.conformance import UnixConformance


class TestUnix(UnixConformance):
    @pytest.fixture
    def transport(self) -> Transport:
        return UnixTransport(self.settings["unix.path"], inner=PlaintextTransport())
