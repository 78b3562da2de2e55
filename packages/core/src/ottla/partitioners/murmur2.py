"""The default partitioner: by the key's hash, as Java's; without a key, sticky and fair to slow brokers (KIP-794)."""

from __future__ import annotations

import functools
import random
import struct
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, Final

import attrs

from ottla.hookspecs import hookimpl
from ottla.interfaces import ConfigKey, Partitioner, PluginConfig, TopicView

RECORD_OVERHEAD: Final = 16
"""What the record format adds to a small record: a batch that is full by this count is full."""

HASHES_KEPT: Final = 16_384
"""Keys come again and again: a known one takes 70 ns, a new one of 16 bytes 1,400 (CPython 3.11)."""

_SEED: Final = 0x9747B28C
_M: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """The hash that Kafka gives keys, as an unsigned number of 32 bits."""
    h = _SEED ^ len(data)
    for word in _words(len(data) >> 2).unpack_from(data):
        word = word * _M & _MASK
        h = h * _M & _MASK ^ (word ^ word >> 24) * _M & _MASK
    tail = data[len(data) & ~3 :]
    if tail:
        h = (h ^ int.from_bytes(tail, "little")) * _M & _MASK
    h = (h ^ h >> 13) * _M & _MASK
    return h ^ h >> 15


@functools.lru_cache(maxsize=256)
def _words(count: int) -> struct.Struct:
    return struct.Struct(f"<{count}I")


@functools.lru_cache(maxsize=HASHES_KEPT)
def positive_hash(key: bytes) -> int:
    """The hash without its sign bit; its remainder by the number of partitions is Java's choice."""
    return murmur2(key) & 0x7FFFFFFF


@attrs.define
class _Sticky:
    """The partition that a topic's records without keys go to for now."""

    partition: int
    produced: int = 0


class Murmur2Partitioner:
    """Keys by their hash. Without one, a partition until about `batch.size` bytes went to it, then another.

    Many threads call it at once: a race may cost balance, never a record.
    """

    def __init__(
        self,
        *,
        batch_size: int,
        ignore_keys: bool = False,
        adaptive: bool = True,
        random: Callable[[], float] = random.random,
    ) -> None:
        self._batch_size = batch_size
        self._ignore_keys = ignore_keys
        self._adaptive = adaptive
        self._random = random
        self._sticky: dict[str, _Sticky] = {}

    def partition(self, topic: str, key: bytes | None, view: TopicView) -> int:
        """The key's partition, or the one whose turn it is."""
        if key is not None and not self._ignore_keys:
            return positive_hash(key) % view.partitions
        sticky = self._sticky.get(topic)
        if sticky is None or sticky.produced >= self._batch_size or sticky.partition >= view.partitions:
            sticky = self._sticky[topic] = _Sticky(self._choose(view))
        return sticky.partition

    def appended(self, topic: str, partition: int, size: int) -> None:
        """Count what went to the sticky partition; it is left when another record like this one would not fit."""
        sticky = self._sticky.get(topic)
        if sticky is not None and sticky.partition == partition:
            size += RECORD_OVERHEAD
            sticky.produced += size
            if sticky.produced + size > self._batch_size:
                sticky.produced = self._batch_size

    def _choose(self, view: TopicView) -> int:
        candidates = [p for p in view.available if p not in view.slow] or view.available or range(view.partitions)
        if self._adaptive:
            return self._weighted(candidates, [view.queued_bytes[p] for p in candidates])
        return candidates[int(self._random() * len(candidates))]

    def _weighted(self, candidates: Sequence[int], queued: Sequence[int]) -> int:
        """The shorter a partition's queue, the likelier it is chosen; equal queues are equally likely."""
        longest = max(queued)
        bounds = list(accumulate(longest + 1 - size for size in queued))
        point = self._random() * bounds[-1]
        return next(
            (candidate for candidate, bound in zip(candidates, bounds, strict=True) if point < bound),
            candidates[-1],
        )


def _boolean(raw: Any) -> bool:
    """What the core has checked already, as the bool or the word that the user wrote."""
    return raw if isinstance(raw, bool) else str(raw).strip().lower() == "true"


BATCH_SIZE: Final = ConfigKey(
    name="batch.size",
    type=int,
    default=16_384,
    meaning="After so many bytes another partition gets its turn.",
)
IGNORE_KEYS: Final = ConfigKey(
    name="partitioner.ignore.keys", type=_boolean, default=False, meaning="Whether keys have no say."
)
ADAPTIVE: Final = ConfigKey(
    name="partitioner.adaptive.partitioning.enable",
    type=_boolean,
    default=True,
    meaning="Whether partitions with short queues get more of the records without a key.",
)


@hookimpl
def ottla_config_keys() -> Sequence[ConfigKey]:
    """Keys of the core that it reads too."""
    return [BATCH_SIZE, IGNORE_KEYS, ADAPTIVE]


@hookimpl
def ottla_partitioner(config: PluginConfig) -> Partitioner:
    """The partitioner named `murmur2`, the default."""
    return Murmur2Partitioner(
        batch_size=config[BATCH_SIZE.name],
        ignore_keys=config[IGNORE_KEYS.name],
        adaptive=config[ADAPTIVE.name],
    )
