"""SCRAM (RFC 5802, 7677) as in Kafka: both sides prove that they know the password, and neither sends it.

As in Java, there is no channel binding and no SASLprep: a password is encoded as UTF-8 without changes.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Callable, Sequence
from typing import Final

import attrs

from ottla.errors import AuthenticationError, ConfigError, quoted
from ottla.interfaces import Authenticator, ConfigKey, PluginConfig, Secret, Step, boolean
from ottla_authenticator_sasl.credentials import Credentials, UserPassword
from ottla_authenticator_sasl.login import LOGIN_KEYS, login

MIN_ITERATIONS: Final = 4096
MAX_ITERATIONS: Final = 500_000
"""Maximum iterations: at most a second for a login on a slow machine.

SHA-512 took 0.27 s on a machine of 2024, SHA-256 0.12 s.

Kafka's brokers allow at most 16,384 (`ScramMechanism`). librdkafka accepts a million, Java's client any number.
"""

MAX_MESSAGE: Final = 4096
"""Maximum bytes of a broker's message; Kafka's have some 100."""

TOKEN_AUTH: Final = "sasl.scram.tokenauth"

_NO_BINDING: Final = "n,,"
_BINDING_REPEATED: Final = base64.b64encode(_NO_BINDING.encode()).decode()


@attrs.frozen(kw_only=True)
class Keys:
    """Keys derived from a password, a salt and a number of iterations."""

    password: Secret[str]
    salt: bytes
    iterations: int
    client: bytes = attrs.field(repr=False)
    server: bytes = attrs.field(repr=False)


class ScramMechanism:
    """SCRAM with cached keys: all brokers of a cluster have the same salt for a user."""

    blocking = True
    concurrent_logins = True

    def __init__(
        self,
        name: str,
        *,
        digest: str,
        credentials: Credentials,
        token_auth: bool = False,
        nonce: Callable[[], str] | None = None,
    ) -> None:
        self.name = name
        self.identity = credentials.identity
        self.remedy = f"check {credentials.keys}"
        self._digest = digest
        self._credentials = credentials
        self._token_auth = token_auth
        self._nonce = nonce or (lambda: secrets.token_urlsafe(24))
        self._keys: Keys | None = None

    def authenticator(self, host: str, port: int) -> Authenticator:
        """Return a new exchange, with a new nonce."""
        return ScramExchange(self, self._credentials.request(), nonce=self._nonce())

    def note(self, login: UserPassword) -> None:
        """Note who logs in."""
        self.identity = login.name

    def close(self) -> None:
        """Stop waiting for functions."""
        self._credentials.close()

    def keys(self, login: UserPassword, *, salt: bytes, iterations: int) -> Keys:
        """Return the derived keys, cached from the last call if equal. Any thread may call it."""
        known = self._keys
        if known is not None and (known.password, known.salt, known.iterations) == (login.password, salt, iterations):
            return known
        salted = hashlib.pbkdf2_hmac(self._digest, login.password.reveal().encode(), salt, iterations)
        self._keys = Keys(
            password=login.password,
            salt=salt,
            iterations=iterations,
            client=self.mac(salted, b"Client Key"),
            server=self.mac(salted, b"Server Key"),
        )
        return self._keys

    def mac(self, key: bytes, text: bytes) -> bytes:
        """Return the mechanism's HMAC."""
        return hmac.digest(key, text, self._digest)

    def hash(self, data: bytes) -> bytes:
        """Return the mechanism's hash."""
        return hashlib.new(self._digest, data).digest()

    def first(self, login: UserPassword, nonce: str) -> str:
        """Return the client-first-message-bare."""
        name = login.name.replace("=", "=3D").replace(",", "=2C")
        written = login.options.get("tokenauth")
        token_auth = self._token_auth if written is None else written.strip().lower() == "true"
        return f"n={name},r={nonce}" + (",tokenauth=true" if token_auth else "")


class ScramExchange:
    """One login. Its messages: the client's name and nonce, the broker's salt, the client's proof, the signature."""

    def __init__(self, mechanism: ScramMechanism, credentials: Callable[[], UserPassword], *, nonce: str) -> None:
        self._mechanism = mechanism
        self._credentials = credentials
        self._nonce = nonce
        self._login: UserPassword | None = None
        self._first = ""
        self._signature: bytes | None = None

    def start(self) -> bytes:
        """Return the client-first-message. Waits for a program's function that returns name and password."""
        self._login = self._credentials()
        self._mechanism.note(self._login)
        self._first = self._mechanism.first(self._login, self._nonce)
        return (_NO_BINDING + self._first).encode()

    def challenge(self, data: bytes) -> Step:
        """Return the client-final-message after the broker's first message; verify the broker's final message."""
        message = self._message(data)
        if self._signature is None:
            return Step(reply=self._client_final(message), done=False)
        self._verify(message, self._signature)
        return Step(reply=None, done=True)

    @property
    def _user(self) -> str | None:
        """The name in this exchange. Another login may have changed that of the mechanism meanwhile."""
        return self._mechanism.identity if self._login is None else self._login.name

    def _message(self, data: bytes) -> str:
        if len(data) > MAX_MESSAGE:
            raise self._malformed(f"it has {len(data)} bytes, more than {MAX_MESSAGE}")
        try:
            message = data.decode()
        except UnicodeDecodeError:
            raise self._malformed("it is not UTF-8") from None
        if message.startswith("e="):
            raise AuthenticationError(
                f"the broker refused {self._mechanism.name} for user {self._user!r}: "
                f"{quoted(message[2:])}; {self._mechanism.remedy}"
            )
        return message

    def _client_final(self, server_first: str) -> bytes:
        nonce, salt, iterations = self._parameters(server_first)
        assert self._login is not None, "start was called"
        keys = self._mechanism.keys(self._login, salt=salt, iterations=iterations)
        final = f"c={_BINDING_REPEATED},r={nonce}"
        auth_message = f"{self._first},{server_first},{final}".encode()
        self._signature = self._mechanism.mac(keys.server, auth_message)
        mask = self._mechanism.mac(self._mechanism.hash(keys.client), auth_message)
        proof = bytes(ours ^ theirs for ours, theirs in zip(keys.client, mask, strict=True))
        return f"{final},p={base64.b64encode(proof).decode()}".encode()

    def _parameters(self, server_first: str) -> tuple[str, bytes, int]:
        """Return nonce, salt and iterations. Further attributes are extensions and are ignored."""
        parts = server_first.split(",")
        if parts[0].startswith("m="):
            raise self._malformed("it requires an extension that Ottla does not support")
        if len(parts) < 3:
            raise self._malformed("nonce, salt or iterations are missing")
        nonce = self._attribute(parts[0], "r")
        salt = self._base64(self._attribute(parts[1], "s"))
        return self._ours(nonce), salt, self._bounded(self._attribute(parts[2], "i"))

    def _ours(self, nonce: str) -> str:
        if not nonce.startswith(self._nonce) or len(nonce) == len(self._nonce):
            raise self._malformed("its nonce does not extend the client's, so it may respond to another client")
        return nonce

    def _bounded(self, written: str) -> int:
        iterations = int(written) if written.isascii() and written.isdecimal() and len(written) < 10 else 0
        if not MIN_ITERATIONS <= iterations <= MAX_ITERATIONS:
            raise self._malformed(
                f"{quoted(written)} iterations are not between {MIN_ITERATIONS} and {MAX_ITERATIONS}; fewer would "
                "make the password easy to guess, more would take too much processor time"
            )
        return iterations

    def _verify(self, server_final: str, expected: bytes) -> None:
        signature = self._base64(self._attribute(server_final.split(",")[0], "v"))
        if not hmac.compare_digest(signature, expected):
            raise AuthenticationError(
                f"the broker could not prove with {self._mechanism.name} that it knows the password of "
                f"{self._user!r}: its signature is wrong; the server may be an impostor"
            )

    def _attribute(self, part: str, name: str) -> str:
        if not part.startswith(f"{name}="):
            raise self._malformed(f"the attribute {name}= is missing or not in its place")
        return part[2:]

    def _base64(self, written: str) -> bytes:
        try:
            decoded = base64.b64decode(written, validate=True)
        except (binascii.Error, ValueError):
            raise self._malformed("an attribute is not valid base64") from None
        if not decoded:
            raise self._malformed("an attribute is empty")
        return decoded

    def _malformed(self, what: str) -> AuthenticationError:
        return AuthenticationError(f"the broker's message violates {self._mechanism.name}: {what}")


def scram_keys() -> Sequence[ConfigKey]:
    """The keys of both SCRAM mechanisms."""
    token_auth = ConfigKey(
        name=TOKEN_AUTH,
        type=boolean,
        default=None,
        meaning="true if name and password are those of a delegation token",
    )
    return (*LOGIN_KEYS, token_auth)


def scram_mechanism(config: PluginConfig, *, name: str, digest: str) -> ScramMechanism:
    """Create a mechanism from its configuration. Raises ConfigError."""
    credentials = login(config, mechanism=name, module="ScramLoginModule")
    if config[TOKEN_AUTH] is not None and not credentials.blocking and "tokenauth" in credentials.request()().options:
        raise ConfigError([f"{TOKEN_AUTH} and tokenauth in sasl.jaas.config are both given; leave one out"])
    return ScramMechanism(name, digest=digest, credentials=credentials, token_auth=bool(config[TOKEN_AUTH]))
