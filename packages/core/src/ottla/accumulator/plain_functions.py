"""The check that a callback is no coroutine function: nothing would await what it returns, and it would never run."""

from __future__ import annotations

from functools import partial
from inspect import CO_COROUTINE
from types import CodeType

from ottla.errors.quoting import callback_name


def refuse_coroutine_function(callback: object, parameter: str) -> None:
    """Raise TypeError if a callback is a coroutine function, also in a partial, or as the `__call__` of an object."""
    function = callback
    while isinstance(function, partial):
        function = function.func
    code = getattr(function, "__code__", None)
    if code is None and callable(function):
        code = getattr(type(function).__call__, "__code__", None)
    if isinstance(code, CodeType) and code.co_flags & CO_COROUTINE:
        raise TypeError(
            f"{parameter} must be a plain function, and {callback_name(function)} is a coroutine function: nothing "
            "would await it; await the delivery instead, or start a task in a plain function"
        )
