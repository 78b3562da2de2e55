"""Java's default: a key's murmur2 hash chooses the partition; records without a key use the sticky one.

`sticky` chooses that one.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, Final

from ottla.config.value_types import boolean
from ottla.hookspecs import hookimpl
from ottla.interfaces import ConfigKey, Partitioner, PluginConfig, TopicView
from ottla.plugins.partitioners.murmur2_column import murmur2_column
from ottla.plugins.partitioners.murmur2_hash import murmur2
from ottla.plugins.partitioners.sticky import StickyChoice


def positive(hashed: int) -> int:
    """A hash without its sign bit: what Java calls `toPositive`."""
    return hashed & 0x7FFFFFFF


def partition_for_key(key: bytes, partitions: int) -> int:
    """The partition that Java's producer chooses for this key."""
    return positive(murmur2(key)) % partitions


class Murmur2Partitioner:
    """Keys by their hash, over all partitions whether available or not; records without a key by *choice*.

    `send` passes many keys in one call to `partition_column`; only other callers use `partition`.
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


def _not_negative(raw: Any) -> int:
    number = int(raw)
    if number < 0:
        raise ValueError("must be at least 0")
    return number


BATCH_SIZE: Final = ConfigKey(
    name="batch.size",
    type=_not_negative,
    default=16_384,
    meaning="Records without a key move on to another partition after about so many bytes.",
)
LINGER: Final = ConfigKey(
    name="linger.ms",
    type=_not_negative,
    default=5,
    meaning="Records without a key stay so long (10 ms and a megabyte at most) where more than a batch of them comes.",
)
GROWTH: Final = ConfigKey(
    name="batch.growth.enable",
    type=boolean().parse,
    default=True,
    meaning="Without growth, records without a key never stay for more than a batch.",
)
IGNORE_KEYS: Final = ConfigKey(
    name="partitioner.ignore.keys",
    type=boolean().parse,
    default=False,
    meaning="Records with a key are spread as if they had none.",
)
ADAPTIVE: Final = ConfigKey(
    name="partitioner.adaptive.partitioning.enable",
    type=boolean().parse,
    default=True,
    meaning="Records without a key go more often to partitions whose queues are short.",
)
RACK_AWARE: Final = ConfigKey(
    name="partitioner.rack.aware",
    type=boolean().parse,
    default=False,
    meaning="Records without a key go to partitions whose leader is in the rack of the client, if there are any.",
)
RACK: Final = ConfigKey(
    name="client.rack",
    type=lambda raw: str(raw).strip(),  # brokers strip theirs, too
    default="",
    meaning="The rack that the client is in.",
)


@hookimpl
def ottla_config_keys() -> Sequence[ConfigKey]:
    return [BATCH_SIZE, LINGER, GROWTH, IGNORE_KEYS, ADAPTIVE, RACK_AWARE, RACK]


@hookimpl
def ottla_partitioner(config: PluginConfig) -> Partitioner:
    ignore_keys = config[IGNORE_KEYS.name]
    choice = StickyChoice(
        batch_size=config[BATCH_SIZE.name],
        linger=config[LINGER.name] / 1000 if config[GROWTH.name] else 0.0,
        adaptive=config[ADAPTIVE.name],
        rack=config[RACK.name] if config[RACK_AWARE.name] else None,
        random=Random(),
    )
    return Murmur2Partitioner(choice, ignore_keys=ignore_keys)
