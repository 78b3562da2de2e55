"""A broker that accepts OAUTHBEARER with one valid token."""

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
    """Return the valid token, as a user's token function does."""
    return TOKEN


class TokenBroker:
    """Accept the valid token."""

    satisfied = False

    def answer(self, data: bytes) -> bytes:
        """Return an empty message, which means success."""
        if f"auth=Bearer {TOKEN}\x01".encode() not in data:
            raise ValueError("this is not the valid token")
        self.satisfied = True
        return b""


def with_a_token(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return these settings. If they name no source of tokens, add a function that returns a token."""
    return given if {PROVIDER, URL, JAAS} & given.keys() else {**given, PROVIDER: a_token}


class OAuthBearerConformance(AuthenticatorConformance):
    """All requirements for a mechanism that sends a token."""

    secrets = (TOKEN,)
    checks_answers = True
    settings: ClassVar[Mapping[str, Any]] = with_a_token({})
    settings_for = staticmethod(with_a_token)

    @pytest.fixture
    def broker(self) -> Callable[[], SaslBroker] | None:
        """Return a broker, or None if the settings have another token: only a real broker can verify that one."""
        return TokenBroker if self.settings.get(PROVIDER) is a_token else None
