"""One plugin by itself: made as a producer makes it, and what stands in its way if it cannot be.

For those who look at plugins rather than use them: `ottla plugins`, and the checks of the testkit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

from ottla.config import ConfigDraft
from ottla.errors import ConfigError, OttlaError, PluginError
from ottla.registry.installed import EntryInfo
from ottla.registry.kinds import KindName
from ottla.registry.lookup import Registry
from ottla.registry.plugin import Plugin

_NO_CLUSTER: Final = {"bootstrap.servers": "localhost:9092"}
_EXTRA: Final[Mapping[KindName, Mapping[str, Any]]] = {
    "transport": {"inner": None},
    "serializer": {"is_key": False},
}


@attrs.frozen(kw_only=True)
class Standing:
    """An installed plugin, and why it cannot be used: None when it can, as far as can be told without settings."""

    info: EntryInfo
    problem: str | None = None


def make_alone(plugin: Plugin, settings: Mapping[str, object], *, registry: Registry, **extra: object) -> Any:
    """What the plugin's hook returns for these settings; nothing else of a producer is made.

    *extra* replaces the hook's other arguments, such as `inner`. Raises ConfigError or PluginError, like `Producer`.
    """
    draft = ConfigDraft.read({**_NO_CLUSTER, **settings})
    config = draft.claim(plugin.config_keys(), plugin=str(plugin))
    draft.finish(installed_keys=registry.declared_keys)
    return plugin.create(config, **{**_EXTRA.get(plugin.info.kind.name, {}), **extra})


def standing(info: EntryInfo, *, registry: Registry) -> Standing:
    """Load this plugin, and make it without settings, to see whether that can be done."""
    if not info.kind.wanted:
        return Standing(info=info, problem=f"this version of ottla asks for no {info.kind.name} yet")
    try:
        make_alone(registry.plugin(info.kind.name, info.name), {}, registry=registry)
    except PluginError as error:
        return Standing(info=info, problem=str(error))
    except ConfigError:
        # It wants settings, and says so: it is there.
        return Standing(info=info)
    except OttlaError as error:
        return Standing(info=info, problem=f"{type(error).__name__}: {error}")
    return Standing(info=info)
