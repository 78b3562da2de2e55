"""A broker that accepts SCRAM: the server of RFC 5802, with the keys of one user."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final

import pytest

from ottla_authenticator_sasl.conformance.accounts import ALICE, Account, account, with_a_login
from ottla_testkit.conformance import AuthenticatorConformance, SaslBroker

SALT: Final = b"salt of the broker"
ITERATIONS: Final = 4096


class ScramBroker:
    """One login; *digest* is the hash of the mechanism's name."""

    def __init__(self, digest: str, *, known: Account) -> None:
        self.satisfied = False
        self._digest = digest
        self._name = known.name.replace("=", "=3D").replace(",", "=2C")
        self._first: tuple[str, str, str] | None = None
        salted = hashlib.pbkdf2_hmac(digest, known.password.encode(), SALT, ITERATIONS)
        self._stored = hashlib.new(digest, self._mac(salted, b"Client Key")).digest()
        self._server = self._mac(salted, b"Server Key")

    def answer(self, data: bytes) -> bytes:
        """Return the salt, then the server's signature, which proves that the broker knows the password, too."""
        said = data.decode()
        return (self._second(*self._first, said) if self._first else self._begin(said)).encode()

    def _begin(self, said: str) -> str:
        bare = said.removeprefix("n,,")
        name, _, rest = bare.partition(",r=")
        if name != f"n={self._name}":
            raise ValueError("there is no user of this name")
        nonce = f"{rest.partition(',')[0]}{secrets.token_hex(8)}"  # an extension such as tokenauth may follow it
        first = f"r={nonce},s={base64.b64encode(SALT).decode()},i={ITERATIONS}"
        self._first = bare, first, nonce
        return first

    def _second(self, bare: str, first: str, nonce: str, said: str) -> str:
        without_proof, _, proof = said.rpartition(",p=")
        if without_proof != f"c=biws,r={nonce}":
            raise ValueError("the nonce is not the one of this exchange")
        whole = f"{bare},{first},{without_proof}".encode()
        mask = self._mac(self._stored, whole)
        key = bytes(ours ^ theirs for ours, theirs in zip(mask, base64.b64decode(proof), strict=True))
        if hashlib.new(self._digest, key).digest() != self._stored:
            raise ValueError("the proof is wrong")
        self.satisfied = True
        return f"v={base64.b64encode(self._mac(self._server, whole)).decode()}"

    def _mac(self, key: bytes, text: bytes) -> bytes:
        return hmac.digest(key, text, self._digest)


class ScramSha256Conformance(AuthenticatorConformance):
    """All requirements for a mechanism with mutual authentication."""

    secrets = (ALICE.password,)
    mutual = True
    digest: ClassVar[str] = "sha256"
    settings: ClassVar[Mapping[str, Any]] = with_a_login({})
    settings_for = staticmethod(with_a_login)

    @pytest.fixture
    def broker(self) -> Callable[[], SaslBroker]:
        return lambda: ScramBroker(self.digest, known=account(self.settings))


class ScramSha512Conformance(ScramSha256Conformance):
    """The same with the longer hash."""

    digest = "sha512"
