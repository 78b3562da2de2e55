"""The check of a producer's settings without a producer. It imports no part that sends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Unpack

from ottla.config.in_force import SettingsInForce
from ottla.errors.secret import hide_settings
from ottla.plugins.plugin_objects import PluginObjects
from ottla.plugins.registry import Registry
from ottla.plugins.selection import choose_plugins

if TYPE_CHECKING:
    from ottla.config.keywords import ProducerKeywords


def check_config(config: Mapping[str, Any] | None = None, /, **options: Unpack[ProducerKeywords]) -> SettingsInForce:
    """Raise ConfigError or PluginError if `Producer` with the same arguments would. Starts nothing.

    Returns the settings that would be in force, as `Producer.config`. The plugins are made, and closed.
    """
    config, options = hide_settings(config or {}), hide_settings(options)
    checked, plugins = choose_plugins(config, options, registry=Registry(), objects=PluginObjects())
    plugins.close()
    return checked.in_force
