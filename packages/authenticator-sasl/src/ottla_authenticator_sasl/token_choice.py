"""Which source of tokens a configuration asks for: the user's function, a file, or an identity server."""

from __future__ import annotations

import math
import threading
import urllib.parse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Protocol

import attrs

from ottla.errors import AuthenticationFailed, ConfigError
from ottla.interfaces import ConfigKey, PluginConfig
from ottla_authenticator_sasl.bearer_token import ClaimNames, Token, check_extensions
from ottla_authenticator_sasl.login import JAAS, JAAS_KEY, JAVA_CLASS_KEYS, a_string, module_options, refuse_java_class
from ottla_authenticator_sasl.refresh import RefreshWindow
from ottla_authenticator_sasl.token_endpoint import Address, ClientCredentials, TokenEndpoint
from ottla_authenticator_sasl.token_keeper import Retry, TokenKeeper
from ottla_authenticator_sasl.token_sources import PROVIDER, FileTokens, provided

NAME: Final = "OAUTHBEARER"

URL: Final = "sasl.oauthbearer.token.endpoint.url"
CLIENT_ID: Final = "sasl.oauthbearer.client.credentials.client.id"
CLIENT_SECRET: Final = "sasl.oauthbearer.client.credentials.client.secret"
SCOPE: Final = "sasl.oauthbearer.scope"
EXTENSIONS: Final = "sasl.oauthbearer.extensions"
RETRIEVER: Final = "sasl.oauthbearer.jwt.retriever.class"

_FILE_RETRIEVER: Final = "FileJwtRetriever"
_ENDPOINT_RETRIEVER: Final = "ClientCredentialsJwtRetriever"
_OWN_FUNCTION: Final = f"fetch the token in a function of yours, and give it as {PROVIDER}"
_EXTENSION: Final = "extension_"


class Tokens(Protocol):
    """Where an exchange gets its token from."""

    def token(self) -> Token:
        """A token that is good now; may wait."""

    def forget(self, token: Token) -> None:
        """The broker refused this one."""

    def close(self) -> None:
        """Let go of threads; returns at once."""


@attrs.frozen(kw_only=True)
class TokenChoice:
    """The source of tokens, and what the configuration adds to each."""

    tokens: Tokens
    extensions: Mapping[str, str]
    identity: str | None
    remedy: str


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
    ConfigKey(name=EXTENSIONS, type=_extensions, default=None, meaning="told to the broker with the token"),
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
        default=10.0,
        meaning="milliseconds to connect to the identity server",
    ),
    ConfigKey(
        name="sasl.login.read.timeout.ms",
        type=_MILLISECONDS,
        default=10.0,
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
        meaning="for how long it is asked again",
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
        type=refuse_java_class(_OWN_FUNCTION, harmless=("DefaultJwtRetriever", _ENDPOINT_RETRIEVER, _FILE_RETRIEVER)),
        default=None,
        meaning="Java's own retrievers are known by name",
    ),
    ConfigKey(
        name="sasl.login.callback.handler.class",
        type=refuse_java_class(_OWN_FUNCTION, harmless=("OAuthBearerLoginCallbackHandler",)),
        default=None,
        meaning="Java's own handler is known by name",
    ),
    JAAS_KEY,
    *JAVA_CLASS_KEYS,
)


def token_choice(config: PluginConfig) -> TokenChoice:
    """The source that the keys ask for. ConfigError."""
    options = module_options(
        config, mechanism=NAME, module="OAuthBearerLoginModule", plain=(CLIENT_ID, CLIENT_SECRET, SCOPE, EXTENSIONS)
    )
    if options is not None and any(name.startswith("unsecuredLogin") for name in options):
        raise ConfigError([f"{JAAS}: unsecured tokens are not made here; {_OWN_FUNCTION}"])
    provider, url = config[PROVIDER], config[URL]
    if (provider is None) == (url is None):
        which = "is missing; set one of" if url is None else "is not one: leave out one of"
        raise ConfigError([f"sasl.mechanism={NAME}: the source of tokens {which} {PROVIDER} and {URL}"])
    extensions = _configured_extensions(config, options or {})
    names = ClaimNames(
        subject=config["sasl.oauthbearer.sub.claim.name"], scope=config["sasl.oauthbearer.scope.claim.name"]
    )
    closing = threading.Event()
    if provider is not None:
        _refuse_retriever(config, wanted="DefaultJwtRetriever", source=PROVIDER)
        fetch = provided(provider, names=names)
        tokens: Tokens = _kept(fetch, source=PROVIDER, config=config, closing=closing)
        return TokenChoice(tokens=tokens, extensions=extensions, identity=None, remedy=f"check {PROVIDER}")
    if url.lower().startswith("file:"):
        _refuse_retriever(config, wanted=_FILE_RETRIEVER, source="a file")
        tokens = FileTokens(_path(url), names=names)
        return TokenChoice(tokens=tokens, extensions=extensions, identity=None, remedy=f"check the file of {URL}")
    _refuse_retriever(config, wanted=_ENDPOINT_RETRIEVER, source="an identity server")
    credentials = _credentials(config, options)
    endpoint = _endpoint(config, credentials, names=names, closing=closing)
    tokens = _kept(endpoint.fetch, source=endpoint.source, config=config, closing=closing)
    return TokenChoice(
        tokens=tokens,
        extensions=extensions,
        identity=credentials.client_id,
        remedy=f"check what {endpoint.source} issues: audience, issuer and scope must be what the broker expects",
    )


def _endpoint(
    config: PluginConfig, credentials: ClientCredentials, *, names: ClaimNames, closing: threading.Event
) -> TokenEndpoint:
    try:
        address = Address.read(config[URL])
    except ValueError as error:
        raise ConfigError([f"{URL}: {error}"]) from None
    return TokenEndpoint(
        address,
        credentials,
        names=names,
        connect_timeout=config["sasl.login.connect.timeout.ms"],
        read_timeout=config["sasl.login.read.timeout.ms"],
        retry=_retry(config),
        closing=closing,
    )


def _kept(fetch: Callable[[], Token], *, source: str, config: PluginConfig, closing: threading.Event) -> TokenKeeper:
    window = RefreshWindow(
        factor=config["sasl.login.refresh.window.factor"],
        jitter=config["sasl.login.refresh.window.jitter"],
        min_period=config["sasl.login.refresh.min.period.seconds"],
        buffer=config["sasl.login.refresh.buffer.seconds"],
    )
    return TokenKeeper(fetch, source=source, window=window, retry=_retry(config), closing=closing)


def _retry(config: PluginConfig) -> Retry:
    return Retry(first=config["sasl.login.retry.backoff.ms"], longest=config["sasl.login.retry.backoff.max.ms"])


def _credentials(config: PluginConfig, options: Mapping[str, str] | None) -> ClientCredentials:
    if options is None:
        where, values = f"{CLIENT_ID} and {CLIENT_SECRET}", (config[CLIENT_ID], config[CLIENT_SECRET], config[SCOPE])
    else:
        where = f"the options clientId and clientSecret of {JAAS}"
        values = (options.get("clientId"), options.get("clientSecret"), options.get("scope"))
    client_id, secret, scope = values
    if not client_id or not secret:
        raise ConfigError([f"sasl.mechanism={NAME} with an identity server needs {where}, neither of them empty"])
    return ClientCredentials(
        client_id=client_id, secret=secret, scope=scope, urlencoded=config["sasl.oauthbearer.header.urlencode"]
    )


def _configured_extensions(config: PluginConfig, options: Mapping[str, str]) -> Mapping[str, str]:
    extensions = config[EXTENSIONS] or {
        name.removeprefix(_EXTENSION): value for name, value in options.items() if name.startswith(_EXTENSION)
    }
    try:
        check_extensions(extensions, source=EXTENSIONS if config[EXTENSIONS] else JAAS)
    except AuthenticationFailed as error:
        raise ConfigError([str(error)]) from None
    return dict(extensions)


def _refuse_retriever(config: PluginConfig, *, wanted: str, source: str) -> None:
    named = (config[RETRIEVER] or "DefaultJwtRetriever").rpartition(".")[2]
    if named not in ("DefaultJwtRetriever", wanted):
        raise ConfigError([f"{RETRIEVER} names the {named}, and the token comes from {source}; leave it out"])


def _path(url: str) -> Path:
    parts = urllib.parse.urlsplit(url)
    if parts.netloc not in ("", "localhost") or not parts.path.startswith("/"):
        raise ConfigError([f"{URL}: a file is written file:///path, with three slashes"])
    return Path(urllib.parse.unquote(parts.path))
