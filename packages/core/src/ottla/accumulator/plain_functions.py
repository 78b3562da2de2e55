"""The check that a callback is a plain function: a call of one with `await` or `yield` runs nothing of it."""

from __future__ import annotations

from functools import partial
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR
from types import CodeType

from ottla.errors.quoting import callback_name


def require_plain_function(callback: object, parameter: str) -> None:
    """Raise TypeError for a coroutine or generator function, also in a partial, or as the `__call__` of an object."""
    function = callback
    while isinstance(function, partial):
        function = function.func
    code = getattr(function, "__code__", None)
    if code is None and callable(function):
        code = getattr(type(function).__call__, "__code__", None)
    if not isinstance(code, CodeType):
        return
    if code.co_flags & CO_COROUTINE:
        raise TypeError(
            f"{parameter} must be a plain function, and {callback_name(function)} is a coroutine function: nothing "
            "would await it; await the delivery instead, or start a task in a plain function"
        )
    if code.co_flags & (CO_GENERATOR | CO_ASYNC_GENERATOR):
        raise TypeError(
            f"{parameter} must be a plain function, and {callback_name(function)} is a generator function: nothing "
            "would iterate over what it returns, so nothing of it would run; leave out `yield`"
        )
