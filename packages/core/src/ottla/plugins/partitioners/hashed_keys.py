"""Partitions by hashes other than Java's: those of librdkafka, so that keys stay in their partitions after a move."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Final

from ottla.interfaces import TopicView
from ottla.plugins.partitioners.sticky import StickyChoice

_FNV_OFFSET: Final = 0x811C9DC5
_FNV_PRIME: Final = 0x01000193


def fnv1a(data: bytes) -> int:
    """The FNV-1a hash of librdkafka and of Sarama's hash partitioner: the absolute value of a signed 32-bit number."""
    hashed = _FNV_OFFSET
    for byte in data:
        hashed = (hashed ^ byte) * _FNV_PRIME & 0xFFFFFFFF
    return (1 << 32) - hashed if hashed >= 1 << 31 else hashed


class HashedKeys:
    """Keys by a hash; a record without a key as one with an empty key."""

    def __init__(self, hash_of: Callable[[bytes], int]) -> None:
        self._hash_of = hash_of

    def partition(self, topic: str, key: bytes | None, view: TopicView) -> int:
        """A partition in `range(view.partitions)`."""
        return self._hash_of(key or b"") % view.partitions

    def partition_column(self, topic: str, keys: Sequence[bytes], view: TopicView) -> Sequence[int]:
        """The partitions of keys; none of them is None."""
        hash_of, partitions = self._hash_of, view.partitions
        return [hash_of(key) % partitions for key in keys]


class HashedKeysOrSticky:
    """Keys by a hash; records without a key by *choice*. If *empty_is_none*, those with an empty key are spread.

    The core does not count their bytes as it counts those of records without a key, so *choice* would keep them in one
    partition.
    """

    def __init__(
        self,
        hash_of: Callable[[bytes], int],
        choice: StickyChoice,
        *,
        ignore_keys: bool,
        empty_is_none: bool = False,
    ) -> None:
        self._hash_of = hash_of
        self._empty_is_none = empty_is_none
        self._unkeyed = choice.partition
        self._random = Random()
        self.ignores_keys = ignore_keys
        self.appended = choice.appended
        self.finished = choice.finished
        self.sticky = True

    def partition(self, topic: str, key: bytes | None, view: TopicView) -> int:
        """A partition in `range(view.partitions)`."""
        if key is None or self.ignores_keys:
            return self._unkeyed(topic, view)
        if not key and self._empty_is_none:
            return self._random.choice(view.available or range(view.partitions))
        return self._hash_of(key) % view.partitions
