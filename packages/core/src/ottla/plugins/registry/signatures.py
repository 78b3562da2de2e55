"""The arguments of a plugin's methods, compared with those of its contract while the plugin is assembled."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from types import MethodType
from typing import Any, Final

from ottla import hookspecs
from ottla.errors.signatures import signature_of
from ottla.errors.similar_names import most_similar
from ottla.plugins.registry.kinds import Kind, declared_in, missing_attributes

_POSITIONAL: Final = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_ITERATED: Final = {"cut_rows"}
"""Methods that return an iterator, and so may be generators."""
_VARIADIC: Final = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def wrong_signatures(found: object, kind: Kind, protocol: Any) -> tuple[str, ...]:
    """The methods of an object that cannot be called as the kind's contract calls them, each with the reason.

    *protocol* is the contract of the object's generation. Optional methods are compared too. A method whose signature
    Python does not know, such as one of a C library, counts as fitting. One with `yield` or `async` does not: nothing
    would run its code.
    """
    return tuple(_mismatches(found, protocol, *kind.abilities))


def fitting_generation(found: object, kind: Kind) -> int | None:
    """The newest generation of the kind whose attributes and signatures an object has, or None if it fits none."""
    for generation in reversed(kind.generations):
        protocol = kind.protocol_of(generation)
        if not missing_attributes(found, protocol) and not any(_mismatches(found, protocol)):
            return generation
    return None


def is_generator(function: Any) -> bool:
    """Return whether a call runs no code of a function, because it has `yield` or `async`."""
    return (
        inspect.isgeneratorfunction(function)
        or inspect.iscoroutinefunction(function)
        or inspect.isasyncgenfunction(function)
    )


def unknown_parameters(hook: str, function: Any) -> Iterator[str]:
    """A problem for each required parameter of a hook that the core does not pass; it lists those that it passes."""
    passed = list(inspect.signature(getattr(hookspecs, hook)).parameters)
    for each in signature_of(function).parameters.values():
        if each.kind in _POSITIONAL and each.default is each.empty and each.name not in passed:
            close = most_similar(each.name, passed)
            meant = f"did you mean {close!r}? " if close else ""
            yield f"{hook} has a parameter {each.name!r}; {meant}it may have {', '.join(passed) or 'none'}"


def _mismatches(found: object, *protocols: Any) -> Iterator[str]:
    for name in _calls(*protocols):
        method = getattr(found, name, None)
        if method is None or not callable(method):
            continue
        usual = inspect.ismethod(method) and inspect.isfunction(method.__func__)
        reason = _reason_of(method.__func__, name, protocols) if usual else _reason(method, name, protocols)
        if reason is not None:
            yield reason


@lru_cache(maxsize=1_024)  # a process makes many producers with the same plugins
def _reason_of(function: Any, name: str, protocols: Sequence[Any]) -> str | None:
    """The reason why a method that has this function does not fit, whichever object it belongs to."""
    return _reason(MethodType(function, object()), name, protocols)


def _reason(method: Any, name: str, protocols: Sequence[Any]) -> str | None:
    """The reason why a method cannot be called as one of these contracts calls it, or None if it can."""
    if name not in _ITERATED and is_generator(method):
        return f"{name} only makes a generator or a coroutine: write it without yield and async"
    try:
        signature = signature_of(method)
    except (TypeError, ValueError):
        no_self = inspect.ismethod(method) and inspect.isfunction(method.__func__)  # it takes no positional argument
        return f"{name} lacks the argument self" if no_self else None
    call = _calls(*protocols)[name]
    reason = _mismatch(signature, call)
    return None if reason is None else f"{name} {reason}; the call is {name}{call}"


def _mismatch(signature: inspect.Signature, call: inspect.Signature) -> str | None:
    """The reason why a method of this signature cannot be called with the arguments of *call*, or None if it can."""
    by_position = [each.name for each in call.parameters.values() if each.kind in _POSITIONAL]
    by_name = [name for name in call.parameters if name not in by_position]
    try:
        signature.bind(*by_position, **dict.fromkeys(by_name))
    except TypeError as error:
        lacking, required = _lacking(signature, by_position, by_name), _excess(signature, by_position, by_name)
        if lacking:
            return f"lacks the argument {', '.join(lacking)}"
        return f"requires the argument {', '.join(required)}" if required else f"cannot be called: {error}"
    return None


def _lacking(signature: inspect.Signature, by_position: Sequence[str], by_name: Sequence[str]) -> Sequence[str]:
    """The arguments of a call that a method does not take."""
    parameters = signature.parameters
    kinds = {each.kind for each in parameters.values()}
    taken = sum(each.kind in _POSITIONAL for each in parameters.values())
    excess = [] if inspect.Parameter.VAR_POSITIONAL in kinds else by_position[taken:]
    unknown = [] if inspect.Parameter.VAR_KEYWORD in kinds else [name for name in by_name if name not in parameters]
    return [*excess, *unknown]


def _excess(signature: inspect.Signature, by_position: Sequence[str], by_name: Sequence[str]) -> Sequence[str]:
    """The parameters without a default that a call does not pass: those of other names, if there are no more of them.

    The names of parameters that are passed by position are free, so otherwise it is the last ones.
    """
    required = [
        each
        for each in signature.parameters.values()
        if each.default is each.empty and each.kind not in _VARIADIC and each.name not in by_name
    ]
    positional = [each.name for each in required if each.kind in _POSITIONAL]
    last = positional[len(by_position) :]
    others = [name for name in positional if name not in by_position]
    keywords = [each.name for each in required if each.kind not in _POSITIONAL]
    return [*(others if len(others) <= len(last) else last), *keywords]


@cache
def _calls(*protocols: Any) -> Mapping[str, inspect.Signature]:
    """The methods of protocols, each with the arguments of its calls: without `self` and types."""
    return {
        name: _call(value)
        for protocol in protocols
        for name, value in declared_in(protocol).items()
        if inspect.isfunction(value)
    }


def _call(method: Any) -> inspect.Signature:
    _self, *arguments = inspect.signature(method).parameters.values()
    return inspect.Signature([each.replace(annotation=inspect.Parameter.empty) for each in arguments])
