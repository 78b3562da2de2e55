"""Installed plugins: found, identified, loaded one by one, and checked before use."""

from ottla.plugins.registry.given import given_plugin
from ottla.plugins.registry.installed import EntryInfo
from ottla.plugins.registry.kinds import KINDS, Kind, KindName
from ottla.plugins.registry.lookup import Registry
from ottla.plugins.registry.plugin import Plugin
from ottla.plugins.registry.single import PluginCondition, default_encoder, make_alone, plugin_condition

__all__ = [
    "KINDS",
    "EntryInfo",
    "Kind",
    "KindName",
    "Plugin",
    "PluginCondition",
    "Registry",
    "default_encoder",
    "given_plugin",
    "make_alone",
    "plugin_condition",
]
