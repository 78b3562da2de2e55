"""A bearer token: what a token function may return, and which characters may be sent."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import Any, Final

import attrs

from ottla.errors import AuthenticationError, with_article
from ottla_authenticator_sasl.jwt import claims

MAX_TOKEN: Final = 256 * 1024
"""Maximum characters of a token. Brokers accept half a megabyte by default (`sasl.server.max.receive.size`)."""

_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/-]+=*")
_EXTENSION: Final = re.compile(r"[A-Za-z]+")
_EXTENSION_VALUE: Final = re.compile(r"[\x21-\x7e \t\r\n]+")


@attrs.frozen
class Token:
    """A token and its properties, as far as its source knows them.

    Without `expires_at_ms`, a token is fetched for each login. `extensions` are sent to the broker with the token;
    `principal` and `scope` are only logged.
    """

    value: str = attrs.field(repr=False)
    expires_at_ms: float | None = None
    principal: str | None = None
    scope: str | None = None
    extensions: Mapping[str, str] = attrs.Factory(dict)
    issued_at_ms: float | None = attrs.field(default=None, kw_only=True)


@attrs.frozen(kw_only=True)
class ClaimNames:
    """Names of the JWT claims with the principal and the scope."""

    subject: str = "sub"
    scope: str = "scope"


def token_of(given: Any, *, names: ClaimNames, source: str) -> Token:
    """Return the token that *source* returned: a string, a `Token`, or a tuple in the order of its fields.

    If it is a JWT, its claims provide missing fields. AuthenticationError never quotes the token.
    """
    token = _token(given, source)
    if not is_sendable(token.value):
        raise AuthenticationError(
            f"{source} returned an invalid token: a token has only letters, digits and -._~+/ (and = at its end), and "
            f"at most {MAX_TOKEN} characters"
        )
    check_extensions(token.extensions, source=source)
    claimed = claims(token.value, subject=names.subject, scope=names.scope)
    return attrs.evolve(
        token,
        expires_at_ms=_first(_milliseconds(token.expires_at_ms, source), _in_ms(claimed.expires_at)),
        issued_at_ms=_first(token.issued_at_ms, _in_ms(claimed.issued_at)),
        principal=token.principal or claimed.subject,
        scope=token.scope or claimed.scope,
    )


def is_sendable(value: Any) -> bool:
    """Return whether a value has the form of a bearer token (RFC 6750 section 2.1), as every JWT has."""
    return isinstance(value, str) and len(value) <= MAX_TOKEN and _TOKEN.fullmatch(value) is not None


def check_extensions(extensions: Any, *, source: str) -> None:
    """Check extensions by the rules of RFC 7628; `auth` is the token's own key."""
    if not isinstance(extensions, Mapping):
        raise AuthenticationError(f"{source} returned SASL extensions that are not a mapping of names to values")
    for name, value in extensions.items():
        if not (isinstance(name, str) and _EXTENSION.fullmatch(name)) or name == "auth":
            raise AuthenticationError(
                f"{source} returned a SASL extension with an invalid name: only letters are allowed, and 'auth' is "
                "reserved"
            )
        if not (isinstance(value, str) and _EXTENSION_VALUE.fullmatch(value)):
            raise AuthenticationError(f"{source} returned a SASL extension whose value is not printable ASCII")


def expired(token: Token, *, now: float, source: str) -> AuthenticationError | None:
    """Return the error for a token that has expired by *now*, in seconds since the epoch, or None."""
    if token.expires_at_ms is None or token.expires_at_ms > now * 1000:
        return None
    when = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(token.expires_at_ms / 1000))
    return AuthenticationError(
        f"the token from {source} expired at {when}; check this machine's clock, and that the expiry is in "
        "milliseconds since the epoch"
    )


def _token(given: Any, source: str) -> Token:
    match given:
        case str():
            return Token(given)
        case Token():
            return given
        case tuple() if 1 <= len(given) <= 5:
            return Token(*given)
        case _:
            raise AuthenticationError(
                f"{source} returned {with_article(type(given).__name__)}; it must return a string, an "
                "ottla_authenticator_sasl.Token, or a tuple of token, expiry in milliseconds since the epoch, "
                "principal, scope and extensions"
            )


def _milliseconds(value: Any, source: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e14:
        raise AuthenticationError(f"{source} returned an expiry that is not a number of milliseconds since the epoch")
    return float(value)


def _in_ms(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1000


def _first(*values: float | None) -> float | None:
    return next((value for value in values if value is not None), None)
