"""OAUTHBEARER (RFC 7628): a token, and nothing that proves who sends it, so only inside TLS."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ottla.errors import AuthenticationError, Secrets, printable, quoted
from ottla.hookspecs import hookimpl
from ottla.interfaces import Authenticator, ConfigKey, Mechanism, PluginConfig, Step
from ottla_authenticator_sasl.bearer_token import Token
from ottla_authenticator_sasl.cleartext import CLEARTEXT_KEYS, warn_of_cleartext
from ottla_authenticator_sasl.token_choice import TokenChoice, Tokens, token_choice
from ottla_authenticator_sasl.token_keys import NAME, OAUTH_KEYS

ottla_conformance = "ottla_authenticator_sasl.conformance:OAuthBearerConformance"

_SEPARATOR = "\x01"
_END_OF_REFUSAL = b"\x01"


class OAuthBearerMechanism:
    """All connections show the same token, until the next one comes."""

    name = NAME
    blocking = True

    def __init__(self, choice: TokenChoice) -> None:
        self._choice = choice
        self.identity = choice.identity
        self.remedy = choice.remedy
        self.echoes: Secrets | None = None  # of the last token: any later answer may have it, too

    def authenticator(self, host: str, port: int) -> Authenticator:
        """A new exchange, whose token is the one of its first moment."""
        return OAuthBearerExchange(self)

    def close(self) -> None:
        """End the renewal in the background."""
        self._choice.tokens.close()

    @property
    def tokens(self) -> Tokens:
        """Where tokens come from."""
        return self._choice.tokens

    def first_message(self, token: Token) -> bytes:
        """The token and its extensions, which go before those of the configuration."""
        # The claims of a token are words of whoever issued it.
        self.identity = printable(token.principal) if token.principal else self._choice.identity
        extensions: Mapping[str, str] = {**self._choice.extensions, **token.extensions}
        pairs = [f"auth=Bearer {token.value}", *(f"{name}={value}" for name, value in extensions.items())]
        return ("n,," + _SEPARATOR + _SEPARATOR.join(pairs) + _SEPARATOR * 2).encode("ascii")


class OAuthBearerExchange:
    """One message of ours; a refusal is JSON, which we must answer before the broker says the same as an error."""

    def __init__(self, mechanism: OAuthBearerMechanism) -> None:
        self._mechanism = mechanism
        self._token: Token | None = None
        self._echoes: Secrets | None = None  # the broker may write the token into its refusal
        self._refusal: str | None = None

    def start(self) -> bytes:
        """The token. Waits for one; AuthenticationError and ConnectionFailedError say why there is none."""
        self._token = self._mechanism.tokens.token()
        self._echoes = self._mechanism.echoes = Secrets(self._token.value)
        return self._mechanism.first_message(self._token)

    def challenge(self, data: bytes) -> Step:
        """Done, or the end of a refusal."""
        if self._refusal is not None:
            raise AuthenticationError(f"the broker refused the token: {self._refusal}; {self._mechanism.remedy}")
        if not data:
            return Step(reply=None, done=True)
        self.refused(certain=True)
        self._refusal = quoted(data)
        return Step(reply=_END_OF_REFUSAL, done=False)

    def refused(self, *, certain: bool) -> None:
        """The broker refused the token, or hung up on it: the next login shows another one."""
        if self._token is not None:
            self._mechanism.tokens.forget(self._token, certain=certain)


@hookimpl
def ottla_config_keys() -> Sequence[ConfigKey]:
    """Where tokens come from, when they are renewed, and whether they may be sent without encryption."""
    return (*OAUTH_KEYS, *CLEARTEXT_KEYS)


@hookimpl
def ottla_authenticator(config: PluginConfig) -> Mechanism:
    """The mechanism named `OAUTHBEARER`."""
    choice = token_choice(config)
    warn_of_cleartext(config, mechanism=NAME, sent="the token")
    return OAuthBearerMechanism(choice)
