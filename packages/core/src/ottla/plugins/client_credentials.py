"""Tokens of an identity server for a plugin that speaks HTTP, such as that of a schema registry.

The package of OAUTHBEARER fetches them. No plugin imports another, so an entry point says where its function is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import attrs

from ottla.errors import ConfigError
from ottla.interfaces import Secret
from ottla.plugins.registry.installed import entry_point

GROUP: Final = "ottla_tokens"
NAME: Final = "client-credentials"
_INSTALL: Final = "pip install ottla-authenticator-sasl"


@attrs.frozen(kw_only=True)
class WebToken:
    """A bearer token; `expires_at` is in seconds since the epoch, None if it is not known."""

    value: Secret[str]
    expires_at: float | None = None


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ClientLogin:
    """The login of a client at an identity server. *url_key*, *client_keys* and *trust_key* are words for errors.

    `context` makes the `ssl.SSLContext` of each request.
    """

    url: str
    client_id: str
    secret: Secret[str]
    scope: str | None
    context: Callable[[], Any]
    url_key: str
    client_keys: str
    trust_key: str


TokenFetch: TypeAlias = Callable[[], WebToken]
"""Fetches a new token within ten seconds, with retries. Raises AuthenticationError or ConnectionFailedError."""


def client_credentials(login: ClientLogin, *, needed_by: str) -> TokenFetch:
    """Return the function that fetches tokens of this client. It fetches none yet.

    Raises ConfigError for an URL that may not be used, and if the package that fetches tokens is not installed.
    """
    entry = entry_point(GROUP, NAME)
    if entry is None:
        raise ConfigError([f"{needed_by} needs the package that fetches tokens; try: {_INSTALL}"])
    try:
        make: Any = entry.load()
    except Exception as error:
        raise ConfigError(
            [f"{needed_by}: {entry.value} cannot be imported ({type(error).__name__}); try: {_INSTALL}"]
        ) from error
    fetch: TokenFetch = make(login)
    return fetch
