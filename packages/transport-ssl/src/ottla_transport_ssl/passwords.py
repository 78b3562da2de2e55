"""Passwords of stores and keys: configured, or returned by a function whenever a store is read."""

from __future__ import annotations

import asyncio
import inspect
import traceback
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from ottla.errors import ConfigError, OttlaError, with_article
from ottla.interfaces import Secret

Password: TypeAlias = Secret[str] | Callable[[], Any]


def current(password: Password | None, *, key: str) -> Secret[str] | None:
    """Return the current password. Raises ConfigError if the function raised, or did not return a string.

    Messages never quote its exception, because it may hold the secret; Ottla's own errors keep their message.
    """
    if password is None or isinstance(password, Secret):
        return password
    try:
        given = Secret(_returned(password))
    except OttlaError as error:
        problem = f"{key}: {error}"
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        problem = f"{key} raised {type(error).__name__} ({place.filename}:{place.lineno})"
    else:
        if isinstance(given.reveal(), str):
            return given if given.reveal() else None
        problem = f"{key} returned {with_article(type(given.reveal()).__name__)}; a password must be a string"
    raise ConfigError([problem])  # outside the except block it has no context, whose frames may hold the secret


def _returned(function: Callable[[], Any]) -> Any:
    given = function()
    return asyncio.run(_awaited(given)) if inspect.isawaitable(given) else given


async def _awaited(given: Awaitable[Any]) -> Any:
    return await given
