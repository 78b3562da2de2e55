"""The plugin and package that an object is from, for errors and log lines about it.

The origin is read only when there is an error, so it does not slow calls of the object down.
"""

from __future__ import annotations

import sys
import weakref
from functools import partial
from typing import Any, Final

import attrs

from ottla.errors.own_threads import on_own_thread
from ottla.errors.quoting import class_name, printable
from ottla.results.value_methods import ValueMethods

_PANIC: Final = "PanicException"
"""The class for panics that pyo3 makes in each extension module, derived from BaseException."""

_FAULTS: Final = (Exception, SystemExit, GeneratorExit, BaseExceptionGroup)


def faults() -> tuple[type[BaseException], ...]:
    """Exceptions of a plugin that are its fault: also SystemExit, which must not end the program that calls it.

    CancelledError of asyncio is one, too: no task is cancelled inside the call of a plugin, so it comes from a loop of
    the plugin's own. KeyboardInterrupt and exceptions of other signal handlers are none, and neither are those that a
    program raises into its own threads. For `except faults()`, which Python evaluates only when there is an exception.
    """
    asyncio = sys.modules.get("asyncio.exceptions")  # a program without asyncio should not pay for its import
    found = _FAULTS if asyncio is None else (*_FAULTS, asyncio.CancelledError)
    error = sys.exception()
    return found if error is None or isinstance(error, found) or _of_the_program(error) else (*found, type(error))


def _of_the_program(error: BaseException) -> bool:
    """Return whether the program may have raised this: in a signal handler, or into its thread (a time limit).

    A panic of code in Rust is not an Exception either.
    """
    return isinstance(error, KeyboardInterrupt) or not (on_own_thread() or type(error).__name__ == _PANIC)


def text_of(error: BaseException) -> str:
    """The text of an exception that is not ours; empty if its class fails to make one."""
    try:
        return str(error)
    except faults():
        return ""


def described(error: BaseException) -> str:
    """The type of an exception that is not ours, and its text on one line."""
    text = printable(text_of(error))
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


@attrs.frozen(eq=False, repr=False)
class PluginOrigin(ValueMethods):
    """A plugin as messages name it, such as "partitioner 'acme' of ottla-acme 1.2", and what helps when it fails."""

    name: str
    remedy: str

    def __str__(self) -> str:
        return self.name


_origins: Final[dict[int, tuple[Any, PluginOrigin]]] = {}
"""By the identity of the object, because plugins' objects need not be hashable; with a weak reference to it."""


def note_origin(made: object, origin: PluginOrigin) -> None:
    """Note which plugin has made an object, for as long as the object exists."""
    key = id(made)
    try:
        _origins[key] = weakref.ref(made, partial(_forget, key)), origin
    except TypeError:  # an object with slots and without weak references: errors name its class instead
        _origins.pop(key, None)


def origin_of(kind: str, made: object) -> PluginOrigin:
    """The plugin that is noted for an object of this *kind*, or for its class.

    If there is none, the object's class, or the function itself.
    """
    for noted in (made, type(made)):
        reference, origin = _origins.get(id(noted), (None, None))
        if reference is not None and origin is not None and reference() is noted:
            return origin
    return PluginOrigin(f"{kind} {class_name(made)}", f"correct it, or use another {kind}")


def note_methods(made: object, kind: str, *methods: object) -> None:
    """Note the origin of an object for those of its methods that do not refer to it: functions, and static methods."""
    for method in methods:
        if method is not None and getattr(method, "__self__", None) is not made:
            note_origin(method, origin_of(kind, made))


def origin_of_method(kind: str, method: object) -> PluginOrigin:
    """The origin of the object whose method this is."""
    return origin_of(kind, method if id(method) in _origins else getattr(method, "__self__", method))


def _forget(key: int, reference: object) -> None:
    if key in _origins and _origins[key][0] is reference:
        del _origins[key]
