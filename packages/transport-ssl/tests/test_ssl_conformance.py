"""The TLS transport keeps the whole contract, in either version."""

from __future__ import annotations

import pytest

from ottla.interfaces import Transport
from ottla_transport_ssl.conformance import TlsConformance
from tls_peers import transport as tls_transport

pytestmark = pytest.mark.unmeasured


class TestTls(TlsConformance):
    @pytest.fixture(params=["TLSv1.2", "TLSv1.3"])
    def transport(self, request: pytest.FixtureRequest) -> Transport:
        return tls_transport(self.settings_for({"ssl.enabled.protocols": request.param}))
