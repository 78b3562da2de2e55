"""Problems that a transport or a mechanism finds when it is made, such as a file that cannot be read.

They are listed with the problems of other keys. Other plugins are made only once the whole configuration is valid:
their hooks may do more than read files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ottla.errors import ConfigError, PluginError
from ottla.plugins.plugin_objects import PluginObjects
from ottla.plugins.requests import ResolvedPlugin


def early_problems(transports: Iterable[ResolvedPlugin], mechanisms: Iterable[ResolvedPlugin]) -> list[str]:
    """The problems of those plugins that are of Ottla's own packages, and whose values were all accepted."""
    objects = PluginObjects()
    try:
        return [
            *(problem for each in transports for problem in _problems(each, objects, inner=None)),
            *(problem for each in mechanisms for problem in _problems(each, objects)),
        ]
    finally:
        objects.close(0.0)


def _problems(plugin: ResolvedPlugin, objects: PluginObjects, **extra: object) -> Iterator[str]:
    if not plugin.accepted or not _is_own(plugin):
        return
    try:
        plugin.create(objects, **extra)
    except ConfigError as error:
        yield from error.problems
    except PluginError as error:
        yield str(error)


def _is_own(plugin: ResolvedPlugin) -> bool:
    packages = plugin.plugin.info.kind.install.values()
    return plugin.plugin.distribution in {package.partition("[")[0] for package in packages}
