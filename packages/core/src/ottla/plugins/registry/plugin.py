"""One loaded plugin: checks its hooks and results, and raises its faults as InvalidPluginError."""

from __future__ import annotations

import inspect
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import pluggy

from ottla import hookspecs
from ottla.config import PluginValues
from ottla.errors import InvalidPluginError, OttlaError, printable, with_article
from ottla.errors.plugin_origin import faults, note_origin, text_of
from ottla.errors.robust_logger import robust_logger
from ottla.errors.similar_names import most_similar
from ottla.hookspecs import PROJECT
from ottla.interfaces import ConfigKey, PluginConfig, PluginContext, PluginMetrics
from ottla.metrics.plugin_metric_group import PluginMetricGroup
from ottla.plugins.registry.given_info import GivenInfo, PluginInfo
from ottla.plugins.registry.installed import EntryInfo
from ottla.plugins.registry.kinds import KINDS, check_flags, missing_attributes, uncallable_methods
from ottla.plugins.registry.signatures import fitting_generation, is_generator, unknown_parameters, wrong_signatures
from ottla.plugins.registry.slow_calls import logged_when_slow
from ottla.version import __version__

_log = robust_logger(__name__)

_KEYS_HOOK: Final = "ottla_config_keys"

_MISSPELT: Final = 0.85
"""How similar an unknown hook must be to a known one to count as misspelt (`difflib`)."""

_LONGEST: Final = 1_000
"""Characters of an exception's text that an error quotes."""


class Plugin:
    """A plugin in its own plugin manager. Made by `Registry.plugin`; InvalidPluginError says what is wrong.

    *given* is a module, an object or a class with the hooks, if they are not those of an entry point.
    """

    makes_objects = True
    """Whether its objects are made for one producer, which closes them, rather than by the program."""
    takes_inner = True
    """Of a transport: whether its objects get the one of `security.protocol`."""

    def __init__(self, info: PluginInfo, given: object = None) -> None:
        loaded = _load(info) if isinstance(info, EntryInfo) else _instance(info, given)
        self._begin(info, stated=loaded)
        self._hooks: Any = _register(info, loaded).hook
        self.conformance: str | None = _stated(info, loaded, "ottla_conformance", None)
        """The plugin's own subclass of the testkit's suite, as `module:class`, if it needs one."""

    def _begin(self, info: PluginInfo, *, stated: object) -> None:
        self.info = info
        self.generation = _generation(info, stated)
        """The generation of its kind's contract that the plugin is made for."""
        self._keys: tuple[ConfigKey, ...] | None = None
        self._maker = info.kind.hook
        """The hook, or what is called in its place, in errors."""

    def __str__(self) -> str:
        return str(self.info)

    @property
    def name(self) -> str:
        return self.info.name

    @property
    def distribution(self) -> str:
        return self.info.distribution

    @property
    def version(self) -> str:
        return self.info.version

    def config_keys(self) -> tuple[ConfigKey, ...]:
        """The keys that the plugin declares; its hook is called once."""
        if self._keys is None:
            self._keys = self._declared()
        return self._keys

    def context(
        self,
        *,
        client_id: str | None = None,
        clock: Callable[[], float] = time.monotonic,
        metrics: PluginMetrics | None = None,
    ) -> PluginContext:
        """The context for an object of this plugin, by default for one that belongs to no producer."""
        logger = robust_logger(f"ottla.plugin.{self.info.kind.name}.{self.name.lower()}")
        return PluginContext(client_id=client_id, logger=logger, clock=clock, metrics=metrics or PluginMetricGroup())

    def create(self, config: PluginConfig, *, context: PluginContext | None = None, **extra: object) -> Any:
        """The object that the plugin's hook makes; *extra* are the hook's other arguments.

        An OttlaError of the hook passes unchanged, such as a missing library or a refused setting.
        """
        hook = self.info.kind.hook
        made = self._call(hook, config=config, context=context or self.context(), **extra)
        try:
            wrong = self._wrong(made)
        except faults() as error:
            broken, cause = self._broken(f"reading the attributes of what {self._maker} returned raised", error, config)
            raise broken from cause
        if wrong is not None:
            raise InvalidPluginError(f"{self} cannot be used: {wrong}")
        former = self.info.kind.former.get(self.generation)
        if former is not None:
            made = former.adapt(made)
        note_origin(made, self.info.origin)
        return made

    def _wrong(self, made: Any) -> str | None:
        """The reason why an object is none of the plugin's kind and generation; None if it is one."""
        kind, protocol = self.info.kind, self.info.kind.protocol_of(self.generation)
        name = type(made).__name__
        if made is None:
            return f"{self._maker} returned nothing; it must return an object"
        if isinstance(made, type):
            return f"{self._maker} returned the class {made.__name__}, not an object"
        lacking, mismatches = missing_attributes(made, protocol), wrong_signatures(made, kind, protocol)
        fitting = fitting_generation(made, kind) if lacking or mismatches else None
        if fitting not in (None, self.generation):
            return (
                f"the methods of {name} are those of generation {fitting} of the {kind.name}'s contract, and the "
                f"plugin is taken for generation {self.generation}; write `ottla_spec = {fitting}` in "
                f"{_module(self.info)}"
            )
        if lacking:
            return (
                f"{self._returned(name)}, which is not {with_article(protocol.__name__)}: it lacks {', '.join(lacking)}"
            )
        if uncallable := uncallable_methods(made, kind, protocol):
            return f"{self._returned(name)}, and these attributes of it are not methods: {', '.join(uncallable)}"
        if mismatches:
            return f"{self._returned(name)}, whose {'; and '.join(mismatches)}"
        check_flags(made, kind, protocol)
        return None

    def _returned(self, class_name: str) -> str:
        """The beginning of an error about an object that is none of the kind."""
        return f"{self._maker} returned {with_article(class_name)}"

    def _declared(self) -> tuple[ConfigKey, ...]:
        declared = self._call(_KEYS_HOOK)
        if declared is None:
            return ()
        try:
            keys = tuple(declared) if isinstance(declared, Sequence) else ()
        except faults() as error:
            broken, cause = self._broken(f"reading what {_KEYS_HOOK} returned raised", error, None)
            raise broken from cause
        if not isinstance(declared, Sequence) or not all(isinstance(key, ConfigKey) for key in keys):
            raise InvalidPluginError(f"{self} cannot be used: ottla_config_keys must return a sequence of ConfigKey")
        wrong = list(_wrong_keys(keys))
        if wrong:
            raise InvalidPluginError(f"{self} cannot be used: {'; '.join(wrong)}")
        return keys

    def _call(self, hook: str, **arguments: object) -> Any:
        try:
            with logged_when_slow(hook, self.info):
                return getattr(self._hooks, hook)(**arguments)
        except OttlaError:
            raise
        except faults() as error:
            what = self._maker if hook == self.info.kind.hook else hook
            broken, cause = self._broken(f"{what} raised", error, arguments.get("config"))
            raise broken from cause
        except BaseException as error:
            error.add_note(f"raised in {hook} of the {self}")
            raise

    def _broken(
        self, what: str, error: BaseException, config: object
    ) -> tuple[InvalidPluginError, BaseException | None]:
        """A pair: the error to raise, without the plugin's secrets, and the exception to raise it from.

        The second is None if the traceback of *error* would reveal a secret.
        """
        said = _message_of(error)
        harmless = config.without_secrets(said) if isinstance(config, PluginValues) else said
        quoted = printable(harmless, limit=_LONGEST)
        broken = InvalidPluginError(f"{self} cannot be used: {what} {quoted}{_remedy(self.info, error)}")
        return broken, error if harmless == said else None


def _wrong_keys(keys: Sequence[ConfigKey]) -> Iterator[str]:
    """The errors in the keys that a plugin declares."""
    names = [key.name for key in keys]
    for key in keys:
        if not isinstance(key.name, str) or not key.name or key.name != key.name.strip():
            yield f"the name of a key is {key.name!r}; write one such as acme.port"
        if not callable(key.type):
            yield f"the type of {key.name} is {key.type!r}, which cannot be called"
    for name in dict.fromkeys(names):
        if names.count(name) > 1:
            yield f"{name} is declared {names.count(name)} times"


def _load(info: EntryInfo) -> object:
    _module(info)
    try:
        with logged_when_slow("the import", info):
            loaded = info.entry_point.load()
            return loaded() if isinstance(loaded, type) else loaded
    except faults() as error:
        raise InvalidPluginError(f"{info} cannot be imported: {_quoted(error)}{_remedy(info, error)}") from error
    except BaseException as error:  # such as Ctrl-C while the import hangs
        error.add_note(f"raised while the {info} was imported")
        raise


def _instance(info: PluginInfo, given: object) -> object:
    """The object with the hooks, if a class is given."""
    try:
        return given() if isinstance(given, type) else given
    except faults() as error:
        raise InvalidPluginError(f"{info} cannot be used: {_quoted(error)}; {info.origin.remedy}") from error


def _remedy(info: PluginInfo, error: BaseException) -> str:
    if isinstance(info, GivenInfo):
        return f"; {info.origin.remedy}"
    match error:
        case ImportError(name=str(missing)) if _package(missing) == PROJECT != _package(info.value):
            made = f"it is made for another ottla than {__version__}"
            return f"; {made}; install another version of {info.distribution}, or choose another {info.kind.name}"
        case ModuleNotFoundError(name=str(missing)) if _package(missing) != _package(info.value):
            return f"; install what {info.distribution} needs, or choose another {info.kind.name}"
        case ImportError() if not isinstance(error, ModuleNotFoundError):  # raised on purpose, with its own remedy
            return ""
        case _:
            return f"; install another version of {info.distribution}, or choose another {info.kind.name}"


def _package(module: str) -> str:
    return module.partition(".")[0]


def _register(info: PluginInfo, loaded: object) -> pluggy.PluginManager:
    manager = pluggy.PluginManager(PROJECT)
    manager.add_hookspecs(hookspecs)
    try:
        manager.register(loaded, name=info.name)
    except faults() as error:
        why = "; ".join(_unknown_parameters(info, loaded)) or _quoted(error)
        raise InvalidPluginError(f"{info} does not fit the hook specs: {why}{_remedy(info, error)}") from error
    _check_unknown(info, manager.get_hookcallers(loaded) or ())
    hook = info.kind.hook
    if not getattr(manager.hook, hook).get_hookimpls():
        unmarked = callable(_read(info, loaded, hook, None))
        remedy = f"mark {hook} with @ottla.hookspecs.hookimpl" if unmarked else f"it must implement {hook}"
        raise InvalidPluginError(f"{info} has no hook for its kind; {remedy}")
    if callable(_read(info, loaded, _KEYS_HOOK, None)) and not getattr(manager.hook, _KEYS_HOOK).get_hookimpls():
        raise InvalidPluginError(f"{info} does not declare its keys; mark {_KEYS_HOOK} with @ottla.hookspecs.hookimpl")
    for name in (hook, _KEYS_HOOK):
        if any(is_generator(found.function) for found in getattr(manager.hook, name).get_hookimpls()):
            raise InvalidPluginError(
                f"{info} does not fit the hook specs: {name} only makes a generator or a coroutine; write it without "
                "yield and async"
            )
    return manager


def _unknown_parameters(info: PluginInfo, loaded: object) -> Iterator[str]:
    for hook in (info.kind.hook, _KEYS_HOOK):
        function = _read(info, loaded, hook, None)
        if inspect.isroutine(function):
            yield from unknown_parameters(hook, function)


def _check_unknown(info: PluginInfo, callers: Iterable[pluggy.HookCaller]) -> None:
    """Refuse hooks that are misspelt; ignore those that a later ottla may know, such as a kind of its own."""
    known = [*(kind.hook for kind in KINDS.values()), _KEYS_HOOK]
    for caller in callers:
        if caller.has_spec():
            continue
        close = most_similar(caller.name, known, cutoff=_MISSPELT)
        if close or not caller.name.startswith("ottla_"):
            meant = f"; did you mean {close}?" if close else ""
            raise InvalidPluginError(f"{info} does not fit the hook specs: unknown hook {caller.name!r}{meant}")
        _log.info("%s is ignored: this ottla does not know hooks of this name (%s)", caller.name, info)


def _generation(info: PluginInfo, loaded: object) -> int:
    """The generation of the contract that the plugin is made for. Raises InvalidPluginError for an unsupported one."""
    supported = info.kind.generations
    newest = supported[-1]
    spec = _stated(info, loaded, "ottla_spec", newest if isinstance(info, GivenInfo) else 1)
    if isinstance(info, GivenInfo) and not isinstance(spec, int | float | str | bytes):  # a mock has every attribute
        return newest
    if isinstance(spec, int) and spec in supported:
        return spec
    is_newer = isinstance(spec, int) and spec > newest
    if isinstance(info, GivenInfo):
        remedy = ("upgrade ottla, or " if is_newer else "") + f"write it for one of these: `ottla_spec = {newest}`"
    else:
        remedy = (
            f"upgrade ottla, or install an older {info.distribution}" if is_newer else f"upgrade {info.distribution}"
        )
    supports = " and ".join(map(str, supported))
    raise InvalidPluginError(
        f"{info} is made for hook specs {_shown(spec)}, but this version of ottla supports {supports}; {remedy}"
    )


def _shown(spec: object) -> str:
    try:
        return printable(repr(spec))
    except faults():
        return f"of type {type(spec).__name__}"


def _stated(info: PluginInfo, loaded: object, attribute: str, default: Any) -> Any:
    """An attribute of the plugin, or else of its module."""
    module = sys.modules.get(_module(info))
    return _read(info, loaded, attribute, _read(info, module, attribute, default))


def _read(info: PluginInfo, loaded: object, attribute: str, default: Any) -> Any:
    """An attribute of the module or object with the hooks, whose `__getattr__` may fail."""
    try:
        return getattr(loaded, attribute, default)
    except faults() as error:
        raise InvalidPluginError(
            f"{info} cannot be used: reading its attribute {attribute} raised {_quoted(error)}{_remedy(info, error)}"
        ) from error


def _module(info: PluginInfo) -> str:
    if isinstance(info, GivenInfo):
        return info.module
    try:
        return info.entry_point.module
    except (AttributeError, AssertionError, ValueError):  # a value that cannot be parsed: 3.12, 3.13 and 3.15
        raise InvalidPluginError(
            f"{info} cannot be imported: {info.value!r} is not an entry point; write 'module' or 'module:object'"
        ) from None


def _message_of(error: BaseException) -> str:
    return f"{type(error).__name__}: {text}" if (text := text_of(error)) else type(error).__name__


def _quoted(error: BaseException) -> str:
    return printable(_message_of(error), limit=_LONGEST)
