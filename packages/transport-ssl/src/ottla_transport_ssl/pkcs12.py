"""PKCS12 files, by the library `cryptography`, which only they need."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from ottla.errors import PluginNotFoundError
from ottla.interfaces import Secret


class Pkcs12Error(Exception):
    """The file cannot be read; `locked`: probably because the password is missing or wrong."""

    def __init__(self, message: str, *, locked: bool) -> None:
        self.locked = locked
        super().__init__(message)


@attrs.frozen(kw_only=True)
class Pkcs12:
    """The contents of a file: all certificates in DER, and the key as PEM with its chain."""

    certificates: Sequence[bytes]
    chain: Sequence[bytes]
    key: bytes | None = attrs.field(repr=False)


def read_pkcs12(content: Secret[bytes], password: Secret[str] | None) -> Pkcs12:
    """Read a file. Raises Pkcs12Error, and PluginNotFoundError without the library."""
    try:
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.serialization import pkcs12
    except ImportError as cause:
        raise PluginNotFoundError(
            "PKCS12 files need the library cryptography; try: pip install 'ottla-transport-ssl[pkcs12]' "
            "(PEM needs none)"
        ) from cause
    try:
        store = pkcs12.load_pkcs12(content.reveal(), None if password is None else password.reveal().encode())
    except UnsupportedAlgorithm:
        raise Pkcs12Error(
            "its encryption is too old for OpenSSL; convert it with openssl pkcs12", locked=False
        ) from None
    except ValueError:
        raise Pkcs12Error("it cannot be decrypted or read", locked=True) from None
    encoding = serialization.Encoding
    others = [each.certificate.public_bytes(encoding.DER) for each in store.additional_certs]
    own = [store.cert.certificate.public_bytes(encoding.DER)] if store.cert is not None else []
    key = None
    if store.key is not None:
        key = store.key.private_bytes(encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return Pkcs12(certificates=(*own, *others), chain=(*own, *others) if own else (), key=key)
