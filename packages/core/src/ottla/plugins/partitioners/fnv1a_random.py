"""librdkafka's `fnv1a_random`, and Sarama's default: the FNV-1a hash of the key; records without a key are spread."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.hookspecs import hookimpl
from ottla.interfaces import ConfigKey, Partitioner, PluginConfig
from ottla.plugins.partitioners.hashed_keys import HashedKeysOrSticky, fnv1a
from ottla.plugins.partitioners.sticky_keys import IGNORE_KEYS, STICKY_KEYS, sticky_choice


@hookimpl
def ottla_config_keys() -> Sequence[ConfigKey]:
    return STICKY_KEYS


@hookimpl
def ottla_partitioner(config: PluginConfig) -> Partitioner:
    return HashedKeysOrSticky(fnv1a, sticky_choice(config), ignore_keys=config[IGNORE_KEYS.name])
