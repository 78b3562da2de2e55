"""Choice of the configured source of tokens: the user's function, a file, or an identity server."""

from __future__ import annotations

import threading
import urllib.parse
from collections.abc import Callable, Collection, Mapping
from typing import Final, Protocol

import attrs

from ottla.config.allow_lists import NotAllowedError, check_file, check_url
from ottla.errors import AuthenticationError, ConfigError, printable
from ottla.interfaces import PluginConfig, Secret
from ottla_authenticator_sasl.assertion_grants import ClientAssertion, JwtBearer
from ottla_authenticator_sasl.assertion_keys import FILE, ISSUER, KEY_FILE
from ottla_authenticator_sasl.assertions import assertion
from ottla_authenticator_sasl.bearer_token import ClaimNames, Token, check_extensions
from ottla_authenticator_sasl.https_trust import HttpsTrust, https_trust
from ottla_authenticator_sasl.login import JAAS, module_options
from ottla_authenticator_sasl.token_cache import LIMIT, Retry, TokenCache
from ottla_authenticator_sasl.token_endpoint import ClientCredentials, Grant, TokenEndpoint
from ottla_authenticator_sasl.token_keys import (
    ANY_RETRIEVER,
    BEARER_RETRIEVER,
    CLIENT_ID,
    CLIENT_SECRET,
    ENDPOINT_RETRIEVER,
    EXTENSIONS,
    FILE_RETRIEVER,
    NAME,
    OWN_FUNCTION,
    RETRIEVER,
    SCOPE,
    URL,
)
from ottla_authenticator_sasl.token_refresh_time import RefreshWindow
from ottla_authenticator_sasl.token_sources import PROVIDER, FileTokens, provided
from ottla_authenticator_sasl.web_address import Address

_EXTENSION: Final = "extension_"


class Tokens(Protocol):
    """A source of tokens."""

    def token(self) -> Token:
        """Return a token that is valid now. Blocks while one is fetched."""

    def forget(self, token: Token, *, certain: bool = True) -> None:
        """Report a token that the broker refused; not *certain*: the broker closed the connection without an error."""

    def close(self) -> None:
        """Release threads; returns immediately."""


@attrs.frozen(kw_only=True)
class TokenChoice:
    """The source of tokens, and the extensions that the configuration adds to each."""

    tokens: Tokens
    extensions: Mapping[str, str]
    identity: str | None
    remedy: str


def token_choice(config: PluginConfig) -> TokenChoice:
    """Return the source of tokens that the settings choose: a function, a file or a server. Fetches no token yet.

    Raises ConfigError if the settings choose no source or several, or if the source's own settings are wrong.
    """
    options = module_options(config, mechanism=NAME, module="OAuthBearerLoginModule", plain=()) or {}
    if any(name.startswith("unsecuredLogin") for name in options):
        raise ConfigError([f"{JAAS}: unsecured tokens are not supported; {OWN_FUNCTION}"])
    provider, url = config[PROVIDER], config[URL]
    if (provider is None) == (url is None):
        which = "has no source of tokens; set" if url is None else "has two sources of tokens; leave out"
        raise ConfigError([f"sasl.mechanism={NAME} {which} one of {PROVIDER} and {URL}"])
    if provider is not None:
        return _by_function(config, options)
    return _by_file(config, options) if url.lower().startswith("file:") else _by_server(config, options)


def _by_function(config: PluginConfig, options: Mapping[str, str]) -> TokenChoice:
    _refuse_retriever(config, wanted=(), source=PROVIDER)
    fetch = provided(config[PROVIDER], names=_names(config))
    return TokenChoice(
        tokens=_kept(fetch, source=PROVIDER, config=config, closing=threading.Event(), limit=LIMIT),
        extensions=_extensions(config, options),
        identity=None,
        remedy=f"check {PROVIDER}",
    )


def _by_file(config: PluginConfig, options: Mapping[str, str]) -> TokenChoice:
    _refuse_retriever(config, wanted=(FILE_RETRIEVER,), source="a file")
    path = _path(config[URL])
    try:
        check_file(path)
    except NotAllowedError as error:
        raise ConfigError([f"{URL}: {error}"]) from None
    return TokenChoice(
        tokens=FileTokens(path, names=_names(config)),
        extensions=_extensions(config, options),
        identity=None,
        remedy=f"check the file of {URL}",
    )


def _by_server(config: PluginConfig, options: Mapping[str, str]) -> TokenChoice:
    named = _refuse_retriever(config, wanted=(ENDPOINT_RETRIEVER, BEARER_RETRIEVER), source="an identity server")
    grant = _bearer(config, options) if named == BEARER_RETRIEVER else _credentials(config, options)
    closing = threading.Event()
    endpoint = _endpoint(config, grant, trust=https_trust(config, options), closing=closing)
    return TokenChoice(
        tokens=_kept(endpoint.fetch, source=endpoint.source, config=config, closing=closing, limit=endpoint.limit),
        extensions=_extensions(config, options),
        identity=_either(config, CLIENT_ID, options, "clientId") or config[ISSUER],
        remedy=f"check the tokens of {endpoint.source}: the broker must accept their audience, issuer and scope",
    )


def _names(config: PluginConfig) -> ClaimNames:
    return ClaimNames(
        subject=config["sasl.oauthbearer.sub.claim.name"], scope=config["sasl.oauthbearer.scope.claim.name"]
    )


def _endpoint(config: PluginConfig, grant: Grant, *, trust: HttpsTrust, closing: threading.Event) -> TokenEndpoint:
    try:
        check_url(config[URL])
        address = Address.read(config[URL])
    except NotAllowedError as error:  # the whole message, because its remedy comes last
        raise ConfigError([f"{URL}: {error}"]) from None
    except ValueError as error:
        raise ConfigError([f"{URL}: {printable(str(error))}"]) from None
    return TokenEndpoint(
        address,
        grant,
        names=_names(config),
        connect_timeout=config["sasl.login.connect.timeout.ms"],
        read_timeout=config["sasl.login.read.timeout.ms"],
        retry=_retry(config),
        closing=closing,
        context=trust.context,
    )


def _kept(
    fetch: Callable[[], Token], *, source: str, config: PluginConfig, closing: threading.Event, limit: float
) -> TokenCache:
    window = RefreshWindow(
        factor=config["sasl.login.refresh.window.factor"],
        jitter=config["sasl.login.refresh.window.jitter"],
        min_period=config["sasl.login.refresh.min.period.seconds"],
        buffer=config["sasl.login.refresh.buffer.seconds"],
    )
    return TokenCache(fetch, source=source, window=window, retry=_retry(config), closing=closing, limit=limit)


def _retry(config: PluginConfig) -> Retry:
    return Retry(first=config["sasl.login.retry.backoff.ms"], longest=config["sasl.login.retry.backoff.max.ms"])


def _bearer(config: PluginConfig, options: Mapping[str, str]) -> JwtBearer:
    made = assertion(config)
    if made is None:
        raise ConfigError([f"{BEARER_RETRIEVER} needs an assertion; set {FILE}, or {KEY_FILE} to create assertions"])
    _no_secret(config, options)
    return JwtBearer(assertion=made, scope=_either(config, SCOPE, options, "scope"))


def _credentials(config: PluginConfig, options: Mapping[str, str]) -> Grant:
    client_id = _either(config, CLIENT_ID, options, "clientId")
    scope = _either(config, SCOPE, options, "scope")
    made = assertion(config)
    if made is not None:
        _no_secret(config, options)
        return ClientAssertion(assertion=made, client_id=client_id, scope=scope)
    secret = _secret(config, options)
    if not client_id or secret is None or not secret.reveal():
        raise ConfigError(
            [
                f"sasl.mechanism={NAME} with an identity server needs {CLIENT_ID} and {CLIENT_SECRET} "
                f"(or clientId and clientSecret in {JAAS}), neither of them empty; or an assertion (set {KEY_FILE})"
            ]
        )
    urlencoded = config["sasl.oauthbearer.header.urlencode"]
    return ClientCredentials(client_id=client_id, secret=secret, scope=scope, urlencoded=urlencoded)


def _no_secret(config: PluginConfig, options: Mapping[str, str]) -> None:
    if _secret(config, options) is not None:
        raise ConfigError(
            [f"{CLIENT_SECRET} and an assertion (sasl.oauthbearer.assertion.*) are both given; leave one out"]
        )


def _secret(config: PluginConfig, options: Mapping[str, str]) -> Secret[str] | None:
    plain: Secret[str] | None = config[CLIENT_SECRET]
    if "clientSecret" not in options:
        return plain
    if plain is not None:
        raise ConfigError([f"{CLIENT_SECRET} and clientSecret in {JAAS} are both given; leave one out"])
    return Secret(options["clientSecret"])


def _either(config: PluginConfig, key: str, options: Mapping[str, str], option: str) -> str | None:
    """Return a value that may be in a plain key or in an option of `sasl.jaas.config`, but not in both."""
    plain: str | None = config[key]
    if plain is not None and option in options:
        raise ConfigError([f"{key} and {option} in {JAAS} are both given; leave one out"])
    return options.get(option) if plain is None else plain


def _extensions(config: PluginConfig, options: Mapping[str, str]) -> Mapping[str, str]:
    plain: Mapping[str, str] = config[EXTENSIONS] or {}
    of_java = {name.removeprefix(_EXTENSION): options[name] for name in options if name.startswith(_EXTENSION)}
    if plain and of_java:
        raise ConfigError([f"{EXTENSIONS} and extensions in {JAAS} are both given; leave one out"])
    try:
        check_extensions(plain or of_java, source=EXTENSIONS if plain else JAAS)
    except AuthenticationError as error:
        raise ConfigError([str(error)]) from None
    return dict(plain or of_java)


def _refuse_retriever(config: PluginConfig, *, wanted: Collection[str], source: str) -> str:
    """Return the configured retriever's name. Raises ConfigError unless it is one of *wanted*, or Java's default."""
    named: str = (config[RETRIEVER] or ANY_RETRIEVER).rpartition(".")[2]
    if named not in (ANY_RETRIEVER, *wanted):
        raise ConfigError([f"{RETRIEVER} names the {named}, but the token comes from {source}; leave it out"])
    return named


def _path(url: str) -> str:
    parts = urllib.parse.urlsplit(url)
    if parts.netloc not in ("", "localhost") or not parts.path.startswith("/"):
        raise ConfigError([f"{URL}: write the URL of a file as file:///path, with three slashes"])
    return urllib.parse.unquote(parts.path)
