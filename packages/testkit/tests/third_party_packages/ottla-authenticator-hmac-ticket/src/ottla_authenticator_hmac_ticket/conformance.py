"""A broker for the conformance suite of this mechanism; `ottla plugins check` uses it, too.

It needs ottla-testkit, so nothing else may import it.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable, Mapping
from typing import ClassVar

import pytest
from ottla_testkit.conformance import AuthenticatorConformance, SaslBroker

from ottla_authenticator_hmac_ticket.plugin import SECRET, USER
from ottla_authenticator_hmac_ticket.proofs import BROKER, CLIENT, NONCE_BYTES, proof

ANN, HER_SECRET = "ann", "the-secret-of-ann"


class HmacTicketBroker:
    """The broker's half of one login; it knows one user."""

    def __init__(self, user: str, secret: str) -> None:
        self.satisfied = False
        self._user = user
        self._secret = secret
        self._nonce = b""
        self._challenge = secrets.token_bytes(32)

    def answer(self, data: bytes) -> bytes:
        """Return the challenge, and then the proof."""
        if not self._nonce:
            user, zero, nonce = data.partition(b"\0")
            if user != self._user.encode() or not zero or len(nonce) != NONCE_BYTES:
                raise ValueError("not the user, a zero byte and a nonce")
            self._nonce = nonce
            return self._challenge
        if self.satisfied:
            raise ValueError("a message after the end of the login")
        if not hmac.compare_digest(data, self._proof(CLIENT)):
            raise ValueError("not the proof of the user")
        self.satisfied = True
        return self._proof(BROKER)

    def _proof(self, who: bytes) -> bytes:
        return proof(self._secret, who, self._user, self._nonce, self._challenge)


class HmacTicketConformance(AuthenticatorConformance):
    """All requirements for a mechanism."""

    settings: ClassVar[Mapping[str, str]] = {USER: ANN, SECRET: HER_SECRET}
    secrets = (HER_SECRET,)
    mutual = True

    @pytest.fixture
    def broker(self) -> Callable[[], SaslBroker]:
        # The user in the check's settings, or else ann.
        return lambda: HmacTicketBroker(self.settings[USER], self.settings[SECRET])
