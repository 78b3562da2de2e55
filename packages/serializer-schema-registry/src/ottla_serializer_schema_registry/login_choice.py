"""The login that the settings choose: fixed, or renewed by a function of the program or by an identity server."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from typing import Any, Final

from ottla.config.function_calls import ask
from ottla.errors import AuthenticationError, printable, with_article
from ottla.interfaces import PluginConfig, Secret
from ottla.plugins.client_credentials import ClientLogin, client_credentials
from ottla_serializer_schema_registry import keys
from ottla_serializer_schema_registry.keys import BasicSource, BearerSource
from ottla_serializer_schema_registry.registry.authorization import Authorization
from ottla_serializer_schema_registry.registry.logins import FixedLogin, Issued, Login, RenewedLogin

_CLIENT: Final = (keys.ISSUER, keys.CLIENT_ID, keys.CLIENT_SECRET)


def login_problems(config: PluginConfig) -> list[str]:
    """Return what is wrong with the settings of the login."""
    source, given = config[keys.BEARER_SOURCE], [key for key in _CLIENT if config[key] is not None]
    problems = []
    if config[keys.USER_INFO] is not None and (config[keys.TOKEN] is not None or source is not None):
        other = keys.TOKEN if config[keys.TOKEN] is not None else keys.BEARER_SOURCE
        problems.append(f"{keys.USER_INFO} and {other} cannot both be set")
    if config[keys.BASIC_SOURCE] is BasicSource.URL and config[keys.USER_INFO] is not None:
        problems.append(f"{keys.BASIC_SOURCE}=URL does not use {keys.USER_INFO}; write USER_INFO")
    if config[keys.BASIC_SOURCE] is BasicSource.USER_INFO and config[keys.USER_INFO] is None:
        problems.append(f"{keys.BASIC_SOURCE}=USER_INFO needs {keys.USER_INFO}")
    if source is BearerSource.STATIC_TOKEN and config[keys.TOKEN] is None:
        problems.append(f"{keys.BEARER_SOURCE}={source} needs {keys.TOKEN}")
    if source is BearerSource.OAUTHBEARER:
        missing = [key for key in _CLIENT if config[key] is None]
        problems += [f"{keys.BEARER_SOURCE}={source} needs {', '.join(missing)}"] if missing else []
        if config[keys.TOKEN] is not None:
            problems.append(f"{keys.BEARER_SOURCE}={source} does not use {keys.TOKEN}; leave one out")
    elif given:
        problems.append(f"{', '.join(given)}: write {keys.BEARER_SOURCE}=OAUTHBEARER, too")
    return problems


def login_key(config: PluginConfig) -> str | None:
    """Return the key whose secret the registry gets with each request; None if it gets none."""
    if config[keys.BEARER_SOURCE] is BearerSource.OAUTHBEARER:
        return f"the tokens of {keys.ISSUER}"
    return next((key for key in (keys.USER_INFO, keys.TOKEN) if config[key] is not None), None)


def login_of(config: PluginConfig, context: Callable[[], ssl.SSLContext]) -> Login | None:
    """Return the login; None if there is none. *context* is for the identity server. Raises ConfigError."""
    if config[keys.BEARER_SOURCE] is BearerSource.OAUTHBEARER:
        return _by_server(config, context)
    if (user_info := config[keys.USER_INFO]) is not None:
        return _by_value(user_info, keys.USER_INFO, "user and password", _of_user)
    if (token := config[keys.TOKEN]) is not None:
        headers = _headers(config)
        return _by_value(token, keys.TOKEN, "a token", lambda given: _of_token(given, headers))
    return None


def _by_value(value: Any, key: str, wanted: str, issued: Callable[[Any], Issued]) -> Login:
    if isinstance(value, Secret):
        return FixedLogin(issued(value.reveal()).authorization)

    def issue() -> Issued:
        return issued(ask(value, key=key, wanted=wanted).reveal())

    return RenewedLogin(lambda: issue, source=f"the function of {key}")


def _by_server(config: PluginConfig, context: Callable[[], ssl.SSLContext]) -> Login:
    login = ClientLogin(
        url=config[keys.ISSUER],
        client_id=config[keys.CLIENT_ID],
        secret=config[keys.CLIENT_SECRET],
        scope=config[keys.SCOPE],
        context=context,
        url_key=keys.ISSUER,
        client_keys="bearer.auth.*",
        trust_key=keys.CA,
    )
    headers = _headers(config)

    def make() -> Callable[[], Issued]:
        fetch = client_credentials(login, needed_by=f"{keys.BEARER_SOURCE}=OAUTHBEARER")

        def issue() -> Issued:
            token = fetch()
            return Issued(authorization=Authorization.bearer(token.value, headers), expires_at=token.expires_at)

        return issue

    return RenewedLogin(make, source=f"the server of {keys.ISSUER}", buffer=config[keys.EXPIRY_BUFFER])


def _headers(config: PluginConfig) -> tuple[tuple[str, str], ...]:
    """Confluent Cloud finds the cluster of schemas and the identity by these."""
    named = (("target-sr-cluster", keys.LOGICAL_CLUSTER), ("Confluent-Identity-Pool-Id", keys.IDENTITY_POOL))
    return tuple((name, config[key]) for name, key in named if config[key] is not None)


def _of_user(given: Any) -> Issued:
    """Return the login of a text with a colon, or of a pair of user and password."""
    if isinstance(given, tuple | list) and len(given) == 2 and all(isinstance(each, str) for each in given):
        if ":" in given[0]:
            raise AuthenticationError(f"{keys.USER_INFO}: a user has no colon")
        given = ":".join(given)
    if not isinstance(given, str):
        raise AuthenticationError(
            f"{keys.USER_INFO}: the function returned {with_article(type(given).__name__)}; it must return "
            "user:password or a pair of both"
        )
    return Issued(authorization=Authorization.basic(_checked(keys.user_info, given, keys.USER_INFO)))


def _of_token(given: Any, headers: tuple[tuple[str, str], ...]) -> Issued:
    """Return the login of a token: a text, or with its expiry, as functions of `sasl.oauthbearer.token.provider`."""
    value, expires_at_ms = given, None
    if isinstance(given, tuple) and given:
        value, expires_at_ms = given[0], given[1] if len(given) > 1 else None
    elif hasattr(given, "value") and hasattr(given, "expires_at_ms"):
        value, expires_at_ms = given.value, given.expires_at_ms
    if not isinstance(value, str):
        raise AuthenticationError(
            f"{keys.TOKEN}: the function returned {with_article(type(given).__name__)}; it must return a string, a "
            "tuple of the token and its expiry in milliseconds since the epoch, or an ottla_authenticator_sasl.Token"
        )
    is_number = isinstance(expires_at_ms, int | float) and not isinstance(expires_at_ms, bool)
    if expires_at_ms is not None and not (is_number and 0 <= expires_at_ms < 1e14):
        raise AuthenticationError(f"{keys.TOKEN}: the expiry is not a number of milliseconds since the epoch")
    return Issued(
        authorization=Authorization.bearer(_checked(keys.token, value, keys.TOKEN), headers),
        expires_at=None if expires_at_ms is None else expires_at_ms / 1000,
    )


def _checked(check: Callable[[Any], Secret[str]], given: str, key: str) -> Secret[str]:
    try:
        return check(given)
    except ValueError as error:
        problem = AuthenticationError(f"{key}: {printable(str(error))}")
    raise problem  # outside the except block: the frames of its context hold the secret
