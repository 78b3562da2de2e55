"""One plugin by itself: made as a producer makes it, and what stands in its way if it cannot be.

For those who look at plugins rather than use them: `ottla plugins`, and the checks of the testkit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

from ottla.config import ConfigDraft
from ottla.errors import ConfigError, PluginError, PluginNotFoundError
from ottla.plugins.registry.installed import EntryInfo
from ottla.plugins.registry.lookup import Registry
from ottla.plugins.registry.plugin import Plugin

_NO_CLUSTER: Final = {"bootstrap.servers": "localhost:9092"}
_PLAIN: Final = "plaintext"
_PICKED: Final = frozenset({_PLAIN, "ssl"})
"""The transports that `security.protocol` picks; every other one is for `connection.via`."""


@attrs.frozen(kw_only=True)
class PluginCondition:
    """An installed plugin, and why it cannot be used: None when it can, as far as can be told without settings."""

    info: EntryInfo
    problem: str | None = None


def make_alone(plugin: Plugin, settings: Mapping[str, object], *, registry: Registry) -> Any:
    """What the plugin's hook returns for these settings; nothing else of a producer is made.

    A transport for `connection.via` gets the plaintext one as its inner one, where that is installed. Raises
    ConfigError or PluginError, like `Producer`.
    """
    draft = ConfigDraft.read({**_NO_CLUSTER, **settings})
    config = draft.claim(plugin.config_keys(), plugin=str(plugin))
    draft.finish(installed_keys=registry.declared_keys)
    return plugin.create(config, **_extra(plugin, registry))


def plugin_condition(info: EntryInfo, *, registry: Registry) -> PluginCondition:
    """Load this plugin, and make it without settings, to see whether that can be done."""
    try:
        make_alone(registry.plugin(info.kind.name, info.name), {}, registry=registry)
    except PluginError as error:
        return PluginCondition(info=info, problem=str(error))
    except ConfigError:
        # It wants settings, and says so: it is there.
        return PluginCondition(info=info)
    except Exception as error:
        return PluginCondition(info=info, problem=f"{type(error).__name__}: {error}")
    return PluginCondition(info=info)


def _extra(plugin: Plugin, registry: Registry) -> Mapping[str, object]:
    """The other arguments of the plugin's hook."""
    match plugin.info.kind.name:
        case "transport":
            return {"inner": None if plugin.name.lower() in _PICKED else _plain_transport(registry)}
        case "serializer":
            return {"is_key": False}
        case _:
            return {}


def _plain_transport(registry: Registry) -> Any:
    try:
        return registry.plugin("transport", _PLAIN).create({}, inner=None)
    except PluginNotFoundError:
        return None
