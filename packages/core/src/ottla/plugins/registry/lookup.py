"""Lookup of installed plugins by name. Loads only the requested ones.

A name is `name` or `package:name`. Names and packages are compared without case, packages as in PEP 503.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING

from ottla.errors import InvalidPluginError, OttlaError, PluginError, PluginNotFoundError, quoted
from ottla.errors.robust_logger import robust_logger
from ottla.errors.similar_names import most_similar
from ottla.interfaces import PluginConfig, RecordEncoder
from ottla.plugins.registry.given_info import PluginInfo
from ottla.plugins.registry.installed import EntryInfo, announced, entries, misplaced, normal
from ottla.plugins.registry.key_prefixes import prefix_of
from ottla.plugins.registry.kinds import KINDS, Kind, KindName
from ottla.plugins.registry.plugin import Plugin
from ottla.version import __version__

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_log = robust_logger(__name__)


class Registry:
    """The plugins that are installed when this is made."""

    def __init__(self, entry_points: Iterable[EntryPoint] | None = None) -> None:
        found = announced() if entry_points is None else tuple(entry_points)
        self._infos = {name: entries(kind, found) for name, kind in KINDS.items()}
        self._plugins: dict[EntryInfo, Plugin] = {}

    def installed(self, kind: KindName) -> Sequence[EntryInfo]:
        """All plugins of a kind that are announced, broken ones included; loads nothing."""
        return self._infos[kind]

    def plugin(self, kind: KindName, name: str) -> Plugin:
        """The plugin of this name; the same object each time.

        Raises PluginNotFoundError or InvalidPluginError as `find` does, and InvalidPluginError if it cannot be used.
        """
        return self.load(self.find(kind, name))

    def find(self, kind: KindName, name: str) -> EntryInfo:
        """Return the entry that is announced under this name; loads nothing. Of several, the built-in one is returned.

        Raises PluginNotFoundError if no distribution offers it, InvalidPluginError if two do and none is built in.
        """
        matches = self._matches(kind, name)
        built_in = [info for info in matches if info.built_in]
        match built_in or matches:
            case []:
                raise PluginNotFoundError(_missing(KINDS[kind], name, self._infos[kind]))
            case [info]:
                return info
            case _:
                raise InvalidPluginError(_ambiguous(kind, name, matches))

    def chosen_by(self, info: EntryInfo) -> str | None:
        """The shortest name that `find` takes for this plugin; None if it has none."""
        for name in (info.name, info.qualified_name):
            if self._finds(info, name):
                return name
        return None

    def load(self, info: EntryInfo) -> Plugin:
        """The plugin that is announced so; the same object each time. Raises InvalidPluginError if it is unusable."""
        if info not in self._plugins:
            self._plugins[info] = Plugin(info)
        return self._plugins[info]

    def encoders(self) -> tuple[Plugin, ...]:
        """The encoders that are released with this version of the core; an unusable one is left out with a warning.

        Any other one is used only where it is named: installing a package must not change how records are encoded.
        """
        usable = []
        for info in self._infos["encoder"]:
            if not info.built_in:
                continue
            try:
                check_released_together(info)
                usable.append(self.load(info))
            except PluginError as error:
                _log_left_out(info, error)
        return tuple(usable)

    def create_encoders(
        self,
        configured: Iterable[tuple[Plugin, PluginConfig]],
        *,
        create: Callable[[Plugin, PluginConfig], RecordEncoder] = Plugin.create,
    ) -> tuple[RecordEncoder, ...]:
        """The encoders, highest priority first; one that cannot be made is left out with a warning.

        *configured* are the results of `encoders`. Raises PluginNotFoundError if none is left.
        """
        made: list[RecordEncoder] = []
        for plugin, config in configured:
            try:
                made.append(create(plugin, config))
            except PluginError as error:
                _log_left_out(plugin.info, error)
        if not made:
            raise PluginNotFoundError(_missing(KINDS["encoder"], "python", self._infos["encoder"]))
        return tuple(sorted(made, key=lambda encoder: -encoder.priority))

    def built_in_keys(self) -> frozenset[str]:
        """The keys of all built-in plugins that are installed. Loads them; skips broken ones."""
        return frozenset(name for info in self._with_keys() if info.built_in for name in self._keys(info))

    def table_keys(self) -> frozenset[str]:
        """The keys of installed built-in serializers, which `send_table` may use when it is called."""
        infos = [info for info in self._infos["serializer"] if info.built_in]
        return frozenset(name for info in infos for name in self._keys(info))

    def likely_owner(self, key: str, known: Collection[str]) -> str | None:
        """The plugin, installed but not loaded, that a key seems to belong to by its first words; loads nothing.

        None if a known key begins with the same words: then this one is misspelt. Of several plugins it is the one with
        the most words in common, since those of a package may share the first ones.
        """
        named = [
            (len(prefix), prefix, str(info))
            for info in self._with_keys()
            if info not in self._plugins and not info.built_in and (prefix := prefix_of(info, key)) is not None
        ]
        _, prefix, owner = max(named, key=itemgetter(0), default=(0, "", None))
        return None if any(name.startswith(prefix) for name in known) else owner

    def _with_keys(self) -> Iterator[EntryInfo]:
        for kind, infos in self._infos.items():
            if kind != "config_provider":  # their keys are parameters below config.providers
                yield from infos

    def _keys(self, info: EntryInfo) -> Sequence[str]:
        try:
            return [key.name for key in self.load(info).config_keys()]
        except OttlaError as error:
            _log.debug("%s: its configuration keys cannot be read: %s", info, error)
            return ()

    def _matches(self, kind: KindName, name: str) -> Sequence[EntryInfo]:
        infos = self._infos[kind]
        package, colon, rest = name.strip().lower().partition(":")
        qualified = [
            info
            for info in infos
            if colon and info.package == normal(package.strip()) and info.name.lower() == rest.strip()
        ]
        return qualified or [info for info in infos if info.name.lower() == name.strip().lower()]

    def _finds(self, info: EntryInfo, name: str) -> bool:
        try:
            return self.find(info.kind.name, name) == info
        except PluginError:
            return False


def _ambiguous(kind: KindName, name: str, matches: Sequence[EntryInfo]) -> str:
    listed = ", ".join(str(info) for info in matches)
    names = dict.fromkeys(info.qualified_name.lower() for info in matches)
    if len(names) == len(matches):
        return f"more than one {kind} is named {quoted(name)}; write {' or '.join(names)} ({listed})"
    return f"more than one {kind} is named {quoted(name)}; uninstall all but one of: {listed}"


def _log_left_out(info: PluginInfo, error: PluginError) -> None:
    _log.warning("the %s is left out: %s", info, str(error).removeprefix(f"{info} "))


def check_released_together(info: EntryInfo) -> None:
    """Raise InvalidPluginError if this encoder of ours is of another version than the core."""
    if info.version != __version__:
        raise InvalidPluginError(
            f"{info} does not belong to this version of ottla; try: pip install {info.package}=={__version__}"
        )


def _missing(kind: Kind, wanted: str, installed: Sequence[EntryInfo]) -> str:
    names = sorted({info.name for info in installed})
    listed = ", ".join(names) or "none"
    package = kind.install.get(wanted.strip().lower())
    known = [*names, *(info.qualified_name for info in installed), *kind.install]
    close = most_similar(wanted.lower(), [name.lower() for name in known])
    if package is not None and getattr(sys, "frozen", False):  # by PyInstaller or cx_Freeze
        module = package.strip('"').partition("[")[0].replace("-", "_")
        remedy = f"a frozen program needs the package's metadata; with PyInstaller: --collect-all {module}"
    elif package is not None:
        remedy = f"try: pip install {package}"
    elif groups := [entry.group for entry in misplaced() if entry.name.lower() == wanted.strip().lower()]:
        remedy = f"there is one in the group {groups[0]!r}, which its author must correct to {kind.group!r}"
    elif close:
        remedy = f"did you mean {close!r}?"
    else:
        remedy = f"install a package with an entry point of this name in the group {kind.group}"
    return f"no {kind.name} is named {quoted(wanted)}; {remedy} (installed: {listed})"
