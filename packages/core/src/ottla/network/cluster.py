"""A snapshot of the cluster: brokers, topics, leaders. An immutable value; updates replace it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

from ottla.config.hosts import with_port
from ottla.errors import ErrorCode, printable, quoted

NO_LEADER: Final = -1


@attrs.frozen(kw_only=True)
class Broker:
    """The address of one broker, and its rack, None for none. Bootstrap servers have negative ids.

    Brokers with the same id and address are equal.
    """

    id: int
    host: str = attrs.field(repr=quoted)
    port: int
    rack: str | None = attrs.field(default=None, eq=False, repr=False)

    def __str__(self) -> str:
        name = f"broker {self.id}" if self.id >= 0 else "bootstrap server"
        return f"{name} at {with_port(printable(self.host), self.port)}"


@attrs.frozen(kw_only=True)
class Topic:
    """One topic: `leaders[p]` is the leader of partition p, or NO_LEADER; `epochs[p]` is its leader epoch."""

    name: str
    id: bytes = bytes(16)
    error: ErrorCode = ErrorCode.NONE
    leaders: tuple[int, ...] = ()
    epochs: tuple[int, ...] = ()

    @property
    def available(self) -> tuple[int, ...]:
        """The partitions that have a leader."""
        return tuple(p for p, leader in enumerate(self.leaders) if leader != NO_LEADER)


@attrs.frozen(kw_only=True)
class PartitionInfo:
    """One partition of a topic, and its leader, which is None if it has none now."""

    topic: str
    partition: int
    leader: Broker | None


@attrs.frozen(kw_only=True)
class Cluster:
    """Brokers by id and topics by name."""

    brokers: Mapping[int, Broker]
    topics: Mapping[str, Topic] = attrs.field(factory=dict)
    bootstrap: bool = False

    def leader(self, topic: str, partition: int) -> int | None:
        """The leader of a partition; None if there is none or it is not known."""
        known = self.topics.get(topic)
        if known is None or partition >= len(known.leaders):
            return None
        leader = known.leaders[partition]
        return leader if leader != NO_LEADER and leader in self.brokers else None  # -1: see `named_leader`

    def named_leader(self, topic: str, partition: int) -> int | None:
        """The last known leader of a partition, even if it is no longer among the brokers; None if it had none."""
        known = self.topics.get(topic)
        if known is None or partition >= len(known.leaders):
            return None
        leader = known.leaders[partition]
        return leader if leader != NO_LEADER else None  # -1 is also the id of a bootstrap server

    def leader_epoch(self, topic: str, partition: int) -> int:
        """The leader epoch of a partition, or -1 if it is unknown, also if the broker has no topic ids (before 2.8)."""
        known = self.topics.get(topic)
        return known.epochs[partition] if known is not None and partition < len(known.epochs) else -1

    def has_new_leader(self, topic: str, partition: int, *, since_epoch: int, since_node: int | None) -> bool:
        """Return whether a partition has another leader, or a later leader epoch, than the given ones (KIP-951)."""
        leader, epoch = self.leader(topic, partition), self.leader_epoch(topic, partition)
        if leader is None:
            return False
        return epoch > since_epoch if epoch >= 0 and since_epoch >= 0 else leader != since_node

    def partitions(self, topic: str) -> tuple[PartitionInfo, ...]:
        """The partitions of a topic by number; empty for an unknown topic."""
        known = self.topics.get(topic)
        if known is None:
            return ()
        leaders = (self.leader(topic, partition) for partition in range(len(known.leaders)))
        return tuple(
            PartitionInfo(topic=topic, partition=partition, leader=None if leader is None else self.brokers[leader])
            for partition, leader in enumerate(leaders)
        )
