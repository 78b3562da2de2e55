"""Every mechanism keeps the whole contract, at brokers that check what a real one does."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import sys
from collections.abc import Callable

import pytest

from kerberos_stand_in import library_of_kerberos
from ottla.interfaces import Mechanism
from ottla_testkit.conformance import AuthenticatorConformance, SaslBroker
from sasl_plugins import ALICE, mechanism
from token_endpoints import jwt

USER, PASSWORD = ALICE["sasl.username"], ALICE["sasl.password"]
SALT, ITERATIONS = b"salt of the broker", 4096
TOKEN = jwt(sub="alice")

MakeBroker = Callable[[], SaslBroker]


class PlainBroker:
    """Knows name and password, and has nothing to say."""

    satisfied = False

    def answer(self, data: bytes) -> bytes:
        if data != f"\0{USER}\0{PASSWORD}".encode():
            raise ValueError("name or password are wrong")
        self.satisfied = True
        return b""


class ScramBroker:
    """The server of RFC 5802, which knows the keys of one user."""

    def __init__(self, digest: str) -> None:
        self.satisfied = False
        self._digest = digest
        self._first: tuple[str, str] | None = None
        salted = hashlib.pbkdf2_hmac(digest, PASSWORD.encode(), SALT, ITERATIONS)
        self._stored = hashlib.new(digest, self._mac(salted, b"Client Key")).digest()
        self._server = self._mac(salted, b"Server Key")

    def answer(self, data: bytes) -> bytes:
        said = data.decode()
        return (self._second(*self._first, said) if self._first else self._begin(said)).encode()

    def _begin(self, said: str) -> str:
        bare = said.removeprefix("n,,")
        name, _, nonce = bare.partition(",r=")
        if name != f"n={USER}":
            raise ValueError("nobody has this name")
        salt = base64.b64encode(SALT).decode()
        first = f"r={nonce}{secrets.token_hex(8)},s={salt},i={ITERATIONS}"
        self._first = bare, first
        return first

    def _second(self, bare: str, first: str, said: str) -> str:
        without_proof, _, proof = said.rpartition(",p=")
        if without_proof != f"c=biws,{first.partition(',')[0]}":
            raise ValueError("the nonce is another one")
        whole = f"{bare},{first},{without_proof}".encode()
        mask = self._mac(self._stored, whole)
        key = bytes(ours ^ theirs for ours, theirs in zip(mask, base64.b64decode(proof), strict=True))
        if hashlib.new(self._digest, key).digest() != self._stored:
            raise ValueError("the proof is wrong")
        self.satisfied = True
        return f"v={base64.b64encode(self._mac(self._server, whole)).decode()}"

    def _mac(self, key: bytes, text: bytes) -> bytes:
        return hmac.digest(key, text, self._digest)


class TokenBroker:
    """Knows which token is good."""

    satisfied = False

    def answer(self, data: bytes) -> bytes:
        if f"auth=Bearer {TOKEN}\x01".encode() not in data:
            raise ValueError("the token is another one")
        self.satisfied = True
        return b""


class KerberosBroker:
    """The service of the library below: a ticket, an offer of no layer, the choice of none."""

    def __init__(self) -> None:
        self.satisfied = False
        self._answers = {
            b"AP-REQ": b"AP-REP",
            b"": b"wrapped:\1\0\0\0",
            b"wrapped:\1\0\0\0": b"",
        }

    def answer(self, data: bytes) -> bytes:
        self.satisfied = data.startswith(b"wrapped:")
        if data not in self._answers:
            raise ValueError("that is out of place")
        return self._answers.pop(data)


class TestPlain(AuthenticatorConformance):
    secrets = (PASSWORD,)

    @pytest.fixture
    def mechanism(self) -> Mechanism:
        return mechanism("PLAIN", ALICE)

    @pytest.fixture
    def broker(self) -> MakeBroker:
        return PlainBroker


class TestScramSha256(AuthenticatorConformance):
    secrets = (PASSWORD,)
    mutual = True

    @pytest.fixture
    def mechanism(self) -> Mechanism:
        return mechanism("SCRAM-SHA-256", ALICE)

    @pytest.fixture
    def broker(self) -> MakeBroker:
        return lambda: ScramBroker("sha256")


class TestScramSha512(AuthenticatorConformance):
    secrets = (PASSWORD,)
    mutual = True

    @pytest.fixture
    def mechanism(self) -> Mechanism:
        return mechanism("SCRAM-SHA-512", ALICE)

    @pytest.fixture
    def broker(self) -> MakeBroker:
        return lambda: ScramBroker("sha512")


class TestOAuthBearer(AuthenticatorConformance):
    secrets = (TOKEN,)

    @pytest.fixture
    def mechanism(self) -> Mechanism:
        return mechanism("OAUTHBEARER", {"sasl.oauthbearer.token.provider": lambda: TOKEN})

    @pytest.fixture
    def broker(self) -> MakeBroker:
        return TokenBroker


class TestGssapi(AuthenticatorConformance):
    """With a library of the test's own, for the real one needs a KDC. What is mutual is the library's business."""

    @pytest.fixture(autouse=True)
    def _library(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "gssapi", library_of_kerberos())

    @pytest.fixture
    def mechanism(self, _library: None) -> Mechanism:
        return mechanism("GSSAPI", {"sasl.kerberos.service.name": "kafka"})

    @pytest.fixture
    def broker(self) -> MakeBroker:
        return KerberosBroker
