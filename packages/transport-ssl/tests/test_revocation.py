"""Revocation lists (`ssl.crl.location`): real handshakes with revoked certificates, and with lists that are no good."""

from __future__ import annotations

import contextlib
import ssl
from datetime import UTC, datetime
from pathlib import Path

import pytest
from authority_kit import DAY, Authority, Issued
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import CertificateNotTrustedError, CertificateRevokedError, ConfigError, RevocationUnknownError
from ottla_transport_ssl import TlsLayer, TlsTransport
from ottla_transport_ssl.revocation import RevocationList
from tls_peers import Peer, shake, tcp_pair, transport

NOW = datetime.now(UTC)


class Setup:
    """An authority, a broker with a certificate of it, and the file with the lists."""

    def __init__(self, folder: Path, version: str) -> None:
        self.folder = folder
        self.version = version
        self.authority = Authority("the authority")
        self.broker = self.authority.issue("broker", names=["localhost"])
        self.file = folder / "lists.pem"

    def write(self, *lists: x509.CertificateRevocationList) -> None:
        self.file.write_bytes(b"".join(each.public_bytes(Encoding.PEM) for each in lists))

    def transport(self, **settings: str) -> TlsTransport:
        return transport(
            {
                "ssl.enabled.protocols": self.version,
                "ssl.truststore.certificates": self.authority.pem.decode(),
                "ssl.crl.location": str(self.file),
                **settings,
            }
        )

    def meet(self, made: TlsTransport | None = None, *, shows: Issued | None = None) -> list[tuple[str, str]]:
        """Connect; what the handshake came to. Raises its refusal."""
        ours, theirs = tcp_pair()
        layer = (made or self.transport()).open(ours, "localhost", 9093)
        assert isinstance(layer, TlsLayer)
        with contextlib.closing(layer), contextlib.closing(theirs):
            shake(layer, Peer(theirs, (shows or self.broker).serving(self.folder)))
            return list(layer.details())


@pytest.fixture(params=["TLSv1.2", "TLSv1.3"])
def setup(request: pytest.FixtureRequest, tmp_path: Path) -> Setup:
    return Setup(tmp_path, request.param)


def test_a_certificate_that_its_issuer_has_revoked_is_refused(setup: Setup) -> None:
    setup.write(setup.authority.revoke(setup.broker))

    with pytest.raises(CertificateRevokedError) as caught:
        setup.meet()

    assert "the certificate of localhost:9093, 'CN=broker' (issued by 'CN=the authority')," in str(caught.value)
    assert f"(ssl.crl.location={setup.file}); the broker needs a new one" in str(caught.value)
    assert str(caught.value).count("; ") == 1, "what helps stands behind the only one: the doctor takes it from there"
    assert isinstance(caught.value.__cause__, ssl.SSLCertVerificationError)


def test_a_certificate_on_no_list_is_accepted_and_the_doctor_says_so(setup: Setup) -> None:
    setup.write(setup.authority.revoke(setup.authority.issue("another")))

    assert ("revocation", f"not revoked by ssl.crl.location={setup.file}") in setup.meet()


def test_without_lists_the_doctor_reports_that_revocation_is_unchecked(setup: Setup) -> None:
    assert ("revocation", "not checked") in setup.meet(setup.transport(**{"ssl.crl.location": ""}))


def test_lists_of_several_issuers_may_be_in_any_order(setup: Setup) -> None:
    others = [Authority(f"authority {number}").revoke() for number in range(3)]
    setup.write(*others[:2], setup.authority.revoke(setup.broker), *others[2:])

    with pytest.raises(CertificateRevokedError):
        setup.meet()


def test_the_newest_of_two_lists_is_used(setup: Setup) -> None:
    older = setup.authority.revoke(since=NOW - 3 * DAY, until=NOW + DAY)
    newer = setup.authority.revoke(setup.broker, since=NOW - 2 * DAY, until=NOW + DAY)
    setup.write(older, newer)

    with pytest.raises(CertificateRevokedError):
        setup.meet()


def test_a_single_list_in_der_is_read_too(setup: Setup) -> None:
    setup.file.write_bytes(setup.authority.revoke(setup.broker).public_bytes(Encoding.DER))

    with pytest.raises(CertificateRevokedError):
        setup.meet()


def test_without_a_list_of_the_issuer_no_broker_is_trusted(setup: Setup) -> None:
    setup.write(Authority("another authority").revoke())

    with pytest.raises(RevocationUnknownError) as caught:
        setup.meet()

    assert f"ssl.crl.location={setup.file} has no revocation list of 'CN=the authority'" in str(caught.value)
    assert "only of 'CN=another authority'; add that issuer's list to the file" in str(caught.value)
    assert str(caught.value).count("; ") == 1


def test_an_expired_list_is_refused_with_its_date(setup: Setup) -> None:
    ended = datetime(2024, 2, 29, 12, 30, tzinfo=UTC)
    setup.write(setup.authority.revoke(since=ended - DAY, until=ended))

    with pytest.raises(RevocationUnknownError) as caught:
        setup.meet()

    assert f"the revocation list of 'CN=the authority' in ssl.crl.location={setup.file} expired on 2024-02-29" in str(
        caught.value
    )
    assert "; download the issuer's newest list into the file" in str(caught.value)
    assert str(caught.value).count("; ") == 1


@pytest.mark.parametrize("wrong", ["signature", "future"])
def test_an_unusable_list_is_refused_with_the_reason(setup: Setup, wrong: str) -> None:
    if wrong == "signature":
        setup.write(setup.authority.revoke(key=ec.generate_private_key(ec.SECP256R1())))
    else:
        setup.write(setup.authority.revoke(since=NOW + DAY, until=NOW + 2 * DAY))

    said = {"signature": "CRL signature failure", "future": "CRL is not yet valid"}
    with pytest.raises(RevocationUnknownError, match=f"cannot be used: {said[wrong]}; download"):
        setup.meet()


def test_a_partial_list_of_the_issuer_does_not_cover_the_broker(setup: Setup) -> None:
    """A list may be for authorities only (RFC 5280, 5.2.5); then it says nothing of a broker's certificate."""
    only_authorities = x509.IssuingDistributionPoint(None, None, False, True, None, False, False)
    setup.write(setup.authority.revoke(extension=only_authorities))

    with pytest.raises(
        RevocationUnknownError, match=r"the revocation list of 'CN=the authority' in .* cannot be used: "
    ):
        setup.meet()


def test_a_new_list_is_used_by_the_next_connection(setup: Setup) -> None:
    setup.write(setup.authority.revoke())
    made = setup.transport()
    setup.meet(made)

    setup.write(setup.authority.revoke(setup.broker, setup.authority.issue("longer")))

    with pytest.raises(CertificateRevokedError):
        setup.meet(made)


def test_only_the_broker_certificate_is_checked_as_in_librdkafka(setup: Setup) -> None:
    middle = Authority("the middle", above=setup.authority)
    setup.write(setup.authority.revoke(middle), middle.revoke())
    broker = middle.issue("broker", names=["localhost"])

    setup.meet(shows=broker)
    setup.write(middle.revoke(broker))
    with pytest.raises(CertificateRevokedError):
        setup.meet(shows=broker)


def test_a_certificate_among_the_lists_is_not_trusted(setup: Setup) -> None:
    """OpenSSL would take it for one more authority, as it does for librdkafka."""
    another = Authority("another")
    lists = [each.revoke().public_bytes(Encoding.PEM) for each in (setup.authority, another)]
    setup.file.write_bytes(another.pem + b"".join(lists))

    with pytest.raises(CertificateNotTrustedError):
        setup.meet(shows=another.issue("broker", names=["localhost"]))


def test_an_unknown_issuer_is_reported_before_its_missing_list(setup: Setup) -> None:
    setup.write(setup.authority.revoke())

    with pytest.raises(CertificateNotTrustedError):
        setup.meet(shows=Authority("another").issue("broker", names=["localhost"]))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "it cannot be read: No such file or directory"),
        (b"", "it is empty"),
        (b"hello", "there is no revocation list in it; it must have a list of each issuer, as PEM"),
        (Authority().pem, "there is no revocation list in it"),
        (b"-----BEGIN X509 CRL-----\n!\n-----END X509 CRL-----\n", "its X509 CRL block is damaged"),
        (
            b"-----BEGIN X509 CRL-----\nMAA=\n-----END X509 CRL-----\n",
            "a revocation list in it is damaged; download it again",
        ),
        (b"\x30\x00", "a revocation list in it is damaged"),
    ],
)
def test_a_file_without_lists_is_refused_when_the_producer_is_created(
    tmp_path: Path, content: bytes | None, said: str
) -> None:
    file = tmp_path / "lists.pem"
    if content is not None:
        file.write_bytes(content)

    with pytest.raises(ConfigError) as caught:
        transport({"ssl.crl.location": str(file)})

    assert f"ssl.crl.location={file}: {said}" in str(caught.value)


def test_a_folder_is_refused_as_not_a_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"ssl\.crl\.location=.*it cannot be read"):
        transport({"ssl.crl.location": str(tmp_path)})


def test_a_list_has_its_issuer_and_the_date_of_the_next_one() -> None:
    due = datetime(2031, 5, 6, 7, 8, 9, tzinfo=UTC)
    read = RevocationList.read(Authority("us").revoke(until=due).public_bytes(Encoding.DER))

    assert read == RevocationList(issuer="CN=us", next_update=due)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_list_or_a_value_error(der: bytes) -> None:
    with contextlib.suppress(ValueError):
        RevocationList.read(der)


@given(st.data())
def test_a_list_with_changed_bytes_is_read_or_refused(data: st.DataObject) -> None:
    der = bytearray(_LIST)
    for _ in range(data.draw(st.integers(1, 4))):
        der[data.draw(st.integers(0, len(der) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(ValueError):
        RevocationList.read(bytes(der))


_LIST = Authority("us").revoke().public_bytes(Encoding.DER)
