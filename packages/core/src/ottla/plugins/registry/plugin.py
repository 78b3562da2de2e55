"""One loaded plugin: checks its hooks and results, and raises its faults as InvalidPluginError."""

from __future__ import annotations

import difflib
import inspect
import logging
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import pluggy

from ottla import hookspecs
from ottla.config import PluginValues
from ottla.errors import InvalidPluginError, OttlaError, printable
from ottla.errors.plugin_origin import faults, note_origin, text_of
from ottla.hookspecs import PROJECT
from ottla.interfaces import ConfigKey, PluginConfig, PluginContext, PluginMetrics
from ottla.metrics.plugin_metrics import PluginMetricGroup
from ottla.plugins.registry.installed import EntryInfo
from ottla.plugins.registry.kinds import KINDS, check_flags, missing_attributes, uncallable_methods
from ottla.plugins.registry.signatures import fitting_generation, is_generator, unknown_parameters, wrong_signatures
from ottla.plugins.registry.slow_calls import logged_when_slow
from ottla.version import __version__

_log = logging.getLogger(__name__)

_KEYS_HOOK: Final = "ottla_config_keys"

_MISSPELT: Final = 0.85
"""How similar an unknown hook must be to a known one to count as misspelt (`difflib`)."""

_LONGEST: Final = 1_000
"""Characters of an exception's text that an error quotes."""


class Plugin:
    """A plugin in its own plugin manager. Made by `Registry.plugin`; InvalidPluginError says what is wrong."""

    def __init__(self, info: EntryInfo) -> None:
        self.info = info
        loaded = _load(info)
        self.generation = _generation(info, loaded)
        """The generation of its kind's contract that the plugin is made for."""
        self._hooks = _register(info, loaded).hook
        self.conformance: str | None = _stated(info, loaded, "ottla_conformance", None)
        """The plugin's own subclass of the testkit's suite, as `module:class`, if it needs one."""
        self._keys: tuple[ConfigKey, ...] | None = None

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
        logger = logging.getLogger(f"ottla.plugin.{self.info.kind.name}.{self.name.lower()}")
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
            broken, cause = self._broken(f"reading the attributes of what {hook} returned raised", error, config)
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
        kind, hook = self.info.kind, self.info.kind.hook
        protocol, name = kind.protocol_of(self.generation), type(made).__name__
        if made is None:
            return f"{hook} returned nothing; it must return an object"
        if isinstance(made, type):
            return f"{hook} returned the class {made.__name__}, not an object"
        lacking, misfits = missing_attributes(made, protocol), wrong_signatures(made, kind, protocol)
        fitting = fitting_generation(made, kind) if lacking or misfits else None
        if fitting not in (None, self.generation):
            return (
                f"the methods of {name} are those of generation {fitting} of the {kind.name}'s contract, and the "
                f"plugin is taken for generation {self.generation}; write `ottla_spec = {fitting}` in "
                f"{_module(self.info)}"
            )
        if lacking:
            return f"{hook} returned a {name}, which is not a {protocol.__name__}: it lacks {', '.join(lacking)}"
        if uncallable := uncallable_methods(made, kind, protocol):
            return f"{hook} returned a {name}, and these attributes of it are not methods: {', '.join(uncallable)}"
        if misfits:
            return f"{hook} returned a {name}, whose {'; and '.join(misfits)}"
        check_flags(made, kind, protocol)
        return None

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
            broken, cause = self._broken(f"{hook} raised", error, arguments.get("config"))
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
        said = _said(error)
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


def _remedy(info: EntryInfo, error: BaseException) -> str:
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


def _register(info: EntryInfo, loaded: object) -> pluggy.PluginManager:
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


def _unknown_parameters(info: EntryInfo, loaded: object) -> Iterator[str]:
    for hook in (info.kind.hook, _KEYS_HOOK):
        function = _read(info, loaded, hook, None)
        if inspect.isroutine(function):
            yield from unknown_parameters(hook, function)


def _check_unknown(info: EntryInfo, callers: Iterable[pluggy.HookCaller]) -> None:
    """Refuse hooks that are misspelt; ignore those that a later ottla may know, such as a kind of its own."""
    known = [*(kind.hook for kind in KINDS.values()), _KEYS_HOOK]
    for caller in callers:
        if caller.has_spec():
            continue
        close = difflib.get_close_matches(caller.name, known, n=1, cutoff=_MISSPELT)
        if close or not caller.name.startswith("ottla_"):
            meant = f"; did you mean {close[0]}?" if close else ""
            raise InvalidPluginError(f"{info} does not fit the hook specs: unknown hook {caller.name!r}{meant}")
        _log.info("%s is ignored: this ottla does not know hooks of this name (%s)", caller.name, info)


def _generation(info: EntryInfo, loaded: object) -> int:
    """The generation of the contract that the plugin is made for. Raises InvalidPluginError for an unsupported one."""
    spec = _stated(info, loaded, "ottla_spec", 1)
    supported = info.kind.generations
    if isinstance(spec, int) and spec in supported:
        return spec
    older = f"upgrade {info.distribution}"
    newer = f"upgrade ottla, or install an older {info.distribution}"
    remedy = newer if isinstance(spec, int) and spec > supported[-1] else older
    supports = " and ".join(map(str, supported))
    raise InvalidPluginError(
        f"{info} is made for hook specs {_shown(spec)}, but this version of ottla supports {supports}; {remedy}"
    )


def _shown(spec: object) -> str:
    try:
        return printable(repr(spec))
    except faults():
        return f"of type {type(spec).__name__}"


def _stated(info: EntryInfo, loaded: object, attribute: str, default: Any) -> Any:
    """An attribute of the plugin, or else of its module."""
    module = sys.modules.get(_module(info))
    return _read(info, loaded, attribute, _read(info, module, attribute, default))


def _read(info: EntryInfo, loaded: object, attribute: str, default: Any) -> Any:
    """An attribute of the module or object with the hooks, whose `__getattr__` may fail."""
    try:
        return getattr(loaded, attribute, default)
    except faults() as error:
        raise InvalidPluginError(
            f"{info} cannot be used: reading its attribute {attribute} raised {_quoted(error)}{_remedy(info, error)}"
        ) from error


def _module(info: EntryInfo) -> str:
    try:
        return info.entry_point.module
    except (AttributeError, AssertionError, ValueError):  # a value that cannot be parsed: 3.12, 3.13 and 3.15
        raise InvalidPluginError(
            f"{info} cannot be imported: {info.value!r} is not an entry point; write 'module' or 'module:object'"
        ) from None


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {text}" if (text := text_of(error)) else type(error).__name__


def _quoted(error: BaseException) -> str:
    return printable(_said(error), limit=_LONGEST)
