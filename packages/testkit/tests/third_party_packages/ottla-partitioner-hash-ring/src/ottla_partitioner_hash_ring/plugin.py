"""The plugin: a partitioner by consistent hashing, so that few keys move when a topic gets more partitions."""

from __future__ import annotations

import functools
import itertools
import struct
from bisect import bisect_left
from collections.abc import Sequence
from hashlib import blake2b

from ottla.hookspecs import hookimpl
from ottla.interfaces import ConfigKey, Partitioner, SupportsPartitionColumn, TopicView

ottla_conformance = "ottla_partitioner_hash_ring.conformance:HashRingConformance"

VIRTUAL_NODES = "hash.ring.virtual.nodes"
DEFAULT_VIRTUAL_NODES = 128
MAX_VIRTUAL_NODES = 4096
# A cluster has few different numbers of partitions. The limit only bounds the memory.
MAX_RINGS = 64
# One BLAKE2b digest of 64 bytes gives eight points, so that a ring is made quickly.
_POINTS = struct.Struct(">8Q")


class Ring:
    """The points of all partitions on a circle of 64-bit numbers, in order. It never changes."""

    __slots__ = ("owners", "points")

    def __init__(self, partitions: int, virtual_nodes: int) -> None:
        owner_of: dict[int, int] = {}
        for partition in range(partitions):
            for point in points_of(partition, virtual_nodes):
                owner_of.setdefault(point, partition)  # an equal point of a new partition moves no keys
        self.points = sorted(owner_of)
        self.owners = [owner_of[point] for point in self.points]
        self.owners.append(self.owners[0])  # a key behind the last point belongs to the first one


@functools.lru_cache(maxsize=16_384)
def points_of(partition: int, virtual_nodes: int) -> list[int]:
    """Return the points of one partition, which depend on nothing else. Callers may not change the list."""
    points: list[int] = []
    for block in itertools.count():
        if len(points) >= virtual_nodes:
            return points[:virtual_nodes]
        points += _POINTS.unpack(blake2b(b"%d:%d" % (partition, block)).digest())
    raise AssertionError("count() never ends")


def place_of(key: bytes) -> int:
    """Return the place of a key on the circle."""
    return int.from_bytes(blake2b(key, digest_size=8).digest(), "big")


class HashRingPartitioner(SupportsPartitionColumn):
    """A key belongs to the next point on the ring; records without a key take turns.

    Many threads call it at once: rings never change, and `setdefault` and `next` are atomic.
    """

    def __init__(self, virtual_nodes: int = DEFAULT_VIRTUAL_NODES) -> None:
        self._virtual_nodes = virtual_nodes
        self._rings: dict[int, Ring] = {}
        # One counter for each topic. With a common one, two topics that are sent to by turns would get half of their
        # partitions each.
        self._turns: dict[str, itertools.count[int]] = {}

    def partition(self, topic: str, key: bytes | None, view: TopicView) -> int:
        """Return the partition of a key, which no leader changes; without a key, the next one that can take records."""
        if key is not None:
            ring = self._ring(view.partitions)
            return ring.owners[bisect_left(ring.points, place_of(key))]
        candidates: Sequence[int] = view.available or range(view.partitions)
        if view.slow:
            candidates = [partition for partition in candidates if partition not in view.slow] or candidates
        turns = self._turns.get(topic)
        if turns is None:
            turns = self._turns.setdefault(topic, itertools.count())
        return candidates[next(turns) % len(candidates)]

    def partition_column(self, topic: str, keys: Sequence[bytes], view: TopicView) -> Sequence[int]:
        """Return the partitions of many keys, the same as `partition` for each."""
        ring = self._ring(view.partitions)
        points, owners = ring.points, ring.owners
        return [owners[bisect_left(points, place_of(key))] for key in keys]

    def _ring(self, partitions: int) -> Ring:
        ring = self._rings.get(partitions)
        if ring is None:
            # Two threads may make the same ring at the same time: both rings are equal.
            ring = Ring(partitions, self._virtual_nodes)
            if len(self._rings) >= MAX_RINGS:
                self._rings = {}
            self._rings[partitions] = ring
        return ring


def number_of_virtual_nodes(written: object) -> int:
    """Return the setting as a number."""
    number = int(str(written))
    if not 1 <= number <= MAX_VIRTUAL_NODES:
        raise ValueError(f"it must be between 1 and {MAX_VIRTUAL_NODES}")
    return number


@hookimpl
def ottla_config_keys() -> list[ConfigKey]:
    """The keys that users may set."""
    return [
        ConfigKey(
            name=VIRTUAL_NODES,
            type=number_of_virtual_nodes,
            default=DEFAULT_VIRTUAL_NODES,
            meaning=f"points of each partition on the ring, 1 to {MAX_VIRTUAL_NODES}: more of them spread keys more"
            " evenly, and need more memory; a change moves keys",
        )
    ]


@hookimpl
def ottla_partitioner(config: dict[str, int]) -> Partitioner:
    """The partitioner named `hash-ring`."""
    return HashRingPartitioner(config[VIRTUAL_NODES])
