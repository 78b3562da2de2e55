"""An authority of a test that issues what trustme does not: certificates without alternative names, and CRLs."""

from __future__ import annotations

import ipaddress
import ssl
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import attrs
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

DAY = timedelta(days=1)


def named(name: str) -> x509.Name:
    """A distinguished name that is one common name."""
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def alternative(name: str | x509.GeneralName) -> x509.GeneralName:
    """A subjectAltName: an address, the name of a host, or whatever else a test wants."""
    if isinstance(name, x509.GeneralName):
        return name
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


@attrs.frozen(kw_only=True)
class Issued:
    """A certificate with its key; `chain` are the certificates of those above it, but for the root."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey
    chain: Sequence[x509.Certificate] = ()

    @property
    def pem(self) -> bytes:
        """The key, the certificate and the chain in one text."""
        certificates = [self.certificate, *self.chain]
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()) + b"".join(
            each.public_bytes(Encoding.PEM) for each in certificates
        )

    def serving(self, folder: Path) -> ssl.SSLContext:
        """A server that shows it."""
        file = folder / f"{self.certificate.serial_number}.pem"
        file.write_bytes(self.pem)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
        context.num_tickets = 0
        return context


class Authority:
    """Issues certificates and lists of those that it has revoked. With *above* it is an intermediate one."""

    def __init__(self, name: str = "authority", *, above: Authority | None = None, days: int = 30) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = named(name)
        self.above = above
        issuer = above or self
        self.certificate = issuer._sign(name, self.key, ca=True, days=days)

    @property
    def pem(self) -> bytes:
        """Its own certificate, for a trust store."""
        return self.certificate.public_bytes(Encoding.PEM)

    def issue(self, common_name: str, *, names: Sequence[str | x509.GeneralName] = (), days: int = 30) -> Issued:
        """A certificate for *days* from now on, with these alternative names or none."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._sign(common_name, key, names=names, days=days)
        return Issued(certificate=certificate, key=key, chain=[self.certificate] if self.above else [])

    def revoke(
        self,
        *revoked: Issued | Authority,
        since: datetime | None = None,
        until: datetime | None = None,
        key: ec.EllipticCurvePrivateKey | None = None,
        extension: x509.ExtensionType | None = None,
    ) -> x509.CertificateRevocationList:
        """The list with these, valid from yesterday to tomorrow, signed by our key or by another one."""
        now = datetime.now(UTC)
        builder = (
            x509.CertificateRevocationListBuilder()
            .issuer_name(self.name)
            .last_update(since or now - DAY)
            .next_update(until or now + DAY)
        )
        if extension is not None:
            builder = builder.add_extension(extension, critical=True)
        for each in revoked:
            builder = builder.add_revoked_certificate(
                x509.RevokedCertificateBuilder()
                .serial_number(each.certificate.serial_number)
                .revocation_date(now - DAY)
                .build()
            )
        return builder.sign(key or self.key, hashes.SHA256())

    def _sign(
        self,
        name: str,
        key: ec.EllipticCurvePrivateKey,
        *,
        names: Sequence[str | x509.GeneralName] = (),
        days: int = 30,
        ca: bool = False,
    ) -> x509.Certificate:
        builder = (
            x509.CertificateBuilder()
            .subject_name(named(name))
            .issuer_name(self.name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(datetime.now(UTC) - 100 * DAY)
            .not_valid_after(datetime.now(UTC) + days * DAY)
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        )
        if names:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([alternative(each) for each in names]), critical=False
            )
        return builder.sign(self.key, hashes.SHA256())
