"""The keys of OAUTHBEARER: Java's, and some of Ottla's own that replace Java's classes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ottla.interfaces import ConfigKey, boolean
from ottla_authenticator_sasl.assertion_keys import ASSERTION_KEYS
from ottla_authenticator_sasl.https_trust import HTTPS_KEYS
from ottla_authenticator_sasl.login import JAAS_KEY, JAVA_CLASS_KEYS, a_secret, a_string, refuse_java_class
from ottla_authenticator_sasl.token_sources import PROVIDER
from ottla_authenticator_sasl.user_functions import a_function
from ottla_authenticator_sasl.value_types import milliseconds, number

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
BEARER_RETRIEVER: Final = "JwtBearerJwtRetriever"
OWN_FUNCTION: Final = f"set {PROVIDER} to a function that returns a token"


def _extensions(raw: Any) -> Mapping[str, str]:
    if isinstance(raw, Mapping):
        return dict(raw)
    pairs = [part.partition("=") for part in a_string(raw).split(",") if part.strip()]
    if not all(equals for _, equals, _ in pairs):
        raise ValueError("write name=value,name=value, or give a mapping")
    return {name.strip(): value.strip() for name, _, value in pairs}


OAUTH_KEYS: Final = (
    ConfigKey(
        name=PROVIDER,
        type=a_function,
        default=None,
        meaning="a function or a method without arguments, plain or async, that returns a token",
    ),
    ConfigKey(name=URL, type=a_string, default=None, meaning="the token endpoint's URL, or file:///path of a token"),
    ConfigKey(name=CLIENT_ID, type=a_string, default=None, meaning="the client's id at the identity server"),
    ConfigKey(
        name=CLIENT_SECRET,
        type=a_secret,
        default=None,
        meaning="the client's secret at the identity server",
        secret=True,
    ),
    ConfigKey(name=SCOPE, type=a_string, default=None, meaning="the scope to request for a token"),
    ConfigKey(
        name=EXTENSIONS,
        type=_extensions,
        default=None,
        meaning="SASL extensions to send with the token; write name=value,name=value or give a mapping",
        secret=True,  # may contain a secret, depending on the broker
    ),
    ConfigKey(
        name="sasl.oauthbearer.header.urlencode",
        type=boolean,
        default=False,
        meaning="whether id and secret are URL-encoded before base64",
    ),
    ConfigKey(
        name="sasl.oauthbearer.sub.claim.name", type=a_string, default="sub", meaning="the claim with the principal"
    ),
    ConfigKey(
        name="sasl.oauthbearer.scope.claim.name", type=a_string, default="scope", meaning="the claim with the scope"
    ),
    ConfigKey(
        name="sasl.login.connect.timeout.ms",
        type=milliseconds,
        default=5.0,
        meaning="milliseconds to connect to the identity server",
    ),
    ConfigKey(
        name="sasl.login.read.timeout.ms",
        type=milliseconds,
        default=5.0,
        meaning="milliseconds to wait for the identity server's response",
    ),
    ConfigKey(
        name="sasl.login.retry.backoff.ms",
        type=milliseconds,
        default=0.1,
        meaning="milliseconds before a request to the identity server is retried; waits double",
    ),
    ConfigKey(
        name="sasl.login.retry.backoff.max.ms",
        type=milliseconds,
        default=10.0,
        meaning="the longest of these waits, in milliseconds; during a login, retries end after 5 s",
    ),
    ConfigKey(
        name="sasl.login.refresh.window.factor",
        type=number(minimum=0.5, maximum=1.0),
        default=0.8,
        meaning="the fraction of its lifetime after which a token is renewed",
    ),
    ConfigKey(
        name="sasl.login.refresh.window.jitter",
        type=number(minimum=0.0, maximum=0.25),
        default=0.05,
        meaning="the largest random fraction of the lifetime that is added to this",
    ),
    ConfigKey(
        name="sasl.login.refresh.min.period.seconds",
        type=number(minimum=0, maximum=900),
        default=60.0,
        meaning="the minimum seconds between two renewals",
    ),
    ConfigKey(
        name="sasl.login.refresh.buffer.seconds",
        type=number(minimum=0, maximum=3600),
        default=300.0,
        meaning="a token is renewed at least this many seconds before its expiry",
    ),
    ConfigKey(
        name=RETRIEVER,
        type=refuse_java_class(
            OWN_FUNCTION, harmless=(ANY_RETRIEVER, ENDPOINT_RETRIEVER, BEARER_RETRIEVER, FILE_RETRIEVER)
        ),
        default=None,
        meaning="one of Java's retrievers; JwtBearerJwtRetriever exchanges an assertion for a token",
    ),
    ConfigKey(
        name="sasl.login.callback.handler.class",
        type=refuse_java_class(OWN_FUNCTION, harmless=("OAuthBearerLoginCallbackHandler",)),
        default=None,
        meaning="not needed; only the name of Java's own handler is accepted",
    ),
    *ASSERTION_KEYS,
    *HTTPS_KEYS,
    JAAS_KEY,
    *JAVA_CLASS_KEYS,
)
