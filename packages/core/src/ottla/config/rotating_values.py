"""Functions in place of values of keys that rotate: the check that they can be called as the plugins call them."""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter
from typing import Any, Final

from ottla.errors.signatures import signature_of

_ANY_NUMBER: Final = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)


def problem_of_function(function: Callable[..., Any]) -> str | None:
    """What is wrong with a function that is called without arguments; None if nothing is known to be wrong.

    Neither its repr nor a default is quoted, because they may hold a secret.
    """
    try:
        parameters = signature_of(function, follow_wrapped=False).parameters.values()
    except (TypeError, ValueError):  # a built-in function may have no signature
        return None
    needed = [each.name for each in parameters if each.default is each.empty and each.kind not in _ANY_NUMBER]
    if not needed:
        return None
    name = getattr(function, "__qualname__", type(function).__qualname__)
    return f"it is called without arguments, and {name} needs {', '.join(needed)}: define it as f()"
