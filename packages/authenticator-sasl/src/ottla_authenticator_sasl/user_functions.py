"""User functions that return a secret, plain or async: their check, and their calls, whose errors become Ottla's.

Messages never quote a function's exception, because it may hold the secret; Ottla's own errors keep their message.
"""

from __future__ import annotations

import asyncio
import inspect
import traceback
from collections.abc import Awaitable, Callable
from inspect import Parameter
from typing import Any, Final, TypeAlias

from ottla.errors import AuthenticationError, ConnectionFailedError, NetworkError, OttlaError
from ottla.errors.signatures import signature_of
from ottla.interfaces import Secret

Function: TypeAlias = Callable[[], Any]
"""A function of the user's, plain or async."""

_ANY_NUMBER: Final = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)


def a_function(raw: Any) -> Function:
    """Return the value, which must be a function that can be called without arguments. Raises ValueError.

    What is not known to be wrong is taken: a built-in function may have no signature.
    """
    if not callable(raw):
        raise ValueError("it must be a function without arguments")
    needed = _needed(raw)
    if needed:
        name = getattr(raw, "__qualname__", type(raw).__qualname__)
        raise ValueError(f"it is called without arguments, and {name} needs {', '.join(needed)}: define it as f()")
    function: Function = raw
    return function


def _needed(function: Any) -> list[str]:
    """Return the names of the arguments that a call cannot leave out."""
    try:
        parameters = signature_of(function, follow_wrapped=False).parameters.values()
    except (TypeError, ValueError):
        return []
    return [each.name for each in parameters if each.default is each.empty and each.kind not in _ANY_NUMBER]


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
