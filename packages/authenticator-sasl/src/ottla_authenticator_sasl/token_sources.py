"""Tokens from a user's function, or from a file.

Messages never quote the function's exception, because it may hold the secret; Ottla's own errors keep their message.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from ottla.config.allow_lists import read_file
from ottla.config.function_calls import returned, type_and_place
from ottla.errors import AuthenticationError, ConnectionFailedError, OttlaError, printable, quoted
from ottla_authenticator_sasl.bearer_token import MAX_TOKEN, ClaimNames, Token, expired, token_of

PROVIDER = "sasl.oauthbearer.token.provider"


def provided(provider: Callable[[], Any], *, names: ClaimNames) -> Callable[[], Token]:
    """Return a function that calls the user's function and returns a Token.

    If the user's function returns an awaitable, it is run with `asyncio.run`.
    """

    def fetch() -> Token:
        try:
            given = returned(provider)
        except OttlaError:
            raise
        except (OSError, EOFError) as error:  # HTTP clients raise these, too
            raise ConnectionFailedError(f"{PROVIDER} failed to fetch a token: {type_and_place(error)}") from None
        except Exception as error:
            raise AuthenticationError(f"{PROVIDER} raised {type_and_place(error)}") from None
        return token_of(given, names=names, source=PROVIDER)

    return fetch


class FileTokens:
    """The current token in a file, read for each login. Each time, the file must be allowed."""

    def __init__(self, path: str, *, names: ClaimNames, clock: Callable[[], float] = time.time) -> None:
        self._path = path
        self._names = names
        self._clock = clock

    def token(self) -> Token:
        """Read the file, and return its contents as a token. Raises AuthenticationError, also for an expired one."""
        source = f"the file {quoted(self._path)}"
        try:
            content = read_file(self._path, max_bytes=MAX_TOKEN)
        except OSError as error:
            raise AuthenticationError(
                f"the token in {source} cannot be read: {printable(str(error.strerror))}"
            ) from error
        except ValueError as error:  # not allowed, or too large
            raise AuthenticationError(f"the token in {source} cannot be used: {error}") from error
        token = token_of(content.decode("ascii", "replace").strip(), names=self._names, source=source)
        error_with_it = expired(token, now=self._clock(), source=source)
        if error_with_it is not None:
            raise error_with_it
        return token

    def forget(self, token: Token, *, certain: bool = True) -> None:
        """Do nothing: the file is read again for the next login."""

    def close(self) -> None:
        """Nothing to close."""
