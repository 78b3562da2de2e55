"""The plugin and package that an object is from, for errors and log lines about it."""

from __future__ import annotations

import attrs

from ottla.errors.quoting import class_name


@attrs.frozen
class PluginOrigin:
    """A plugin as messages name it, such as "partitioner 'acme' of ottla-acme 1.2", and what helps when it fails."""

    name: str
    remedy: str

    def __str__(self) -> str:
        return self.name

    @classmethod
    def of_class(cls, kind: str, made: object) -> PluginOrigin:
        """The origin of an object that no installed plugin has made: its class, or the function that it is."""
        return cls(f"{kind} {class_name(made)}", f"correct the {kind}, or use another one")
