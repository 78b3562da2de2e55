"""The identity of a plugin that the program gives as a Python object."""

from __future__ import annotations

from typing import TypeAlias

import attrs

from ottla.errors.plugin_origin import PluginOrigin
from ottla.plugins.registry.installed import EntryInfo
from ottla.plugins.registry.kinds import Kind
from ottla.results.value_methods import ValueMethods


@attrs.frozen(kw_only=True, eq=False, repr=False)
class GivenInfo(ValueMethods):
    """What stands in place of an `EntryInfo`; `module` is that of the object's class."""

    kind: Kind
    name: str
    module: str
    distribution: str = "the program"
    version: str = ""
    built_in: bool = False

    @property
    def qualified_name(self) -> str:
        """The name; there is no package."""
        return self.name

    def __str__(self) -> str:
        return f"{self.kind.name} {self.name}"

    @property
    def origin(self) -> PluginOrigin:
        """The plugin in errors about an object of it."""
        return PluginOrigin(str(self), f"correct it, or use another {self.kind.name}")


PluginInfo: TypeAlias = EntryInfo | GivenInfo
"""The identity of a plugin: its kind and name, and where it is from."""
