"""The details of a handshake that `ottla doctor` gets."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trustme

from ottla_transport_ssl import TlsLayer
from tls_peers import Peer, shake

Connect = Callable[..., tuple[TlsLayer, Peer]]


def reported(details: Sequence[tuple[str, str]], label: str) -> list[str]:
    return [text for each, text in details if each == label]


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_protocol_cipher_certificate_and_names_are_reported(connect: Connect, version: str, tmp_path: Path) -> None:
    layer, peer = connect({"ssl.enabled.protocols": version})
    shake(layer, peer)

    details = layer.details()

    assert [label for label, _text in details][:2] == ["protocol", "cipher"]
    assert reported(details, "protocol") == [version]
    assert reported(details, "cipher")[0].endswith(" bits")
    assert "CN=broker" in reported(details, "certificate")[0]
    assert "issued by" in reported(details, "certificate")[0]
    assert reported(details, "its names") == ["localhost, 127.0.0.1, ::1"]
    assert reported(details, "host name") == ["localhost is one of them"]
    assert str(tmp_path) in reported(details, "trusted by")[0]
    assert reported(details, "warning") == []


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_metrics_get_the_names_of_cipher_suite_and_protocol(connect: Connect, version: str) -> None:
    layer, peer = connect({"ssl.enabled.protocols": version})
    shake(layer, peer)

    suite, protocol = layer.cipher() or ("", "")
    assert protocol == version
    assert reported(layer.details(), "cipher")[0].startswith(f"{suite}, ")


def test_a_host_name_that_is_not_checked_is_a_warning(connect: Connect) -> None:
    layer, peer = connect({"ssl.endpoint.identification.algorithm": ""}, host="other.example.com")
    shake(layer, peer)

    assert reported(layer.details(), "host name") == ["not checked"]
    assert "ssl.endpoint.identification.algorithm" in reported(layer.details(), "warning")[0]


def test_a_certificate_that_expires_soon_is_a_warning(connect: Connect, ca: trustme.CA) -> None:
    soon = ca.issue_cert("localhost", common_name="old", not_after=datetime.now(UTC) + timedelta(days=3))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    soon.configure_cert(context)
    layer, peer = connect(context=context)
    shake(layer, peer)

    assert "CN=old" in reported(layer.details(), "warning")[0]


def test_the_client_certificate_is_reported_without_its_key(
    connect: Connect, client_certificate: trustme.LeafCert, tmp_path: Path
) -> None:
    file = tmp_path / "identity.pem"
    client_certificate.private_key_and_cert_chain_pem.write_to_path(str(file))
    layer, peer = connect({"ssl.keystore.location": str(file), "ssl.keystore.type": "PEM"})
    shake(layer, peer)

    assert "CN=our client" in reported(layer.details(), "our own certificate")[0]
    assert "PRIVATE" not in str(layer.details())
