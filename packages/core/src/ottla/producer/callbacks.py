"""The check of `on_delivery`: a callback is called with one argument, the delivery.

Other clients pass an error and a message, in either order. A function ported from them would fail for each record,
long after `send`, so `send` refuses it. The check is for such mistakes and proves nothing: what is not known to be
wrong is taken.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Sequence
from contextlib import suppress
from functools import partial
from inspect import CO_VARARGS
from types import FunctionType, MethodType
from typing import Final

from ottla.accumulator.plain_functions import require_plain_function
from ottla.errors import InvalidRecordError
from ottla.errors.quoting import callback_name
from ottla.errors.signatures import signature_of

UNCHECKED: Final = object()
"""A key that no callback has."""

_PLACEHOLDER: Final = getattr(functools, "Placeholder", object())
"""What Python 3.14 puts in place of an argument that a partial leaves to its call, before others that it sets."""


def check_callback(callback: object) -> object:
    """Raise for a callback that cannot be called with a delivery as its only argument.

    InvalidRecordError: it cannot be called at all. TypeError: it takes another number of arguments.

    Returns a key: a callback with the key of the previous one needs no check. It is the code object of a function, of a
    method's or a partial's function; else the type, or UNCHECKED if the type does not decide. `send` finds the key by
    itself, because a program may make a function for each record, and a check costs more than the rest of `send` in C.
    """
    kind = type(callback)
    if kind is FunctionType or kind is MethodType:
        _check_function(callback, callback)
        return getattr(callback, "__code__", UNCHECKED)
    if isinstance(callback, partial):
        gaps = [place for place, each in enumerate(callback.args) if each is _PLACEHOLDER]
        _check_function(callback.func, callback, given=len(callback.args), named=callback.keywords, gaps=gaps)
        return getattr(callback.func, "__code__", UNCHECKED) if kind is partial else UNCHECKED
    if not callable(callback):
        raise InvalidRecordError(f"on_delivery must be a function that takes a delivery, not {kind.__name__}")
    call = next((vars(each)["__call__"] for each in kind.__mro__ if "__call__" in vars(each)), None)
    _check_function(call, callback, given=1)
    return kind


def _check_function(
    function: object, callback: object, *, given: int = 0, named: Collection[str] = (), gaps: Sequence[int] = ()
) -> None:
    """Check a function of which *given* arguments, and those *named*, are set already. Others have no signature.

    *gaps*: those among the *given* arguments that are left to the call.
    """
    if isinstance(function, MethodType):
        function, given, gaps = function.__func__, given + 1, [place + 1 for place in gaps]
    if not isinstance(function, FunctionType):
        return  # built-in, or a class
    code = function.__code__
    require_plain_function(function, "on_delivery")
    if code.co_argcount == given + 1 and not gaps and not code.co_kwonlyargcount and not named:
        return
    names = code.co_varnames[: code.co_argcount]
    unset = tuple(names[place] if place < len(names) else "" for place in gaps)
    positional = unset + names[given:]
    required = unset + names[given : code.co_argcount - len(function.__defaults__ or ())]
    keywords = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    takes_one = positional[0] not in named if positional else bool(code.co_flags & CO_VARARGS)
    lacking = {*required[1:], *keywords}.difference(named, function.__kwdefaults__ or ())
    if takes_one and not lacking:
        return
    shown = callback_name(callback)
    with suppress(TypeError, ValueError):
        shown += str(signature_of(callback, follow_wrapped=False))  # type: ignore[arg-type]
    raise TypeError(
        f"on_delivery is called with one argument, the record's delivery, and {shown} takes "
        f"{'more' if takes_one else 'none'}: define it as f(delivery); delivery.error is None if the record was "
        "acknowledged, and delivery.metadata is None if it was not"
    )
