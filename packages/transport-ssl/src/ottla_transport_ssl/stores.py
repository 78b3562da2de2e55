"""Trust stores and key stores, read from a file or from the configuration, in any supported format.

This module detects the format and checks the contents. Errors are ConfigErrors that name key and file.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Final, NoReturn

import attrs

from ottla.config.key_derivation import check_iterations
from ottla.config.regular_files import read_regular_file, reason_of
from ottla.errors import ConfigError, files_remedy
from ottla.interfaces import Secret
from ottla_transport_ssl.passwords import Password, current
from ottla_transport_ssl.pem import Block, blocks
from ottla_transport_ssl.pkcs12 import Pkcs12, Pkcs12Error, read_pkcs12

MAX_BYTES: Final = 16 << 20
"""Maximum bytes of a file; the certificates of all public authorities together take less than 1 MB."""

_JKS: Final = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
_PEM: Final = b"-----BEGIN "
_DER: Final = b"\x30"


class StoreType(enum.StrEnum):
    """Java's formats; JKS is detected only to report a remedy."""

    PEM = "PEM"
    PKCS12 = "PKCS12"
    JKS = "JKS"


@attrs.frozen(kw_only=True)
class StoreSource:
    """A store's location, its configuration key, and its password."""

    key: str
    type: StoreType | None
    location: str | None = None
    inline: Secret[str] | None = attrs.field(default=None, repr=False)
    password: Password | None = attrs.field(default=None, repr=False)
    password_key: str = ""
    key_password: Password | None = attrs.field(default=None, repr=False)

    def __str__(self) -> str:
        return f"{self.key}={self.location}" if self.location else self.key


@attrs.frozen(kw_only=True)
class Identity:
    """The client's certificate, its chain, and the private key as PEM; `password` decrypts an encrypted key."""

    chain: Sequence[bytes] = attrs.field(repr=False)
    key: bytes = attrs.field(repr=False)
    encrypted: bool
    password: Secret[str] | None = attrs.field(repr=False)


def authorities(source: StoreSource) -> Sequence[bytes]:
    """Return the certificates of a trust store, in DER."""
    content = read_content(source)
    match _type(source, content):
        case StoreType.PEM:
            found = [block.body for block in _blocks(source, content) if block.is_certificate]
        case StoreType.PKCS12:
            found = list(_pkcs12(source, content).certificates)
        case StoreType.JKS:
            _refuse_jks(source)
    if not found:
        _refuse(source, "there is no certificate in it")
    return found


def identity(source: StoreSource) -> Identity:
    """Return the certificate and the key of a key store."""
    content = read_content(source)
    match _type(source, content):
        case StoreType.PEM:
            return _pem_identity(source, list(_blocks(source, content)))
        case StoreType.PKCS12:
            return _pkcs12_identity(source, content)
        case StoreType.JKS:
            _refuse_jks(source)


def read_content(source: StoreSource) -> Secret[bytes]:
    """Return the contents of the file or of the configuration. Raises ConfigError."""
    if source.inline is not None:
        return Secret(source.inline.reveal().encode())
    assert source.location is not None, "a store is in a file or in the configuration"
    try:
        content = Secret(read_regular_file(source.location, max_bytes=MAX_BYTES))
    except (OSError, ValueError) as cause:
        _refuse(source, f"it cannot be read: {reason_of(cause)}{files_remedy(cause)}")
    if not content.reveal().strip():
        _refuse(source, "it is empty")
    return content


def _check_iterations(source: StoreSource, content: Secret[bytes]) -> None:
    try:
        check_iterations(content)
    except ValueError as cause:
        _refuse(source, str(cause))


def _type(source: StoreSource, content: Secret[bytes]) -> StoreType:
    """Return the format of the content; a configured type that contradicts it is refused."""
    seen = _seen(content.reveal())
    # Java, too, accepts PKCS12 for JKS: since Java 9 keytool writes PKCS12 under that name.
    wanted = StoreType.PKCS12 if (source.type, seen) == (StoreType.JKS, StoreType.PKCS12) else source.type
    if seen is None:
        _refuse(source, f"it is neither a PEM text with {_PEM.decode()}... nor PKCS12")
    if wanted not in (None, seen) and seen is not StoreType.JKS:
        _refuse(source, f"it is {seen}, not {wanted}; correct {source.key.rsplit('.', 1)[0]}.type")
    return seen


def _seen(content: bytes) -> StoreType | None:
    if content.startswith(_JKS):
        return StoreType.JKS
    if _PEM in content:
        return StoreType.PEM
    return StoreType.PKCS12 if content.startswith(_DER) else None


def _blocks(source: StoreSource, content: Secret[bytes]) -> Sequence[Block]:
    try:
        return list(blocks(content.reveal()))
    except ValueError as cause:
        damage = str(cause)
    _refuse(source, damage)  # without a context, whose frames hold the text


def _pem_identity(source: StoreSource, found: Sequence[Block]) -> Identity:
    chain = [block.body for block in found if block.is_certificate]
    keys = [block for block in found if block.is_key]
    if not chain:
        _refuse(source, "there is no certificate in it", remedy="it needs the client's, with its chain and key")
    if len(keys) != 1:
        _refuse(source, f"there are {len(keys) or 'no'} private keys in it", remedy="it needs one")
    password = current(source.key_password, key="ssl.key.password") if keys[0].is_encrypted else None
    if keys[0].is_encrypted and password is None:
        _refuse(source, "the private key is encrypted", remedy="set ssl.key.password")
    _check_iterations(source, Secret(keys[0].written()))
    return Identity(chain=chain, key=keys[0].written(), encrypted=keys[0].is_encrypted, password=password)


def _pkcs12_identity(source: StoreSource, content: Secret[bytes]) -> Identity:
    found = _pkcs12(source, content)
    if found.key is None:
        _refuse(source, "there is no private key in it", remedy="is it a trust store?")
    if not found.chain:
        _refuse(source, "there is no certificate for the private key in it")
    return Identity(chain=found.chain, key=found.key, encrypted=False, password=None)


def _pkcs12(source: StoreSource, content: Secret[bytes]) -> Pkcs12:
    password = current(source.password, key=source.password_key)
    _check_iterations(source, content)
    try:
        return read_pkcs12(content, password)
    except Pkcs12Error as cause:
        damage = None if cause.locked else str(cause)
    if damage is not None:  # outside the except block, so without a context, whose frames lead into a library
        _refuse(source, damage)
    if password is None:
        _refuse(source, "it needs a password, or is damaged", remedy=f"set {source.password_key}")
    _refuse(source, f"{source.password_key} is wrong, or the file is damaged")


def _refuse_jks(source: StoreSource) -> NoReturn:
    file = source.location
    _refuse(
        source,
        "it is in Java's own format (JKS), which only Java can read",
        remedy=f"keytool -list -rfc -keystore {file} > {file}.pem"
        if "truststore" in source.key
        else f"keytool -importkeystore -srckeystore {file} -destkeystore {file}.p12 -deststoretype PKCS12, "
        f"then openssl pkcs12 -in {file}.p12 -out {file}.pem, which asks for a password to set as ssl.key.password",
    )


def _refuse(source: StoreSource, what: str, *, remedy: str = "") -> NoReturn:
    raise ConfigError([f"{source}: {what}" + (f"; {remedy}" if remedy else "")])
