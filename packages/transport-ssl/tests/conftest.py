"""An authority, and connections between a layer of ours and a server under the test's hands."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import trustme

from ottla_transport_ssl import TlsLayer, context_reload
from tls_peers import HANG_GUARD, Peer, tcp_pair, transport

Connect = Callable[..., tuple[TlsLayer, Peer]]


@pytest.fixture(autouse=True)
def waiting_for_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """However busy this machine is, a connection waits until its files are read."""
    monkeypatch.setattr(context_reload, "FILES_TIMEOUT", HANG_GUARD)


@pytest.fixture(scope="session")
def ca() -> trustme.CA:
    return trustme.CA(organization_name="Test authority")


@pytest.fixture(scope="session")
def server_certificate(ca: trustme.CA) -> trustme.LeafCert:
    return ca.issue_cert("localhost", "127.0.0.1", "::1", common_name="broker")


@pytest.fixture(scope="session")
def client_certificate(ca: trustme.CA) -> trustme.LeafCert:
    return ca.issue_cert("client.example.com", common_name="our client")


@pytest.fixture
def server_context(server_certificate: trustme.LeafCert) -> ssl.SSLContext:
    """A server's, with a certificate that the authority has issued for this machine."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_certificate.configure_cert(context)
    context.num_tickets = 0  # unless a test wants them, nothing comes that it did not ask for
    return context


@pytest.fixture
def trusting(ca: trustme.CA, tmp_path: Path) -> dict[str, Any]:
    """Settings that trust the authority."""
    file = tmp_path / "authorities.pem"
    ca.cert_pem.write_to_path(str(file))
    return {"ssl.truststore.location": str(file)}


@pytest.fixture
def connect(trusting: Mapping[str, Any], server_context: ssl.SSLContext) -> Iterator[Connect]:
    """Makes connections: a layer, and the peer, which have not shaken hands yet."""
    made: list[tuple[TlsLayer, Peer]] = []

    def make(
        settings: Mapping[str, Any] | None = None, *, context: ssl.SSLContext | None = None, host: str = "localhost"
    ) -> tuple[TlsLayer, Peer]:
        made_transport = transport({**trusting, **(settings or {})})
        ours, theirs = tcp_pair()
        layer = made_transport.open(ours, host, 9093)
        assert isinstance(layer, TlsLayer)
        made.append((layer, Peer(theirs, context or server_context)))
        return made[-1]

    yield make
    for layer, peer in made:
        layer.close()
        peer.sock.close()
