"""Grants with an assertion, which is exchanged for a token, or authenticates the client.

Java's JwtBearerJwtRetriever (KIP-1139) and the assertions of its ClientCredentialsJwtRetriever (KIP-1258).
"""

from __future__ import annotations

import urllib.parse
from collections.abc import Collection, Mapping
from typing import Final

import attrs

from ottla_authenticator_sasl.assertions import Assertion

_URN: Final = "urn:ietf:params:oauth"
_HEADERS: Final = {"Accept": "application/json", "Content-Type": "application/x-www-form-urlencoded"}


@attrs.frozen(kw_only=True)
class JwtBearer:
    """The grant `jwt-bearer` (RFC 7523 section 2.1): the assertion itself is exchanged for a token."""

    assertion: Assertion = attrs.field(repr=False)
    scope: str | None = None

    def headers(self) -> Mapping[str, str]:
        """Return the request's headers."""
        return _HEADERS

    def body(self) -> str:
        """Return the form."""
        asked = {"grant_type": f"{_URN}:grant-type:jwt-bearer", "assertion": self.assertion()}
        return urllib.parse.urlencode(asked | _scope(self.scope))

    def secrets(self) -> Collection[str]:
        """Return no secrets: an assertion is too long to fit where an error repeats text."""
        return ()


@attrs.frozen(kw_only=True)
class ClientAssertion:
    """The grant `client_credentials`, for a client that authenticates by an assertion (RFC 7523 section 2.2)."""

    assertion: Assertion = attrs.field(repr=False)
    client_id: str | None = None
    scope: str | None = None

    def headers(self) -> Mapping[str, str]:
        """Return the request's headers."""
        return _HEADERS

    def body(self) -> str:
        """Return the form."""
        asked = {
            "grant_type": "client_credentials",
            "client_assertion_type": f"{_URN}:client-assertion-type:jwt-bearer",
            "client_assertion": self.assertion(),
        }
        who = {"client_id": self.client_id} if self.client_id else {}
        return urllib.parse.urlencode(asked | who | _scope(self.scope))

    def secrets(self) -> Collection[str]:
        """Return no secrets: an assertion is too long to fit where an error repeats text."""
        return ()


def _scope(scope: str | None) -> dict[str, str]:
    return {"scope": scope} if scope else {}
