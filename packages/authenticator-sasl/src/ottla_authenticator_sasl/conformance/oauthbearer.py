"""A broker that takes OAUTHBEARER, and knows which token is good."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final

import pytest

from ottla_authenticator_sasl.login import JAAS
from ottla_authenticator_sasl.token_keys import URL
from ottla_authenticator_sasl.token_sources import PROVIDER
from ottla_testkit.conformance import AuthenticatorConformance, SaslBroker


def _part(content: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")


TOKEN: Final = ".".join((_part({"alg": "none"}), _part({"sub": "alice"}), "c2lnbmF0dXJl"))


def a_token() -> str:
    """As a user's function gives it."""
    return TOKEN


class TokenBroker:
    """Takes one token."""

    satisfied = False

    def answer(self, data: bytes) -> bytes:
        """Nothing, which means yes."""
        if f"auth=Bearer {TOKEN}\x01".encode() not in data:
            raise ValueError("the token is another one")
        self.satisfied = True
        return b""


def with_a_token(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """These settings, and a function that gives a token, where they name no source."""
    return given if {PROVIDER, URL, JAAS} & given.keys() else {**given, PROVIDER: a_token}


class OAuthBearerConformance(AuthenticatorConformance):
    """Every promise of a mechanism that shows a token."""

    secrets = (TOKEN,)
    settings: ClassVar[Mapping[str, Any]] = with_a_token({})
    settings_for = staticmethod(with_a_token)

    @pytest.fixture
    def broker(self) -> Callable[[], SaslBroker] | None:
        """None for anybody else's tokens: which of them are good only a real broker knows."""
        return TokenBroker if self.settings.get(PROVIDER) is a_token else None
