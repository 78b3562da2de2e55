"""Whose certificate is for the broker that we connect to: subjectAltName decides, and nothing else (RFC 9525)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from authority_kit import Authority
from cryptography import x509

from ottla.errors import HostnameMismatchError, OttlaError
from ottla_transport_ssl import TlsLayer
from tls_peers import Peer, shake

Connect = Callable[..., tuple[TlsLayer, Peer]]
Meet = Callable[..., None]
Names = tuple[str | x509.GeneralName, ...]


@pytest.fixture(params=["TLSv1.2", "TLSv1.3"])
def meet(request: pytest.FixtureRequest, connect: Connect, tmp_path: Path) -> Meet:
    """Connect to a host that shows a certificate of a trusted authority, in either version of TLS."""
    authority = Authority()

    def met(host: str, *, common_name: str, names: Names = (), checked: bool = True) -> None:
        settings: Mapping[str, Any] = {
            "ssl.enabled.protocols": request.param,
            "ssl.truststore.location": None,
            "ssl.truststore.certificates": authority.pem.decode(),
            "ssl.endpoint.identification.algorithm": "https" if checked else "",
        }
        shake(*connect(settings, context=authority.issue(common_name, names=names).serving(tmp_path), host=host))

    return met


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("kafka.example.com", "kafka.example.com"),
        ("KAFKA.example.com", "kafka.example.com"),
        ("kafka.example.com.", "kafka.example.com"),
        ("kafka.example.com", "*.example.com"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("10.0.0.1", "10.0.0.1"),
        ("::1", "::1"),
        ("fe80::1%eth0", "fe80::1"),
    ],
)
def test_a_subject_alternative_name_matches_the_broker(meet: Meet, host: str, name: str) -> None:
    meet(host, common_name="someone", names=(name,))


@pytest.mark.parametrize("host", ["kafka.example.com", "10.0.0.1", "::1"])
def test_a_common_name_does_not_match_the_broker(meet: Meet, host: str) -> None:
    with pytest.raises(HostnameMismatchError) as caught:
        meet(host, common_name=host)

    assert "a certificate without a host name in subjectAltName" in str(caught.value)
    assert f"'CN={host}'" in str(caught.value)
    assert "its common name is ignored (RFC 9525)" in str(caught.value)
    assert str(caught.value).count("; ") == 1


@pytest.mark.parametrize("names", [("10.0.0.1",), ("other.example.com",)])
def test_a_common_name_adds_nothing_to_alternative_names(meet: Meet, names: tuple[str, ...]) -> None:
    with pytest.raises(HostnameMismatchError, match=f"a certificate for other names: {names[0]}"):
        meet("kafka.example.com", common_name="kafka.example.com", names=names)


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("10.0.0.1", "*.0.0.1"),
        ("a.b.example.com", "*.example.com"),
        ("kafka.example.com", "k*.example.com"),
        ("example.com", "*.example.com"),
        ("kafka.example.com", "example.com"),
        ("10.0.0.1", "10.0.0.2"),
        ("::1", "127.0.0.1"),
    ],
)
def test_a_name_that_only_resembles_that_of_the_broker_does_not_match(meet: Meet, host: str, name: str) -> None:
    with pytest.raises(HostnameMismatchError):
        meet(host, common_name="someone", names=(name,))


def test_an_address_as_a_dns_name_does_not_match(meet: Meet) -> None:
    with pytest.raises(HostnameMismatchError):
        meet("10.0.0.1", common_name="someone", names=(x509.DNSName("10.0.0.1"),))


def test_a_certificate_with_only_a_mail_address_has_no_host_names(meet: Meet) -> None:
    with pytest.raises(HostnameMismatchError, match="a certificate without a host name in subjectAltName"):
        meet("kafka.example.com", common_name="kafka.example.com", names=(x509.RFC822Name("ottla@example.com"),))


def test_without_host_name_check_any_trusted_certificate_is_accepted(meet: Meet) -> None:
    meet("kafka.example.com", common_name="someone", checked=False)


def test_a_certificate_without_any_name_is_an_error_too(meet: Meet) -> None:
    with pytest.raises(OttlaError, match="a certificate without a host name in subjectAltName"):
        meet("kafka.example.com", common_name="someone")
