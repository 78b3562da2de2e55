"""Calls of user functions that return a secret, plain or async, in place of a value of the configuration.

Messages never quote a function's exception, because it may hold the secret; Ottla's own errors keep their message.
"""

from __future__ import annotations

import asyncio
import inspect
import traceback
from collections.abc import Awaitable, Callable
from typing import Any

from ottla.errors import AuthenticationError, ConnectionFailedError, NetworkError, OttlaError
from ottla.errors.secret import Secret


def ask(function: Callable[[], Any], *, key: str, wanted: str) -> Secret[Any]:
    """Call a user's function, which may block, and return its result as a Secret.

    An awaitable result is awaited in a new event loop.

    Raises ConnectionFailedError, which is retried, for network errors, and AuthenticationError for all others.
    """
    error: NetworkError
    try:
        return Secret(returned(function))
    except NetworkError:
        raise
    except OttlaError as raised:  # such as a reference of config.providers that cannot be resolved now
        error = AuthenticationError(f"{key}: {raised}")
    except (OSError, EOFError) as raised:  # HTTP clients raise these, too
        error = ConnectionFailedError(f"{key} could not fetch {wanted}: {type_and_place(raised)}")
    except Exception as raised:
        error = AuthenticationError(f"{key} raised {type_and_place(raised)}")
    raise error  # outside the except block, so it has no context, whose frames may hold the secret


def returned(function: Callable[[], Any]) -> Any:
    """Call a user's function and return its result; an awaitable one is awaited in a new event loop."""
    given = function()
    return asyncio.run(_awaited(given)) if inspect.isawaitable(given) else given


async def _awaited(given: Awaitable[Any]) -> Any:
    return await given


def type_and_place(error: Exception) -> str:
    """The type of an exception and the place that raised it, for messages that must not quote it."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} ({place.filename}:{place.lineno})"
