"""The TLS transport keeps all that the core expects of one, in either version of TLS and with a certificate of ours."""

from __future__ import annotations

import socket
import ssl
from pathlib import Path
from typing import Any

import pytest
import trustme

from ottla.interfaces import Transport
from ottla_testkit.conformance.peer import Serve
from ottla_testkit.conformance.transport import TransportConformance
from tls_peers import transport as tls_transport


class TestTls13(TransportConformance):
    @pytest.fixture
    def settings(self, trusting: dict[str, Any]) -> dict[str, Any]:
        return {**trusting, "ssl.enabled.protocols": "TLSv1.3"}

    @pytest.fixture
    def transport(self, settings: dict[str, Any]) -> Transport:
        return tls_transport(settings)

    @pytest.fixture
    def serve(self, server_context: ssl.SSLContext) -> Serve:
        def serve(sock: socket.socket) -> socket.socket:
            return server_context.wrap_socket(sock, server_side=True)

        return serve


class TestTls12(TestTls13):
    @pytest.fixture
    def settings(self, trusting: dict[str, Any]) -> dict[str, Any]:
        return {**trusting, "ssl.enabled.protocols": "TLSv1.2"}


class TestMutualTls(TestTls13):
    """With tickets, too: what comes after the handshake without being asked for."""

    @pytest.fixture
    def settings(
        self, trusting: dict[str, Any], client_certificate: trustme.LeafCert, tmp_path: Path
    ) -> dict[str, Any]:
        file = tmp_path / "client.pem"
        client_certificate.private_key_and_cert_chain_pem.write_to_path(str(file))
        return {**trusting, "ssl.keystore.type": "PEM", "ssl.keystore.location": str(file)}

    @pytest.fixture
    def serve(self, server_context: ssl.SSLContext, ca: trustme.CA) -> Serve:
        server_context.verify_mode = ssl.CERT_REQUIRED
        server_context.num_tickets = 2
        ca.configure_trust(server_context)

        def serve(sock: socket.socket) -> socket.socket:
            return server_context.wrap_socket(sock, server_side=True)

        return serve
