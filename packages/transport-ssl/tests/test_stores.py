"""Trust stores and key stores in every format; each that cannot be used is refused with key, file and a remedy."""

from __future__ import annotations

import builtins
import os
import ssl
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
    pkcs12,
)
from cryptography.x509.oid import NameOID
from locked_keys import locked_pem

from ottla.errors import AuthenticationError, ConfigError, PluginNotFoundError
from ottla.interfaces import Secret
from ottla_transport_ssl import TlsLayer
from ottla_transport_ssl.stores import StoreSource, identity
from tls_peers import Peer, shake, transport

Connect = Callable[..., tuple[TlsLayer, Peer]]

PASSWORD = "hunter2-Straße"


class Stores:
    """The client's certificate and the authority's, written in every way that there is."""

    def __init__(self, folder: Path, ca: trustme.CA, leaf: trustme.LeafCert) -> None:
        self._folder = folder
        self.chain = b"".join(pem.bytes() for pem in leaf.cert_chain_pems)
        self.key = leaf.private_key_pem.bytes()
        self.authority = ca.cert_pem.bytes()

    def file(self, name: str, content: bytes) -> str:
        file = self._folder / name
        file.write_bytes(content)
        return str(file)

    def encrypted_key(self, format: PrivateFormat = PrivateFormat.PKCS8) -> bytes:
        key = load_pem_private_key(self.key, None)
        return key.private_bytes(Encoding.PEM, format, BestAvailableEncryption(PASSWORD.encode()))

    def pkcs12(self, *, key: bool = True, password: str | None = PASSWORD) -> bytes:
        encryption: KeySerializationEncryption = NoEncryption()
        if password is not None:
            encryption = BestAvailableEncryption(password.encode())
        authority = x509.load_pem_x509_certificate(self.authority)
        if not key:
            return pkcs12.serialize_key_and_certificates(b"ca", None, None, [authority], encryption)
        own, *others = x509.load_pem_x509_certificates(self.chain)
        private: Any = load_pem_private_key(self.key, None)
        return pkcs12.serialize_key_and_certificates(b"ours", private, own, others, encryption)


@pytest.fixture
def stores(tmp_path: Path, ca: trustme.CA, client_certificate: trustme.LeafCert) -> Stores:
    return Stores(tmp_path, ca, client_certificate)


@pytest.fixture
def demanding(server_context: ssl.SSLContext, ca: trustme.CA) -> ssl.SSLContext:
    ca.configure_trust(server_context)
    server_context.verify_mode = ssl.CERT_REQUIRED
    return server_context


# What works


def test_the_client_certificate_may_come_in_any_format(
    connect: Connect, stores: Stores, demanding: ssl.SSLContext
) -> None:
    pem = stores.file("pem", stores.chain + stores.key)
    locked = stores.file("locked", stores.encrypted_key() + stores.chain)
    older = stores.file("older", stores.chain + stores.encrypted_key(PrivateFormat.TraditionalOpenSSL))
    store = stores.file("p12", stores.pkcs12())
    for settings in (
        {"ssl.keystore.location": pem},
        {"ssl.keystore.location": Path(pem), "ssl.keystore.type": "PEM"},
        {"ssl.keystore.location": locked, "ssl.key.password": PASSWORD},
        {"ssl.keystore.location": older, "ssl.key.password": PASSWORD},
        {"ssl.keystore.location": store, "ssl.keystore.password": PASSWORD},
        {"ssl.keystore.location": store, "ssl.keystore.password": PASSWORD, "ssl.keystore.type": "PKCS12"},
        {"ssl.keystore.location": store, "ssl.keystore.password": PASSWORD, "ssl.keystore.type": "JKS"},
        {"ssl.keystore.key": stores.key.decode(), "ssl.keystore.certificate.chain": stores.chain.decode()},
        {
            "ssl.keystore.key": stores.encrypted_key().decode().replace("\n", " "),
            "ssl.keystore.certificate.chain": stores.chain.decode().replace("\n", "\\n"),
            "ssl.key.password": PASSWORD,
        },
    ):
        layer, peer = connect(settings, context=demanding)
        shake(layer, peer)
        assert (peer.tls.getpeercert() or {})["subjectAltName"] == (("DNS", "client.example.com"),)


def test_authorities_may_come_in_any_format(connect: Connect, stores: Stores) -> None:
    many = b"# comments\n" + trustme.CA().cert_pem.bytes() + stores.authority
    for settings in (
        {"ssl.truststore.location": stores.file("pem", many), "ssl.truststore.type": "PEM"},
        {
            "ssl.truststore.location": stores.file("p12", stores.pkcs12(key=False)),
            "ssl.truststore.password": PASSWORD,
        },
        {"ssl.truststore.location": stores.file("open.p12", stores.pkcs12(key=False, password=None))},
        {"ssl.truststore.location": None, "ssl.truststore.certificates": many.decode()},
    ):
        shake(*connect(settings))


# What is refused


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "it cannot be read: No such file or directory"),
        (b"", "it is empty"),
        (b" \n", "it is empty"),
        (b"hello", "it is neither a PEM text with -----BEGIN"),
        (b"-----BEGIN CERTIFICATE-----\n!!\n-----END CERTIFICATE-----", "its CERTIFICATE block is damaged"),
        (b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----", "entry 1 of 1 is not a certificate"),
        (b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----", "there is no certificate in it"),
        (b"\x30\x82garbage", "it needs a password, or is damaged; set ssl.truststore.password"),
        (b"\xfe\xed\xfe\xed\0\0\0\2", "keytool -list -rfc -keystore {file} > {file}.pem"),
    ],
)
def test_an_unusable_trust_store_is_refused(stores: Stores, content: bytes | None, said: str) -> None:
    file = stores.file("store", content or b"")
    if content is None:
        os.unlink(file)

    with pytest.raises(ConfigError) as caught:
        transport({"ssl.truststore.location": file})

    assert f"ssl.truststore.location={file}: " in str(caught.value)
    assert said.format(file=file) in str(caught.value)


def test_a_special_file_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(ConfigError, match=r"it cannot be read: (it is not a regular file|Is a directory)"):
            transport({"ssl.truststore.location": str(path)})


def test_a_key_with_too_many_iterations_is_refused_at_once(stores: Stores) -> None:
    certificate = trustme.CA().issue_cert("client.example.com").cert_chain_pems[0].bytes()
    file = stores.file("slow", certificate + locked_pem(2**31 - 1))
    inline = {
        "ssl.keystore.certificate.chain": certificate.decode(),
        "ssl.keystore.key": locked_pem(2**31 - 1).decode(),
    }

    for settings in ({"ssl.keystore.location": file}, inline):
        with pytest.raises(ConfigError, match=r"ssl\.keystore\..*needs more than 5,000,000 iterations"):
            transport({**settings, "ssl.key.password": "secret"})


def test_a_file_above_the_size_limit_is_not_read(tmp_path: Path) -> None:
    with open(tmp_path / "large", "wb") as file:
        file.truncate(1 << 40)

    with pytest.raises(ConfigError, match="it is larger than 16 MB"):
        transport({"ssl.truststore.location": str(tmp_path / "large")})


@pytest.mark.skipif(os.geteuid() == 0, reason="everything is readable for root")
def test_an_unreadable_file_is_refused(stores: Stores) -> None:
    file = stores.file("secret", stores.authority)
    os.chmod(file, 0)
    with pytest.raises(ConfigError, match="it cannot be read: Permission denied"):
        transport({"ssl.truststore.location": file})


def test_a_type_that_contradicts_the_content_is_refused(stores: Stores) -> None:
    with pytest.raises(ConfigError, match=r"it is PEM, not PKCS12; correct ssl\.truststore\.type"):
        transport({"ssl.truststore.location": stores.file("pem", stores.authority), "ssl.truststore.type": "PKCS12"})
    with pytest.raises(ConfigError, match=r"it is PKCS12, not PEM; correct ssl\.keystore\.type"):
        transport({"ssl.keystore.location": stores.file("p12", stores.pkcs12()), "ssl.keystore.type": "PEM"})


def test_an_unusable_key_store_is_refused(stores: Stores) -> None:
    other = trustme.CA().issue_cert("other").private_key_pem.bytes()
    garbage = b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"
    weak = rsa.generate_private_key(65537, 1024)
    cases: list[tuple[bytes, dict[str, Any], str]] = [
        (stores.chain, {}, "there are no private keys in it; it needs one"),
        (stores.chain + stores.key + other, {}, "there are 2 private keys in it; it needs one"),
        (stores.key, {}, "there is no certificate in it"),
        (stores.chain + other, {}, "the private key does not belong to the first certificate, 'CN=our client"),
        (stores.chain + garbage, {}, "the certificate or the private key in it is damaged"),
        (stores.chain + stores.encrypted_key(), {}, "the private key is encrypted; set ssl.key.password"),
        (stores.chain + stores.encrypted_key(), {"ssl.key.password": "hunter2"}, "ssl.key.password is wrong"),
        (stores.chain + stores.encrypted_key(), {"ssl.key.password": "hunter2" * 200}, "ssl.key.password is wrong"),
        (
            stores.pkcs12(),
            {"ssl.keystore.password": "hunter2"},
            "ssl.keystore.password is wrong, or the file is damaged",
        ),
        (stores.pkcs12(), {}, "it needs a password, or is damaged; set ssl.keystore.password"),
        (
            stores.pkcs12(key=False),
            {"ssl.keystore.password": PASSWORD},
            "there is no private key in it; is it a trust store?",
        ),
        (b"\xfe\xed\xfe\xed", {}, "keytool -importkeystore -srckeystore"),
        (_self_signed(weak), {}, "too weak for this OpenSSL"),
    ]
    for content, settings, said in cases:
        file = stores.file("store", content)
        with pytest.raises(ConfigError) as caught:
            transport({"ssl.keystore.location": file, **settings})

        assert f"ssl.keystore.location={file}: " in str(caught.value)
        assert said in str(caught.value)
        assert "hunter2" not in _everything(caught.value)


def test_both_stores_are_checked_before_anything_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        transport({"ssl.truststore.location": str(tmp_path / "a"), "ssl.keystore.location": str(tmp_path / "b")})

    assert len(caught.value.problems) == 2


def test_pkcs12_without_its_library_says_what_to_install(stores: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
    file = stores.file("p12", stores.pkcs12())
    real = builtins.__import__

    def missing(name: str, *rest: Any) -> Any:
        if name.startswith("cryptography"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(PluginNotFoundError, match=r"pip install 'ottla-transport-ssl\[pkcs12\]'"):
        transport({"ssl.keystore.location": file})


def test_no_password_is_requested_on_the_terminal(stores: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenSSL would ask for the password of an encrypted key if it did not get an empty one."""
    monkeypatch.setattr(sys, "stdin", None)
    older = stores.encrypted_key(PrivateFormat.TraditionalOpenSSL)
    with pytest.raises(ConfigError, match="the private key is encrypted"):
        transport({"ssl.keystore.location": stores.file("store", stores.chain + older)})


def test_keys_and_passwords_are_in_no_repr(stores: Stores) -> None:
    source = StoreSource(
        key="ssl.keystore.location",
        type=None,
        location=stores.file("p12", stores.pkcs12()),
        password=Secret(PASSWORD),
        key_password=Secret(PASSWORD),
    )
    shown = repr(source) + repr(identity(source)) + str(source)

    assert PASSWORD not in shown
    assert "PRIVATE KEY" not in shown


# Passwords from functions


@pytest.mark.parametrize("kind", ["PEM", "PKCS12"])
def test_a_password_from_a_function_opens_the_store(
    connect: Connect, stores: Stores, demanding: ssl.SSLContext, kind: str
) -> None:
    settings: dict[str, Any] = (
        {"ssl.keystore.location": stores.file("p12", stores.pkcs12()), "ssl.keystore.password": lambda: PASSWORD}
        if kind == "PKCS12"
        else {
            "ssl.keystore.location": stores.file("pem", stores.chain + stores.encrypted_key()),
            "ssl.key.password": lambda: PASSWORD,
        }
    )

    layer, peer = connect(settings, context=demanding)

    shake(layer, peer)
    assert (peer.tls.getpeercert() or {})["subjectAltName"] == (("DNS", "client.example.com"),)


def test_a_coroutine_may_give_the_password(stores: Stores) -> None:
    async def password() -> str:
        return PASSWORD

    transport({"ssl.keystore.location": stores.file("p12", stores.pkcs12()), "ssl.keystore.password": password})


def test_a_key_renewed_with_its_password_is_opened_with_the_new_one(stores: Stores) -> None:
    passwords = iter([PASSWORD, "the-next-one"])
    settings = {
        "ssl.keystore.location": stores.file("store", stores.pkcs12()),
        "ssl.keystore.password": lambda: next(passwords),
    }
    made = transport(settings)
    before = vars(made)["_setups"].current().context
    stores.file("store", stores.pkcs12(password="the-next-one"))

    assert vars(made)["_setups"].current().context is not before


@pytest.mark.parametrize("key", ["ssl.keystore.password", "ssl.key.password"])
@pytest.mark.parametrize(
    ("error", "reported"),
    [
        (ValueError(PASSWORD), "raised ValueError ("),
        (OSError(PASSWORD), "raised OSError ("),
        (AuthenticationError("the vault is sealed"), "the vault is sealed"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_error_of_a_password_function_is_not_quoted(
    stores: Stores, key: str, error: Exception, reported: str
) -> None:
    def password() -> str:
        raise error

    content = stores.pkcs12() if key == "ssl.keystore.password" else stores.chain + stores.encrypted_key()
    with pytest.raises(ConfigError) as caught:
        transport({"ssl.keystore.location": stores.file("store", content), key: password})

    assert f"{key}" in str(caught.value)
    assert reported in str(caught.value)
    assert PASSWORD not in _everything(caught.value)


@pytest.mark.parametrize(
    ("given", "reported"),
    [
        (b"x", "returned a bytes; a password must be a string"),
        (None, "returned a NoneType"),
        ("x", "is wrong, or the file is damaged"),
    ],
)
def test_a_result_that_is_not_a_password_is_refused(stores: Stores, given: object, reported: str) -> None:
    with pytest.raises(ConfigError) as caught:
        transport(
            {
                "ssl.keystore.location": stores.file("p12", stores.pkcs12()),
                "ssl.keystore.password": lambda: given,
            }
        )

    assert reported in str(caught.value)


def _everything(error: BaseException | None) -> str:
    """The text of a traceback."""
    said = ""
    while error is not None:
        said += f"{error!r}\n"
        error = error.__cause__ or error.__context__
    return said


def _self_signed(key: rsa.RSAPrivateKey) -> bytes:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "weak")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now)
        .not_valid_after(now + timedelta(days=100))
        .sign(key, hashes.SHA256())
    )
    return certificate.public_bytes(Encoding.PEM) + key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
