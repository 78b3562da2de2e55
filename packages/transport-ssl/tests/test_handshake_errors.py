"""Each way in which a handshake fails has its error, which names what happened, the peer, and what helps."""

from __future__ import annotations

import contextlib
import re
import socket
import ssl
import struct
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from ottla.errors import (
    CertificateExpiredError,
    CertificateNotTrustedError,
    ClientCertificateRequiredError,
    ConnectionFailedError,
    HostnameMismatchError,
    OttlaError,
    ProtocolMismatchError,
    TlsHandshakeError,
)
from ottla_transport_ssl import TlsLayer
from tls_peers import Peer, read, readable, shake, tcp_pair, transport, until

Connect = Callable[..., tuple[TlsLayer, Peer]]

NOW = datetime.now(UTC)


def refusal(layer: TlsLayer, peer: Peer) -> OttlaError:
    """The error of the handshake, or of the read after it."""
    caught: list[OttlaError] = []

    def go_on() -> None:
        try:
            if layer.handshake():
                read(layer)
        except OttlaError as error:
            caught.append(error)

    until(lambda: bool(caught), peer.step, go_on)
    return caught[0]


def serving(certificate: trustme.LeafCert, **attributes: Any) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)
    for name, value in attributes.items():
        setattr(context, name, value)
    return context


@pytest.fixture(params=["TLSv1.2", "TLSv1.3"])
def version(request: pytest.FixtureRequest) -> dict[str, Any]:
    return {"ssl.enabled.protocols": request.param}


# The broker's certificate


def test_an_unknown_authority_is_reported_with_subject_issuer_and_trust(
    connect: Connect, version: Mapping[str, Any], trusting: Mapping[str, Any]
) -> None:
    other = trustme.CA(organization_name="Another company", organization_unit_name="Unit")
    layer, peer = connect(version, context=serving(other.issue_cert("localhost", common_name="foreign broker")))

    error = refusal(layer, peer)

    assert type(error) is CertificateNotTrustedError
    assert "localhost:9093" in str(error)
    assert "unable to get local issuer certificate" in str(error)
    assert "CN=foreign broker" in str(error)
    assert "OU=Unit, O=Another company" in str(error)
    assert f"Trusted: ssl.truststore.location={trusting['ssl.truststore.location']} ('OU=" in str(error)
    assert str(error).count("; ") == 1, "what helps stands behind the only one: the doctor takes it from there"
    assert isinstance(error.__cause__, ssl.SSLCertVerificationError)
    until(lambda: peer.error is not None, peer.step)
    assert peer.error is not None
    assert peer.error.reason == "TLSV1_ALERT_UNKNOWN_CA", "the broker's log should say it, too"


def test_of_many_trusted_authorities_the_first_are_named(connect: Connect, tmp_path: Path) -> None:
    authorities = [trustme.CA(organization_name=f"Authority {number}") for number in range(5)]
    store = tmp_path / "authorities.pem"
    store.write_bytes(b"".join(each.cert_pem.bytes() for each in authorities))

    error = refusal(*connect({"ssl.truststore.location": str(store)}))

    named = re.search(
        r"authorities\.pem \('.*O=Authority 0', '.*O=Authority 1', '.*O=Authority 2' and 2 more\); ", str(error)
    )
    assert named, str(error)


def test_without_a_trust_store_that_of_the_system_is_named(ca: trustme.CA, server_context: ssl.SSLContext) -> None:
    ours, theirs = tcp_pair()
    layer, peer = transport({}).open(ours, "localhost", 9093), Peer(theirs, server_context)
    assert isinstance(layer, TlsLayer)

    with pytest.raises(CertificateNotTrustedError, match="the system's authorities"):
        raise refusal(layer, peer)
    layer.close()
    theirs.close()


def test_the_certificate_of_another_host_is_reported_with_its_names(
    connect: Connect, version: Mapping[str, Any]
) -> None:
    error = refusal(*connect(version, host="kafka.example.com"))

    assert type(error) is HostnameMismatchError
    assert "kafka.example.com:9093 shows a certificate for other names: localhost, 127.0.0.1, ::1" in str(error)
    assert "ssl.endpoint.identification.algorithm" not in str(error), "a hurried reader would take it"


def test_the_certificate_of_another_address_is_reported_with_its_names(connect: Connect) -> None:
    error = refusal(*connect(host="127.0.0.2"))

    assert type(error) is HostnameMismatchError
    assert "127.0.0.2:9093 shows a certificate for other names: localhost" in str(error)


def test_host_names_may_be_unchecked_with_a_warning(connect: Connect, caplog: pytest.LogCaptureFixture) -> None:
    shake(*connect({"ssl.endpoint.identification.algorithm": ""}, host="kafka.example.com"))

    assert [record.message for record in caplog.records if "identification" in record.message] == [
        "ssl.endpoint.identification.algorithm is empty: any host with a trusted certificate can pass for a broker"
    ]


def test_an_unchecked_name_still_needs_a_trusted_certificate(connect: Connect) -> None:
    other = serving(trustme.CA().issue_cert("localhost"))
    error = refusal(*connect({"ssl.endpoint.identification.algorithm": ""}, context=other))

    assert type(error) is CertificateNotTrustedError


def test_an_expired_certificate_is_reported_with_its_dates(
    connect: Connect, ca: trustme.CA, version: Mapping[str, Any]
) -> None:
    begin, end = datetime(2020, 1, 1, tzinfo=UTC), datetime(2021, 2, 3, 4, 5, tzinfo=UTC)
    old = ca.issue_cert("localhost", not_before=begin, not_after=end)
    error = refusal(*connect(version, context=serving(old)))

    assert type(error) is CertificateExpiredError
    assert "certificate has expired" in str(error)
    assert "valid from 2020-01-01 00:00 UTC to 2021-02-03 04:05 UTC" in str(error)


def test_a_certificate_that_is_not_valid_yet_is_reported_with_its_dates(connect: Connect, ca: trustme.CA) -> None:
    early = ca.issue_cert("localhost", not_before=NOW + timedelta(days=1))
    error = refusal(*connect(context=serving(early)))

    assert type(error) is CertificateExpiredError
    assert "not yet valid" in str(error)
    assert f"valid from {NOW + timedelta(days=1):%Y-%m-%d}" in str(error)


def test_an_expired_authority_is_reported(connect: Connect, tmp_path: Path) -> None:
    root, certificate = under_an_expired_root()
    file = tmp_path / "old.pem"
    file.write_bytes(root)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    (tmp_path / "server.pem").write_bytes(certificate)
    context.load_cert_chain(tmp_path / "server.pem")
    error = refusal(*connect({"ssl.truststore.location": str(file)}, context=context))

    assert type(error) is CertificateExpiredError
    assert "an authority for localhost:9093 is not valid now (certificate has expired)" in str(error)
    assert f"renew it in ssl.truststore.location={file}" in str(error)


def under_an_expired_root() -> tuple[bytes, bytes]:
    """A root, and a certificate that it issued, with its key: the certificate is valid, the root no more."""
    keys = [ec.generate_private_key(ec.SECP256R1()) for _ in range(2)]
    names = [x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]) for name in ("an old root", "broker")]
    begin = NOW - timedelta(days=100)
    ends = [NOW - timedelta(days=1), NOW + timedelta(days=1)]
    root, leaf = (
        x509.CertificateBuilder()
        .subject_name(names[number])
        .issuer_name(names[0])
        .public_key(keys[number].public_key())
        .serial_number(number + 1)
        .not_valid_before(begin)
        .not_valid_after(ends[number])
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=number == 0, path_length=None), critical=True)
        .sign(keys[0], hashes.SHA256())
        .public_bytes(Encoding.PEM)
        for number in range(2)
    )
    return root, leaf + keys[1].private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def test_a_chain_with_an_intermediate_certificate_is_verified(connect: Connect, ca: trustme.CA) -> None:
    shake(*connect(context=serving(ca.create_child_ca().issue_cert("localhost"))))


def test_a_certificate_in_the_trust_store_is_trusted_without_its_root(
    connect: Connect, ca: trustme.CA, tmp_path: Path
) -> None:
    middle = ca.create_child_ca()
    _write(tmp_path / "middle.pem", middle)

    shake(
        *connect(
            {"ssl.truststore.location": str(tmp_path / "middle.pem")}, context=serving(middle.issue_cert("localhost"))
        )
    )


# Our certificate


@pytest.fixture
def demanding(server_context: ssl.SSLContext, ca: trustme.CA) -> ssl.SSLContext:
    """A server that wants a certificate of the authority."""
    ca.configure_trust(server_context)
    server_context.verify_mode = ssl.CERT_REQUIRED
    return server_context


def test_a_certificate_that_the_broker_requires_is_sent(
    connect: Connect, demanding: ssl.SSLContext, client_certificate: trustme.LeafCert, version: Mapping[str, Any]
) -> None:
    layer, peer = connect({**version} | _inline(client_certificate), context=demanding)
    shake(layer, peer)

    shown = peer.tls.getpeercert()
    assert shown is not None
    assert shown["subjectAltName"] == (("DNS", "client.example.com"),)


def test_a_missing_client_certificate_is_reported_even_if_refused_late(
    connect: Connect, demanding: ssl.SSLContext
) -> None:
    layer, peer = connect({"ssl.enabled.protocols": "TLSv1.3"}, context=demanding)
    until(layer.handshake, peer.step)  # for us it is over before the server has judged
    error = refusal(layer, peer)

    assert type(error) is ClientCertificateRequiredError
    assert "localhost:9093 requires a client certificate, but none is configured; set ssl.keystore.location" in str(
        error
    )


def test_a_refused_client_certificate_is_reported_with_its_subject(
    connect: Connect, demanding: ssl.SSLContext, version: Mapping[str, Any]
) -> None:
    untrusted = trustme.CA(organization_name="Unknown here").issue_cert("client", common_name="an unknown client")
    error = refusal(*connect({**version} | _inline(untrusted), context=demanding))

    assert type(error) is ClientCertificateRequiredError
    assert "localhost:9093 refused our certificate of 'CN=an unknown client" in str(error)
    assert "Unknown here" in str(error)
    assert "the broker does not know who issued it" in str(error)


def test_an_expired_client_certificate_is_reported_with_its_date(
    connect: Connect, demanding: ssl.SSLContext, ca: trustme.CA
) -> None:
    old = ca.issue_cert("client", not_after=datetime(2021, 1, 1, tzinfo=UTC))
    error = refusal(*connect(_inline(old), context=demanding))

    assert type(error) is ClientCertificateRequiredError
    assert "valid until 2021-01-01 00:00 UTC" in str(error)


def test_a_refusal_is_reported_although_the_connection_was_reset(connect: Connect, demanding: ssl.SSLContext) -> None:
    """A broker closes while our first request is on its way: the write fails, and what it said before counts."""
    layer, peer = connect({"ssl.enabled.protocols": "TLSv1.3"}, context=demanding)
    until(layer.handshake, peer.step)
    until(lambda: peer.error is not None, peer.step)
    layer.write([b"a request"])
    readable(peer.sock)
    peer.sock.close()  # with unread bytes: this is a reset

    with pytest.raises(ClientCertificateRequiredError):
        until(lambda: False, lambda: layer.write([b"another"]))


def test_the_alert_of_an_older_server_suggests_the_client_certificate(
    connect: Connect, demanding: ssl.SSLContext
) -> None:
    error = refusal(*connect({"ssl.enabled.protocols": "TLSv1.2"}, context=demanding))

    assert isinstance(error, TlsHandshakeError)
    assert "ssl.keystore.location" in str(error)


# Nothing in common


def test_versions_without_overlap_are_reported(connect: Connect, server_context: ssl.SSLContext) -> None:
    server_context.maximum_version = ssl.TLSVersion.TLSv1_2
    error = refusal(*connect({"ssl.enabled.protocols": "TLSv1.3"}, context=server_context))

    assert type(error) is TlsHandshakeError
    assert (
        "'protocol version'; the enabled versions are TLSv1.3 to TLSv1.3 (ssl.enabled.protocols, ssl.protocol)"
        in str(error)
    )


def test_cipher_suites_without_overlap_are_reported(connect: Connect, server_context: ssl.SSLContext) -> None:
    server_context.maximum_version = ssl.TLSVersion.TLSv1_2
    server_context.set_ciphers("ECDHE-ECDSA-AES256-GCM-SHA384")
    ours = {"ssl.cipher.suites": "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"}
    error = refusal(*connect(ours, context=server_context))

    assert type(error) is TlsHandshakeError
    assert "'handshake failure': no TLS version or cipher suite in common" in str(error)
    assert "ssl.cipher.suites" in str(error)


def test_a_tls_1_3_suite_that_is_not_allowed_is_refused_once_chosen(connect: Connect) -> None:
    error = refusal(*connect({"ssl.cipher.suites": "TLS_AES_128_GCM_SHA256"}))

    assert type(error) is TlsHandshakeError
    assert "chose TLS_AES_256_GCM_SHA384, which is not in ssl.cipher.suites" in str(error)


def test_a_suite_that_is_allowed_is_used(connect: Connect) -> None:
    layer, peer = connect({"ssl.cipher.suites": "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"})
    shake(layer, peer)

    assert peer.tls.cipher() == ("ECDHE-ECDSA-AES128-GCM-SHA256", "TLSv1.2", 128)


# No TLS at all, and connections that end


@pytest.mark.parametrize(
    "answer",
    [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"SSH-2.0-OpenSSH_9.2\r\n", b"-ERR unknown\r\n", b"\0\0\0\x0a" + bytes(10)],
)
def test_a_peer_without_tls_is_reported_with_its_first_bytes(connect: Connect, answer: bytes) -> None:
    layer, peer = connect()
    layer.handshake()
    peer.sock.send(answer)
    readable(layer._sock)

    with pytest.raises(
        ProtocolMismatchError, match=re.escape(f"it answered {answer[:16]!r}; set security.protocol=PLAINTEXT")
    ):
        until(lambda: False, layer.handshake)


def test_a_peer_that_sends_one_byte_and_closes_is_reported_as_not_tls(connect: Connect) -> None:
    layer, peer = connect()
    layer.handshake()
    peer.sock.send(b"N")
    peer.sock.shutdown(socket.SHUT_WR)

    with pytest.raises(ProtocolMismatchError, match="it answered b'N'"):
        until(lambda: False, layer.handshake)


@pytest.mark.parametrize("reset", [False, True])
def test_a_peer_that_closes_after_the_client_hello_may_lack_tls(connect: Connect, reset: bool) -> None:
    layer, peer = connect()
    layer.handshake()
    _hang_up(peer, reset=reset)

    with pytest.raises(ProtocolMismatchError, match=r"after our TLS ClientHello .* set security.protocol=PLAINTEXT"):
        until(lambda: False, layer.handshake)


@pytest.mark.parametrize("reset", [False, True])
@pytest.mark.parametrize("share", [0.01, 0.2, 0.5, 0.9, 0.999])
def test_a_peer_that_closes_during_the_handshake_is_a_temporary_error(
    connect: Connect, version: Mapping[str, Any], share: float, reset: bool
) -> None:
    layer, peer = connect(version)
    layer.handshake()
    readable(peer.sock)
    peer.step_without_sending()
    flight = peer.take_outgoing()
    peer.sock.send(flight[: int(len(flight) * share)])
    readable(layer._sock)
    layer.handshake()
    _hang_up(peer, reset=reset)

    with pytest.raises(ConnectionFailedError) as caught:
        until(lambda: False, layer.handshake)
    assert type(caught.value) is ConnectionFailedError
    assert "localhost:9093 closed the connection during the TLS handshake" in str(caught.value)


def test_an_internal_error_of_the_peer_is_not_a_refusal(connect: Connect) -> None:
    layer, peer = connect()
    layer.handshake()
    peer.sock.send(bytes([0x15, 3, 3, 0, 2, 2, 80]))  # alert, fatal, internal error
    readable(layer._sock)

    with pytest.raises(ConnectionFailedError) as caught:
        until(lambda: False, layer.handshake)
    assert type(caught.value) is ConnectionFailedError
    assert "'internal error'" in str(caught.value)


def test_every_alert_is_an_ottla_error(trusting: Mapping[str, Any], version: Mapping[str, Any]) -> None:
    made = transport({**trusting, **version})
    for number in range(256):
        ours, theirs = tcp_pair()
        layer = made.open(ours, "localhost", 9093)
        layer.handshake()
        theirs.sendall(bytes([0x15, 3, 3, 0, 2, 2, number]))
        readable(ours)

        with pytest.raises(ConnectionFailedError, match="localhost:9093"):
            layer.handshake()
        layer.close()
        theirs.close()


def _hang_up(peer: Peer, *, reset: bool) -> None:
    with contextlib.suppress(BlockingIOError):
        while not reset and peer.sock.recv(65536):
            pass
    if reset:
        peer.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.sock.close()


def _write(file: Path, ca: trustme.CA) -> None:
    ca.cert_pem.write_to_path(str(file))


def _inline(certificate: trustme.LeafCert) -> dict[str, Any]:
    return {
        "ssl.keystore.key": certificate.private_key_pem.bytes().decode(),
        "ssl.keystore.certificate.chain": "".join(pem.bytes().decode() for pem in certificate.cert_chain_pems),
    }
