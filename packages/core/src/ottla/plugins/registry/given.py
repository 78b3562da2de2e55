"""Plugins that the program gives as Python objects: checked as those of entry points are.

| given | the producer |
|---|---|
| an object of the kind | uses it; the program closes it |
| a class, a `functools.partial` of one, or a function that makes the object | makes one for itself, and closes it |
| a function, for a partitioner or serializer | calls it in place of `partition` or `serialize` |
| a serializer of confluent-kafka | calls it with its `SerializationContext` |
| a module, or an object or class with the hook | calls the hook, as that of an entry point |
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType, SimpleNamespace
from typing import Any, Final, Literal, TypeAlias

from ottla import hookspecs
from ottla.config.plugin_choice import GivenPlugin
from ottla.errors import InvalidPluginError, with_article
from ottla.errors.plugin_origin import faults
from ottla.errors.signatures import signature_of
from ottla.interfaces import ConfigKey
from ottla.plugins.registry.confluent import ConfluentSerializer, is_confluent_serializer
from ottla.plugins.registry.functions import FunctionPartitioner, FunctionSerializer
from ottla.plugins.registry.given_info import GivenInfo
from ottla.plugins.registry.kinds import KINDS, Kind, KindName, missing_attributes
from ottla.plugins.registry.plugin import Plugin
from ottla.plugins.registry.signatures import is_generator

Form: TypeAlias = Literal["object", "class", "function", "call", "hooks"]
"""What is given; a "function" makes the object, a "call" takes the object's place."""

_FUNCTIONS: Final[Mapping[KindName, Any]] = {"partitioner": FunctionPartitioner, "serializer": FunctionSerializer}
_MAKERS: Final[Mapping[Form, str]] = {
    "object": "the object",
    "class": "the class",
    "function": "the function",
    "call": "the function",
}


def given_plugin(kind_name: KindName, choice: GivenPlugin) -> Plugin:
    """The plugin of this kind that the program gives. Raises InvalidPluginError if it cannot be one."""
    kind, given = KINDS[kind_name], choice.given
    info = GivenInfo(kind=kind, name=choice.name, module=_module_of(given))
    form = _form(kind, given)
    return Plugin(info, given) if form == "hooks" else ProgramPlugin(info, given, form)


class ProgramPlugin(Plugin):
    """A plugin without hooks and without keys: an object, or a class or function that makes one."""

    def __init__(self, info: GivenInfo, given: Any, form: Form) -> None:
        self._begin(info, stated=given)
        self.makes_objects = form != "object"
        self._form: Form = form
        self._given = given
        self.conformance = None
        self._hooks = SimpleNamespace(**{info.kind.hook: self._make})
        self._maker = _MAKERS[form]
        self._arguments: Sequence[str] = ()
        if form == "call":
            self._given = self._adapted(given)
        elif form != "object":
            self._arguments = self._required(given)
        self.takes_inner = "inner" in self._arguments

    def config_keys(self) -> tuple[ConfigKey, ...]:
        """Return no key: a plugin that reads settings has hooks."""
        return ()

    def _call(self, hook: str, **arguments: object) -> Any:
        if self._form in ("class", "function"):
            return super()._call(hook, **arguments)
        if self._form == "call" and is_confluent_serializer(self._given):
            return ConfluentSerializer(self._given, is_key=arguments["is_key"] is True)
        return self._given

    def _make(self, **arguments: object) -> Any:
        return self._given(**{name: arguments[name] for name in self._arguments})

    def _returned(self, class_name: str) -> str:
        match self._form:
            case "object":
                return f"the object is {with_article(class_name)}"
            case "call":
                return f"the function is used as {with_article(self.info.kind.protocol.__name__)}"
            case _:
                return super()._returned(class_name)

    def _adapted(self, function: Callable[..., Any]) -> Any:
        """The function as an object of its kind."""
        if self.info.kind.name == "serializer" and is_confluent_serializer(function):
            return function  # `_call` makes an object for keys or for values of it
        wrapper = _FUNCTIONS[self.info.kind.name]
        problem = (
            "it only makes a generator or a coroutine; write it without yield and async"
            if is_generator(function)
            else wrapper.problem(function)
        )
        if problem is not None:
            raise InvalidPluginError(f"{self} cannot be used: {problem}")
        return wrapper(function)

    def _required(self, maker: Callable[..., Any]) -> Sequence[str]:
        """The arguments without a default of a class or function, which have to be those of the kind's hook."""
        hook = inspect.signature(getattr(hookspecs, self.info.kind.hook)).parameters
        passed = [name for name in hook if name != "config"]
        try:
            parameters = signature_of(maker).parameters.values()
        except (TypeError, ValueError):  # a class of C, for instance
            return ()
        variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        required = [each.name for each in parameters if each.default is each.empty and each.kind not in variadic]
        if unknown := [name for name in required if name not in passed]:
            raise InvalidPluginError(
                f"{self} cannot be used: {self._maker} requires the argument {', '.join(unknown)}, and a producer "
                f"passes only {', '.join(passed)}; give an object, or a functools.partial with the other arguments"
            )
        return required


def _form(kind: Kind, given: Any) -> Form:
    called = given
    while isinstance(called, functools.partial):
        called = called.func
    try:
        if isinstance(given, ModuleType) or _is_hook(getattr(given, kind.hook, None)):
            return "hooks"
        if isinstance(called, type):
            return "call" if kind.name == "serializer" and not hasattr(called, "serialize") else "class"
        lacking = missing_attributes(given, kind.protocol)
    except faults():  # an error in an attribute is reported when the object is checked
        return "object"
    if not callable(given) or len(lacking) < len(missing_attributes(None, kind.protocol)):
        return "object"
    return "call" if kind.name in _FUNCTIONS else "function"


def _is_hook(found: object) -> bool:
    """Return whether an attribute is a hook; an object may have an attribute of any name, such as a mock's."""
    return isinstance(getattr(found, "ottla_impl", None), dict)


def _module_of(given: Any) -> str:
    kind = given if isinstance(given, type | ModuleType) else type(given)
    return str(getattr(kind, "__name__" if isinstance(kind, ModuleType) else "__module__", ""))
