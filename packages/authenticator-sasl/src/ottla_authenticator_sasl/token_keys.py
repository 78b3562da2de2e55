"""The keys of OAUTHBEARER: Java's, and three of ours for what Java's classes do there."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

from ottla.interfaces import ConfigKey
from ottla_authenticator_sasl.login import JAAS_KEY, JAVA_CLASS_KEYS, a_string, refuse_java_class
from ottla_authenticator_sasl.token_sources import PROVIDER

NAME: Final = "OAUTHBEARER"

URL: Final = "sasl.oauthbearer.token.endpoint.url"
CLIENT_ID: Final = "sasl.oauthbearer.client.credentials.client.id"
CLIENT_SECRET: Final = "sasl.oauthbearer.client.credentials.client.secret"
SCOPE: Final = "sasl.oauthbearer.scope"
EXTENSIONS: Final = "sasl.oauthbearer.extensions"
RETRIEVER: Final = "sasl.oauthbearer.jwt.retriever.class"

ANY_RETRIEVER: Final = "DefaultJwtRetriever"
FILE_RETRIEVER: Final = "FileJwtRetriever"
ENDPOINT_RETRIEVER: Final = "ClientCredentialsJwtRetriever"
OWN_FUNCTION: Final = f"fetch the token in a function of yours, and give it as {PROVIDER}"


def _callable(raw: Any) -> Callable[[], Any]:
    if not callable(raw):
        raise ValueError("it must be a function without arguments")
    function: Callable[[], Any] = raw
    return function


def _number(*, least: float, most: float, unit: float = 1.0) -> Callable[[Any], float]:
    def parse(raw: Any) -> float:
        number = math.nan if isinstance(raw, bool) else float(raw)
        if not least <= number <= most:
            raise ValueError(f"it must be a number from {least:g} to {most:g}")
        return number * unit

    return parse


def _boolean(raw: Any) -> bool:
    word = str(raw).strip().lower()
    if word not in ("true", "false"):
        raise ValueError("it must be true or false")
    return word == "true"


def _extensions(raw: Any) -> Mapping[str, str]:
    if isinstance(raw, Mapping):
        return dict(raw)
    pairs = [part.partition("=") for part in a_string(raw).split(",") if part.strip()]
    if not all(equals for _, equals, _ in pairs):
        raise ValueError("write name=value,name=value, or give a mapping")
    return {name.strip(): value.strip() for name, _, value in pairs}


_MILLISECONDS: Final = _number(least=1, most=2**31 - 1, unit=0.001)

OAUTH_KEYS: Final = (
    ConfigKey(
        name=PROVIDER,
        type=_callable,
        default=None,
        meaning="a function without arguments, plain or async, that returns a token",
    ),
    ConfigKey(name=URL, type=a_string, default=None, meaning="the identity server, or file:///path of a token"),
    ConfigKey(name=CLIENT_ID, type=a_string, default=None, meaning="who asks the identity server, as a string"),
    ConfigKey(name=CLIENT_SECRET, type=a_string, default=None, meaning="the client's secret, as a string", secret=True),
    ConfigKey(name=SCOPE, type=a_string, default=None, meaning="what the token is to be good for"),
    ConfigKey(
        name=EXTENSIONS,
        type=_extensions,
        default=None,
        meaning="sent to the broker with the token; write name=value,name=value or give a mapping",
        secret=True,  # what a broker asks for there may be one
    ),
    ConfigKey(
        name="sasl.oauthbearer.header.urlencode",
        type=_boolean,
        default=False,
        meaning="whether id and secret are URL-encoded before base64",
    ),
    ConfigKey(name="sasl.oauthbearer.sub.claim.name", type=a_string, default="sub", meaning="the principal's claim"),
    ConfigKey(name="sasl.oauthbearer.scope.claim.name", type=a_string, default="scope", meaning="the scope's claim"),
    ConfigKey(
        name="sasl.login.connect.timeout.ms",
        type=_MILLISECONDS,
        default=5.0,
        meaning="milliseconds to connect to the identity server",
    ),
    ConfigKey(
        name="sasl.login.read.timeout.ms",
        type=_MILLISECONDS,
        default=5.0,
        meaning="milliseconds to wait for the identity server's answer",
    ),
    ConfigKey(
        name="sasl.login.retry.backoff.ms",
        type=_MILLISECONDS,
        default=0.1,
        meaning="the first wait before the identity server is asked again; waits double",
    ),
    ConfigKey(
        name="sasl.login.retry.backoff.max.ms",
        type=_MILLISECONDS,
        default=10.0,
        meaning="the longest of these waits; in a login they end after 5 s",
    ),
    ConfigKey(
        name="sasl.login.refresh.window.factor",
        type=_number(least=0.5, most=1.0),
        default=0.8,
        meaning="after which part of its lifetime a token is renewed",
    ),
    ConfigKey(
        name="sasl.login.refresh.window.jitter",
        type=_number(least=0.0, most=0.25),
        default=0.05,
        meaning="a random part of the lifetime that is added",
    ),
    ConfigKey(
        name="sasl.login.refresh.min.period.seconds",
        type=_number(least=0, most=900),
        default=60.0,
        meaning="the least time between two renewals",
    ),
    ConfigKey(
        name="sasl.login.refresh.buffer.seconds",
        type=_number(least=0, most=3600),
        default=300.0,
        meaning="how long before its expiry a token is renewed at the latest",
    ),
    ConfigKey(
        name=RETRIEVER,
        type=refuse_java_class(OWN_FUNCTION, harmless=(ANY_RETRIEVER, ENDPOINT_RETRIEVER, FILE_RETRIEVER)),
        default=None,
        meaning="Java's own retrievers are known by name",
    ),
    ConfigKey(
        name="sasl.login.callback.handler.class",
        type=refuse_java_class(OWN_FUNCTION, harmless=("OAuthBearerLoginCallbackHandler",)),
        default=None,
        meaning="Java's own handler is known by name",
    ),
    JAAS_KEY,
    *JAVA_CLASS_KEYS,
)
