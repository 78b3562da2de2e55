"""librdkafka's `murmur2_random`: another name of the default partitioner."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.hookspecs import hookimpl
from ottla.interfaces import ConfigKey, Partitioner, PluginConfig
from ottla.plugins.partitioners.murmur2 import Murmur2Partitioner
from ottla.plugins.partitioners.sticky_keys import IGNORE_KEYS, STICKY_KEYS, sticky_choice


@hookimpl
def ottla_config_keys() -> Sequence[ConfigKey]:
    return STICKY_KEYS


@hookimpl
def ottla_partitioner(config: PluginConfig) -> Partitioner:
    return Murmur2Partitioner(sticky_choice(config), ignore_keys=config[IGNORE_KEYS.name])
