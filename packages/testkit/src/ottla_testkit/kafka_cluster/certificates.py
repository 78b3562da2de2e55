"""Certificates for tests: an authority, and certificates that it or another one signed. Needs `ottla-testkit[tls]`."""

from __future__ import annotations

import datetime
from pathlib import Path

from ottla_testkit.errors import KafkaUnavailableError
from ottla_testkit.processes.free_ports import HOST


class Certificates:
    """PEM files in *folder*, created at once; each attribute is the path of one.

    | attribute | file |
    |---|---|
    | `authority` | the authority that signed all but `untrusted`: a client's `ssl.truststore.location` |
    | `another_authority` | one that signed none of the brokers' certificates |
    | `alice` | a client's certificate and key: `ssl.keystore.location` |
    | `untrusted` | the same, signed by `another_authority` |
    | `broker`, `expired`, `elsewhere` | certificates and keys of brokers: for this machine, expired, for another host |
    """

    def __init__(self, folder: Path) -> None:
        try:
            import trustme
        except ImportError as error:
            raise KafkaUnavailableError("trustme is not installed: pip install 'ottla-testkit[tls]'") from error
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._ours = trustme.CA(organization_name="Ottla tests")
        self._theirs = trustme.CA(organization_name="Another authority")
        self.authority = folder / "authority.pem"
        self.another_authority = folder / "another_authority.pem"
        self._ours.cert_pem.write_to_path(self.authority)
        self._theirs.cert_pem.write_to_path(self.another_authority)
        self.broker = self._issue("broker", HOST, "localhost")
        self.expired = self._issue("expired", HOST, "localhost", days_left=-1)
        self.elsewhere = self._issue("elsewhere", "kafka.example.com")
        self.alice = self.client("alice")
        self.untrusted = self._issue("untrusted", common_name="untrusted", other_authority=True)

    def __repr__(self) -> str:
        return f"Certificates({str(self._folder)!r})"

    def client(self, name: str) -> Path:
        """Create a file with a new key and certificate of a client; it replaces the client's old one."""
        return self._issue(name, common_name=name)

    def revocation_list(self, name: str, *revoked: Path, days_left: int = 1) -> Path:
        """Create a file with our authority's CRL of these certificates, valid for *days_left* more days."""
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization

        now = datetime.datetime.now(datetime.UTC)
        ends = now + datetime.timedelta(days=days_left)
        builder = (
            x509.CertificateRevocationListBuilder()
            .issuer_name(x509.load_pem_x509_certificate(self._ours.cert_pem.bytes()).subject)
            .last_update(min(now, ends) - datetime.timedelta(days=1))
            .next_update(ends)
        )
        for file in revoked:
            serial_number = x509.load_pem_x509_certificate(file.read_bytes()).serial_number
            entry = x509.RevokedCertificateBuilder().serial_number(serial_number).revocation_date(now).build()
            builder = builder.add_revoked_certificate(entry)
        key = serialization.load_pem_private_key(self._ours.private_key_pem.bytes(), password=None)
        made = builder.sign(key, hashes.SHA256())  # type: ignore[arg-type]  # trustme's keys sign
        path = self._folder / f"{name}.crl"
        path.write_bytes(made.public_bytes(serialization.Encoding.PEM))
        return path

    def _issue(
        self,
        file: str,
        *names: str,
        common_name: str | None = None,
        days_left: int | None = None,
        other_authority: bool = False,
    ) -> Path:
        authority = self._theirs if other_authority else self._ours
        expires = None
        if days_left is not None:
            expires = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=days_left)
        issued = authority.issue_cert(*(names or (f"{file}.client",)), common_name=common_name, not_after=expires)
        path = self._folder / f"{file}.pem"
        made = self._folder / f".{file}.new"
        chain = b"".join(blob.bytes() for blob in issued.cert_chain_pems)
        made.write_bytes(_as_pkcs8(issued.private_key_pem.bytes()) + chain)
        made.replace(path)  # atomic: a program may watch the file
        return path


def _as_pkcs8(key: bytes) -> bytes:
    """Return a private key as PKCS#8, which Java can read."""
    from cryptography.hazmat.primitives import serialization

    return serialization.load_pem_private_key(key, password=None).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
