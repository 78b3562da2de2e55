"""The choice of a plugin in a setting: the name of an installed one, or a Python object that the program gives."""

from __future__ import annotations

import builtins
import functools
import re
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, Final, TypeAlias, TypeVar

from ottla.config.value_types import ValueType
from ottla.config.values import brief
from ottla.errors.quoting import printable
from ottla.interfaces import TopicView

P = TypeVar("P")

PluginOf: TypeAlias = str | P | Callable[..., P] | ModuleType
"""A plugin in a setting: its name, an object, a class or function that makes one, or a module with the hooks."""
PluginsOf: TypeAlias = PluginOf[P] | Sequence[PluginOf[P]]
"""One plugin in a setting, or several in order; a text may name several, with commas between them."""
PartitionFunction: TypeAlias = Callable[[str, bytes | None, TopicView], int]
"""A function as a partitioner: it gets the topic, the key and the view, and returns a partition."""

_TEXT_OF_OBJECT: Final = re.compile(r"<.+ at 0x[0-9a-fA-F]+>|<class '.+'>")


class GivenPlugin:
    """A plugin that the program gives as an object, a class, a function or a module.

    Its text is the name of its class, or its own name if it has one: the object's repr may have anything, such as
    passwords. Two are equal if they are the same object.
    """

    __slots__ = ("given", "name")

    def __init__(self, given: Any) -> None:
        self.given = given
        self.name = _name_of(given)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GivenPlugin) and self.given is other.given

    def __hash__(self) -> int:
        return id(self.given)

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return self.name


PluginChoice: TypeAlias = str | GivenPlugin
"""A plugin's name in lower case, since names are compared without case, or the plugin itself."""


def plugin(kind: str, *, annotation: str) -> ValueType:
    """One plugin of a kind."""
    allowed = "the name of a plugin, or the plugin as a Python object"
    return ValueType(allowed=allowed, parse=lambda raw: choice_of(raw, allowed), annotation=annotation, kind=kind)


def plugins(kind: str, *, annotation: str) -> ValueType:
    """Plugins of a kind, in order."""
    allowed = "a list of names of plugins, or a string with commas; a plugin may also be a Python object"

    def parse(raw: object) -> tuple[PluginChoice, ...]:
        return tuple(choice_of(part, "the name of a plugin, or the plugin as a Python object") for part in parts(raw))

    return ValueType(allowed=allowed, parse=parse, annotation=annotation, kind=kind)


def parts(raw: object) -> Sequence[object]:
    """The items of a list, or of a string with commas; anything else is the only item. Empty items are dropped."""
    if isinstance(raw, str):
        return [part.strip() for part in raw.split(",") if part.strip()]
    found = raw if isinstance(raw, Sequence) and not isinstance(raw, bytes) else [raw]
    return [part for part in found if not isinstance(part, str) or part.strip()]


def choice_of(raw: object, allowed: str) -> PluginChoice:
    """A plugin's name or the given plugin. Raises ValueError for anything else, which says what is *allowed*."""
    if isinstance(raw, str) and raw.strip():
        return name_of(raw)
    if isinstance(raw, str) or is_data(raw):
        raise ValueError(f"{brief(raw)} is not {allowed}")
    return GivenPlugin(raw)


def name_of(raw: str) -> str:
    """A plugin's name as it is compared. Raises ValueError for the text that Python makes of an object."""
    name = raw.strip().lower()
    if _TEXT_OF_OBJECT.fullmatch(name):
        raise ValueError(
            f"{brief(raw)} is the text of a Python object, not a plugin: where settings are only text, as in Spark and "
            "in files, register the plugin as an entry point and write its name"
        )
    return name


def is_data(raw: object) -> bool:
    """Return whether a value is plain data, such as a number, which is no plugin."""
    kind = type(raw)
    # Not by its module: code that `exec` runs without a name makes classes whose module is builtins, too.
    return raw is None or (getattr(builtins, kind.__name__, None) is kind and not callable(raw))


def _name_of(given: Any) -> str:
    while isinstance(given, functools.partial):
        given = given.func
    if isinstance(given, ModuleType):
        return printable(given.__name__)
    named = given if isinstance(given, type) or type(given).__module__ == "builtins" else type(given)
    kind = named if isinstance(getattr(named, "__qualname__", None), str) else type(named)
    return printable(f"{getattr(kind, '__module__', None) or 'builtins'}.{kind.__qualname__}")
