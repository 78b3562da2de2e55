"""Tokens from a function of the user's, or from a file.

What the function raises is never quoted, for it may hold the secret; our own errors keep their words.
"""

from __future__ import annotations

import asyncio
import inspect
import time
import traceback
from collections.abc import Awaitable, Callable
from typing import Any

from ottla.config.allow_lists import read_file
from ottla.errors import AuthenticationError, ConnectionFailedError, OttlaError
from ottla_authenticator_sasl.bearer_token import MAX_TOKEN, ClaimNames, Token, expired, token_of

PROVIDER = "sasl.oauthbearer.token.provider"


def provided(provider: Callable[[], Any], *, names: ClaimNames) -> Callable[[], Token]:
    """A fetch that asks the user's function; what it returns is awaited if it must be, in an event loop of its own."""

    def fetch() -> Token:
        try:
            given = provider()
            if inspect.isawaitable(given):
                given = asyncio.run(_awaited(given))
        except OttlaError:
            raise
        except (OSError, EOFError) as error:  # also what HTTP clients raise
            raise ConnectionFailedError(f"{PROVIDER} could not fetch a token: {_type_and_place(error)}") from None
        except Exception as error:
            raise AuthenticationError(f"{PROVIDER} raised {_type_and_place(error)}") from None
        return token_of(given, names=names, source=PROVIDER)

    return fetch


class FileTokens:
    """The token that a file holds now, read for each login. It must be an allowed one each time."""

    def __init__(self, path: str, *, names: ClaimNames, clock: Callable[[], float] = time.time) -> None:
        self._path = path
        self._names = names
        self._clock = clock

    def token(self) -> Token:
        """What is in the file, blanks around it apart."""
        source = f"the file {self._path}"
        try:
            content = read_file(self._path, max_bytes=MAX_TOKEN)
        except OSError as error:
            raise AuthenticationError(f"the token in {source} cannot be read: {error.strerror}") from error
        except ValueError as error:  # not allowed, or too large
            raise AuthenticationError(f"the token in {source} is not read: {error}") from error
        token = token_of(content.decode("ascii", "replace").strip(), names=self._names, source=source)
        error_with_it = expired(token, now=self._clock(), source=source)
        if error_with_it is not None:
            raise error_with_it
        return token

    def forget(self, token: Token, *, certain: bool = True) -> None:
        """Nothing is kept."""

    def close(self) -> None:
        """Nothing is open."""


async def _awaited(given: Awaitable[Any]) -> Any:
    return await given


def _type_and_place(error: Exception) -> str:
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} ({place.filename}:{place.lineno})"
