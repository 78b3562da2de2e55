"""The plugins that are installed: found, told apart, loaded one by one, and checked before they are used."""

from ottla.registry.alone import Standing, make_alone, standing
from ottla.registry.installed import EntryInfo
from ottla.registry.kinds import KINDS, Kind, KindName
from ottla.registry.lookup import Registry
from ottla.registry.plugin import Plugin

__all__ = ["KINDS", "EntryInfo", "Kind", "KindName", "Plugin", "Registry", "Standing", "make_alone", "standing"]
