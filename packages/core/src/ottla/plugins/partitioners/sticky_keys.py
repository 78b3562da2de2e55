"""The settings of partitioners that use the sticky partition for records without a key."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, Final

from ottla.config.value_types import boolean
from ottla.interfaces import ConfigKey, PluginConfig
from ottla.plugins.partitioners.sticky import StickyChoice


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

STICKY_KEYS: Final[Sequence[ConfigKey]] = (BATCH_SIZE, LINGER, GROWTH, IGNORE_KEYS, ADAPTIVE, RACK_AWARE, RACK)


def sticky_choice(config: PluginConfig) -> StickyChoice:
    """The choice of partitions for records without a key, with these settings."""
    return StickyChoice(
        batch_size=config[BATCH_SIZE.name],
        linger=config[LINGER.name] / 1000 if config[GROWTH.name] else 0.0,
        adaptive=config[ADAPTIVE.name],
        rack=config[RACK.name] if config[RACK_AWARE.name] else None,
        random=Random(),
    )
