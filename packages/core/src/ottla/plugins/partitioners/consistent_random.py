"""librdkafka's default, `consistent_random`: the CRC-32 of the key; records without a key or with an empty one vary."""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32

from ottla.hookspecs import hookimpl
from ottla.interfaces import ConfigKey, Partitioner, PluginConfig
from ottla.plugins.partitioners.hashed_keys import HashedKeysOrSticky
from ottla.plugins.partitioners.sticky_keys import IGNORE_KEYS, STICKY_KEYS, sticky_choice


@hookimpl
def ottla_config_keys() -> Sequence[ConfigKey]:
    return STICKY_KEYS


@hookimpl
def ottla_partitioner(config: PluginConfig) -> Partitioner:
    return HashedKeysOrSticky(crc32, sticky_choice(config), ignore_keys=config[IGNORE_KEYS.name], empty_is_none=True)
