"""The plugin: its keys, and a mechanism in which both sides prove that they know a secret."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Sequence
from typing import Any, Final

from ottla.errors import AuthenticationError, ConfigError
from ottla.hookspecs import hookimpl
from ottla.interfaces import Authenticator, ConfigKey, Mechanism, PluginConfig, PluginContext, Step

from ottla_authenticator_hmac_ticket.proofs import (
    BROKER,
    CHALLENGE_BYTES,
    CLIENT,
    NONCE_BYTES,
    PROOF_BYTES,
    first_message,
    proof,
)

ottla_conformance = "ottla_authenticator_hmac_ticket.conformance:HmacTicketConformance"

NAME: Final = "HMAC-TICKET"
USER: Final = "hmac.ticket.user"
SECRET: Final = "hmac.ticket.secret"
LOGINS: Final = "hmac-ticket-logins-total"
SHORTEST_SECRET: Final = 16


class HmacTicketMechanism:
    """The mechanism of one producer. It only computes, so that nothing waits."""

    name = NAME
    blocking = False

    def __init__(self, *, user: str, secret: str, context: PluginContext) -> None:
        self.identity = user
        self.remedy = f"check {USER} and {SECRET}, and that the broker knows this user for {NAME}"
        self._secret = secret
        self._logins = context.metrics.add_counter(LOGINS, unit="logins", meaning="Logins that were begun.")

    def authenticator(self, host: str, port: int) -> Authenticator:
        """Return a new exchange, for each connection and each renewal of a session."""
        self._logins.add()
        return HmacTicketExchange(self.identity, self._secret)


class HmacTicketExchange:
    """One login: who logs in, the proof for the broker's challenge, and the check of the broker's proof."""

    def __init__(self, user: str, secret: str) -> None:
        self._user = user
        self._secret = secret
        self._nonce = secrets.token_bytes(NONCE_BYTES)
        self._expected: bytes | None = None
        self._over = False

    def start(self) -> bytes:
        """Return the user and the nonce."""
        return first_message(self._user, self._nonce)

    def challenge(self, data: bytes) -> Step:
        """Answer the broker's challenge, then check its proof. *data* is not trusted, and never quoted."""
        if self._over:
            raise AuthenticationError(f"the broker sent {len(data)} more bytes after the end of an {NAME} login")
        if self._expected is None:
            return self._prove(bytes(data))
        return self._verify(bytes(data), self._expected)

    def _prove(self, challenge: bytes) -> Step:
        if len(challenge) not in CHALLENGE_BYTES:
            raise AuthenticationError(
                f"the broker's {NAME} challenge has {len(challenge)} bytes; "
                f"it must have {CHALLENGE_BYTES[0]} to {CHALLENGE_BYTES[-1]}"
            )
        self._expected = proof(self._secret, BROKER, self._user, self._nonce, challenge)
        return Step(reply=proof(self._secret, CLIENT, self._user, self._nonce, challenge), done=False)

    def _verify(self, received: bytes, expected: bytes) -> Step:
        self._over = True
        if len(received) != PROOF_BYTES:
            raise AuthenticationError(f"the broker's {NAME} proof has {len(received)} bytes in place of {PROOF_BYTES}")
        if not hmac.compare_digest(received, expected):
            raise AuthenticationError(
                f"the broker's {NAME} proof is wrong: it does not know {SECRET}, or is not the broker it pretends to be"
            )
        return Step(reply=None, done=True)


@hookimpl
def ottla_config_keys() -> Sequence[ConfigKey]:
    """Keys for the user and the secret."""
    return [
        ConfigKey(name=USER, type=_name, default=None, meaning="who logs in"),
        ConfigKey(name=SECRET, type=_secret, default=None, meaning="what both sides prove to know", secret=True),
    ]


@hookimpl
def ottla_authenticator(config: PluginConfig, context: PluginContext) -> Mechanism:
    """The mechanism named `HMAC-TICKET`."""
    user, secret = config[USER], config[SECRET]
    if user is None or secret is None:
        raise ConfigError([f"sasl.mechanism={NAME} needs {USER} and {SECRET}; set both"])
    return HmacTicketMechanism(user=user, secret=secret, context=context)


def _name(written: Any) -> str:
    if not isinstance(written, str):
        raise TypeError("it must be a string")
    if not written or "\0" in written:
        raise ValueError("it must not be empty, nor hold a zero character")
    written.encode()  # UnicodeEncodeError, a ValueError, for half a surrogate pair
    return written


def _secret(written: Any) -> str:
    if not isinstance(written, str):
        raise TypeError("it must be a string")
    if len(written) < SHORTEST_SECRET:
        raise ValueError(f"it must have at least {SHORTEST_SECRET} characters")
    try:
        written.encode()
    except UnicodeEncodeError:
        # Its own message would quote the character.
        raise ValueError("it must be text that UTF-8 can encode") from None
    return written
