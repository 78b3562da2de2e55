"""Tokens for another server than a broker: the client's credentials at an identity server, as OAUTHBEARER uses them.

The core finds `client_credentials` by an entry point. It keeps no token: the plugin that sends it does.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from ottla.config.allow_lists import NotAllowedError, check_url
from ottla.errors import ConfigError, printable
from ottla.interfaces import Secret
from ottla.plugins.client_credentials import ClientLogin, WebToken
from ottla_authenticator_sasl.bearer_token import ClaimNames
from ottla_authenticator_sasl.token_cache import Retry
from ottla_authenticator_sasl.token_endpoint import ClientCredentials, EndpointKeys, TokenEndpoint
from ottla_authenticator_sasl.web_address import Address

TIMEOUT: Final = 5.0
"""Seconds to connect, and then for the response, as of `sasl.login.connect.timeout.ms`."""


def client_credentials(login: ClientLogin) -> Callable[[], WebToken]:
    """Return a function that fetches a token. Raises ConfigError for an URL that may not be used."""
    try:
        check_url(login.url)
        address = Address.read(login.url)
    except NotAllowedError as error:  # the whole message, because its remedy comes last
        raise ConfigError([f"{login.url_key}: {error}"]) from None
    except ValueError as error:
        raise ConfigError([f"{login.url_key}: {printable(str(error))}"]) from None
    endpoint = TokenEndpoint(
        address,
        ClientCredentials(client_id=login.client_id, secret=login.secret, scope=login.scope),
        names=ClaimNames(),
        connect_timeout=TIMEOUT,
        read_timeout=TIMEOUT,
        retry=Retry(),
        closing=threading.Event(),
        context=login.context,
        keys=EndpointKeys(url=login.url_key, client=login.client_keys, trust=login.trust_key),
    )

    def fetch() -> WebToken:
        token = endpoint.fetch()
        expires_at = None if token.expires_at_ms is None else token.expires_at_ms / 1000
        return WebToken(value=Secret(token.value), expires_at=expires_at)

    return fetch
