"""User functions that return a secret, plain or async: their check. `ottla.config.function_calls` calls them."""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter
from typing import Any, Final, TypeAlias

from ottla.errors.signatures import signature_of

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
