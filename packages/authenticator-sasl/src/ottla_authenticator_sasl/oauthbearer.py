"""OAUTHBEARER (RFC 7628): any holder of the token can log in with it, so it should be sent only inside TLS."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ottla.errors import AuthenticationError, Secrets, printable, quoted
from ottla.hookspecs import hookimpl
from ottla.interfaces import Authenticator, ConfigKey, Mechanism, PluginConfig, Step
from ottla_authenticator_sasl.bearer_token import Token
from ottla_authenticator_sasl.cleartext_warning import CLEARTEXT_KEYS, warn_of_cleartext
from ottla_authenticator_sasl.token_keys import NAME, OAUTH_KEYS
from ottla_authenticator_sasl.token_source_choice import TokenChoice, Tokens, token_choice

ottla_conformance = "ottla_authenticator_sasl.conformance:OAuthBearerConformance"

_SEPARATOR = "\x01"
_END_OF_REFUSAL = b"\x01"


class OAuthBearerMechanism:
    """All connections send the same token until it is renewed."""

    name = NAME
    blocking = True
    concurrent_logins = True

    def __init__(self, choice: TokenChoice) -> None:
        self._choice = choice
        self.identity = choice.identity
        self.remedy = choice.remedy
        self.echoes: Secrets | None = None  # hides the last token, which any later response may contain

    def authenticator(self, host: str, port: int) -> Authenticator:
        """Return a new exchange, which takes its token when it starts."""
        return OAuthBearerExchange(self)

    def close(self) -> None:
        """Stop the renewal of tokens in the background."""
        self._choice.tokens.close()

    @property
    def tokens(self) -> Tokens:
        """The source of tokens."""
        return self._choice.tokens

    def first_message(self, token: Token) -> bytes:
        """Return the message with the token. Extensions of the token override those of the configuration."""
        # `printable`, because the claims come from the token's issuer.
        self.identity = printable(token.principal) if token.principal else self._choice.identity
        extensions: Mapping[str, str] = {**self._choice.extensions, **token.extensions}
        pairs = [f"auth=Bearer {token.value}", *(f"{name}={value}" for name, value in extensions.items())]
        return ("n,," + _SEPARATOR + _SEPARATOR.join(pairs) + _SEPARATOR * 2).encode("ascii")


class OAuthBearerExchange:
    """Send one message. A refusal is JSON; the client must acknowledge it before the broker sends the error."""

    def __init__(self, mechanism: OAuthBearerMechanism) -> None:
        self._mechanism = mechanism
        self._token: Token | None = None
        self._echoes: Secrets | None = None  # the broker may repeat the token in its refusal
        self._refusal: str | None = None

    def start(self) -> bytes:
        """Return the message with the token. Blocks until there is a token.

        Raises AuthenticationError or ConnectionFailedError with the cause if there is none.
        """
        self._token = self._mechanism.tokens.token()
        self._echoes = self._mechanism.echoes = Secrets(self._token.value)
        return self._mechanism.first_message(self._token)

    def challenge(self, data: bytes) -> Step:
        """Return the final step, or the acknowledgement of a refusal."""
        if self._refusal is not None:
            raise AuthenticationError(f"the broker refused the token: {self._refusal}; {self._mechanism.remedy}")
        if not data:
            return Step(reply=None, done=True)
        self.refused(certain=True)
        self._refusal = quoted(data)
        return Step(reply=_END_OF_REFUSAL, done=False)

    def refused(self, *, certain: bool) -> None:
        """Report that the broker refused the token, or closed the connection: the next login uses another token."""
        if self._token is not None:
            self._mechanism.tokens.forget(self._token, certain=certain)


@hookimpl
def ottla_config_keys() -> Sequence[ConfigKey]:
    """Keys for the source of tokens, for renewal, and for sending tokens without encryption."""
    return (*OAUTH_KEYS, *CLEARTEXT_KEYS)


@hookimpl
def ottla_authenticator(config: PluginConfig) -> Mechanism:
    """The mechanism named `OAUTHBEARER`."""
    choice = token_choice(config)
    warn_of_cleartext(config, mechanism=NAME, sent="the token")
    return OAuthBearerMechanism(choice)
