"""Plugins that a configuration names: requested as plain values, resolved with their keys, and created later."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from ottla.config import ConfigDraft, PluginValues
from ottla.config.plugin_choice import GivenPlugin, PluginChoice
from ottla.errors import PluginError, PluginNotFoundError
from ottla.plugins.plugin_objects import PluginObjects
from ottla.plugins.registry import KindName, Plugin, Registry, given_plugin
from ottla.plugins.registry.key_prefixes import prefixes_of_name


@attrs.frozen(kw_only=True, eq=False, repr=False)
class PluginRequest:
    """A plugin that a configuration names, or gives as an object.

    `name` is None if the configuration names no encoder: then the core chooses one of those released with it. If the
    plugin is not installed, `note` is added to the error, and keys that begin with one of `key_prefixes` are not
    reported as unknown.
    """

    kind: KindName
    name: PluginChoice | None
    key_prefixes: tuple[str, ...] = ()
    note: str = ""


def request_named(kind: KindName, name: PluginChoice) -> PluginRequest:
    """A request for a plugin whose keys begin with its name, by the naming convention for plugins."""
    prefixes = prefixes_of_name(name) if isinstance(name, str) else ()
    return PluginRequest(kind=kind, name=name, key_prefixes=prefixes)


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ResolvedPlugin:
    """A plugin with the values of its keys; used only once the whole configuration is valid.

    `accepted` is false if a value of its keys was refused, and a default took its place.
    """

    request: PluginRequest
    plugin: Plugin
    values: PluginValues
    accepted: bool = True

    def create(self, objects: PluginObjects, **extra: object) -> Any:
        """The object that the plugin's hook makes; *extra* are the hook's other arguments. Raises PluginError."""
        try:
            return objects.create(self.plugin, self.values, **extra)
        except PluginNotFoundError as error:
            raise _noted(error, self.request.note) from error.__cause__


class Resolver:
    """Looks plugins up and claims their keys; collects errors, so that all are reported together."""

    def __init__(self, draft: ConfigDraft, registry: Registry) -> None:
        self._draft = draft
        self._registry = registry
        self._given: dict[tuple[KindName, GivenPlugin], Plugin] = {}
        self.errors: list[PluginError] = []
        self.unclaimable: set[str] = set()
        """Keys of plugins that are not available: the missing plugin is reported once, not again for each key."""

    def resolve(self, request: PluginRequest) -> Sequence[ResolvedPlugin]:
        """The plugins of a request, with their claimed keys; none after an error, which is collected."""
        try:
            return [self._with_values(plugin, request) for plugin in self._found(request)]
        except PluginError as error:
            self.errors.append(_noted(error, request.note))
            keys = self._draft.config.plugin_values
            self.unclaimable.update(key for key in keys if key.startswith(request.key_prefixes))
            return ()

    def _found(self, request: PluginRequest) -> Sequence[Plugin]:
        match request.name:
            case None:
                return self._registry.encoders()
            case GivenPlugin() as given:
                if (request.kind, given) not in self._given:
                    self._given[request.kind, given] = given_plugin(request.kind, given)
                return [self._given[request.kind, given]]
            case name:
                return [self._registry.plugin(request.kind, name)]

    def _with_values(self, plugin: Plugin, request: PluginRequest) -> ResolvedPlugin:
        before = len(self._draft.problems)
        values = self._draft.claim(plugin.config_keys(), plugin=str(plugin))
        accepted = len(self._draft.problems) == before
        return ResolvedPlugin(request=request, plugin=plugin, values=values, accepted=accepted)


def _noted(error: PluginError, note: str) -> PluginError:
    return PluginNotFoundError(f"{error}; {note}") if note and isinstance(error, PluginNotFoundError) else error
