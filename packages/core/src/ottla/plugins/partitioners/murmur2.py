"""Java's default: a key's murmur2 hash chooses the partition; records without a key use the sticky one.

`sticky` chooses that one.
"""

from __future__ import annotations

from collections.abc import Sequence

from ottla.hookspecs import hookimpl
from ottla.interfaces import ConfigKey, Partitioner, PluginConfig, TopicView
from ottla.plugins.partitioners.murmur2_column import murmur2_column
from ottla.plugins.partitioners.murmur2_hash import murmur2
from ottla.plugins.partitioners.sticky import StickyChoice
from ottla.plugins.partitioners.sticky_keys import IGNORE_KEYS, STICKY_KEYS, sticky_choice


def positive(hashed: int) -> int:
    """A hash without its sign bit: what Java calls `toPositive`."""
    return hashed & 0x7FFFFFFF


def partition_for_key(key: bytes, partitions: int) -> int:
    """The partition that Java's producer chooses for this key."""
    return positive(murmur2(key)) % partitions


class Murmur2Partitioner:
    """Chooses partitions of keys by their hash, available or not, and of records without a key by *choice*.

    In pure Python, `send` passes many keys in one call to `partition_column`. With `ottla-accel`, the hash is computed
    in C, or `send` calls `partition` for each key.
    """

    def __init__(self, choice: StickyChoice, *, ignore_keys: bool = False) -> None:
        self.ignores_keys = ignore_keys
        self._unkeyed = choice.partition
        self.appended = choice.appended
        self.finished = choice.finished
        self.sticky = True
        self.hashes = "murmur2"

    def partition(self, topic: str, key: bytes | None, view: TopicView) -> int:
        """A partition in `range(view.partitions)`."""
        if key is None or self.ignores_keys:
            return self._unkeyed(topic, view)
        return partition_for_key(key, view.partitions)

    def partition_column(self, topic: str, keys: Sequence[bytes], view: TopicView) -> Sequence[int]:
        """The partitions of keys; none of them is None."""
        partitions = view.partitions
        return [(hashed & 0x7FFFFFFF) % partitions for hashed in murmur2_column(keys)]


@hookimpl
def ottla_config_keys() -> Sequence[ConfigKey]:
    return STICKY_KEYS


@hookimpl
def ottla_partitioner(config: PluginConfig) -> Partitioner:
    return Murmur2Partitioner(sticky_choice(config), ignore_keys=config[IGNORE_KEYS.name])
