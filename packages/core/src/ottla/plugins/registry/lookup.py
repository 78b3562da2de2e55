"""Lookup of installed plugins by name. Loads only the requested ones."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Iterable, Sequence
from importlib.metadata import EntryPoint

from ottla.errors import InvalidPluginError, OttlaError, PluginError, PluginNotFoundError
from ottla.interfaces import PluginConfig, RecordEncoder
from ottla.plugins.registry.installed import EntryInfo, announced, entries
from ottla.plugins.registry.kinds import KINDS, Kind, KindName
from ottla.plugins.registry.plugin import Plugin

_log = logging.getLogger(__name__)


class Registry:
    """The plugins that are installed when this is made. Names are compared without case."""

    def __init__(self, entry_points: Iterable[EntryPoint] | None = None) -> None:
        found = announced() if entry_points is None else tuple(entry_points)
        self._infos = {name: entries(kind, found) for name, kind in KINDS.items()}
        self._plugins: dict[EntryInfo, Plugin] = {}

    def installed(self, kind: KindName) -> Sequence[EntryInfo]:
        """All plugins of a kind that are announced, broken ones included; loads nothing."""
        return self._infos[kind]

    def plugin(self, kind: KindName, name: str) -> Plugin:
        """The plugin of this name; the same object each time.

        Raises PluginNotFoundError if no distribution offers it, InvalidPluginError if two do or if it cannot be used.
        """
        wanted = name.strip().lower()
        matches = [info for info in self._infos[kind] if info.name.lower() == wanted]
        match matches:
            case []:
                raise PluginNotFoundError(_missing(KINDS[kind], name, self._infos[kind]))
            case [info]:
                return self._loaded(info)
            case _:
                raise InvalidPluginError(
                    f"more than one {kind} is named {name!r}; uninstall all but one of: "
                    + ", ".join(str(info) for info in matches)
                )

    def encoders(self) -> tuple[Plugin, ...]:
        """Every encoder that can be loaded; the others are left out with a warning."""
        usable = []
        for info in self._infos["encoder"]:
            try:
                usable.append(self._loaded(info))
            except PluginError as error:
                _log.warning("a plugin is left out: %s", error)
        return tuple(usable)

    def create_encoders(self, configured: Iterable[tuple[Plugin, PluginConfig]]) -> tuple[RecordEncoder, ...]:
        """The encoders, highest priority first; one that cannot be made is left out with a warning.

        *configured* are the results of `encoders`. Raises PluginNotFoundError if none is left.
        """
        made: list[RecordEncoder] = []
        for plugin, config in configured:
            try:
                made.append(plugin.create(config))
            except PluginError as error:
                _log.warning("a plugin is left out: %s", error)
        if not made:
            raise PluginNotFoundError(_missing(KINDS["encoder"], "python", self._infos["encoder"]))
        return tuple(sorted(made, key=lambda encoder: -encoder.priority))

    def declared_keys(self) -> frozenset[str]:
        """The keys of all installed plugins. Loads every plugin; skips broken ones."""
        return frozenset(
            name
            for kind, infos in self._infos.items()
            if kind != "config_provider"  # their keys are parameters below config.providers
            for info in infos
            for name in self._keys(info)
        )

    def _keys(self, info: EntryInfo) -> Sequence[str]:
        try:
            return [key.name for key in self._loaded(info).config_keys()]
        except OttlaError as error:
            _log.debug("its keys are not known: %s", error)
            return ()

    def _loaded(self, info: EntryInfo) -> Plugin:
        if info not in self._plugins:
            self._plugins[info] = Plugin(info)
        return self._plugins[info]


def _missing(kind: Kind, wanted: str, installed: Sequence[EntryInfo]) -> str:
    names = sorted({info.name for info in installed})
    listed = ", ".join(names) or "none"
    package = kind.install.get(wanted.strip().lower())
    close = difflib.get_close_matches(wanted.lower(), [*(name.lower() for name in names), *kind.install], n=1)
    if package is not None:
        remedy = f"try: pip install {package}"
    elif close:
        remedy = f"did you mean {close[0]!r}?"
    else:
        remedy = f"install a package with an entry point of this name in the group {kind.group}"
    return f"no {kind.name} is named {wanted!r}; {remedy} (installed: {listed})"
