"""What we believe of the cluster at one moment: brokers, topics, leaders. A value; a new one replaces it whole."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

from ottla.config.hosts import with_port
from ottla.errors import ErrorCode, printable, quoted

NO_LEADER: Final = -1


@attrs.frozen(kw_only=True)
class Broker:
    """Where one broker can be reached. Bootstrap addresses have negative ids until brokers are known."""

    id: int
    host: str = attrs.field(repr=quoted)
    port: int

    def __str__(self) -> str:
        name = f"broker {self.id}" if self.id >= 0 else "bootstrap server"
        return f"{name} at {with_port(printable(self.host), self.port)}"


@attrs.frozen(kw_only=True)
class Topic:
    """One topic: `leaders[p]` is the broker that leads partition p, or NO_LEADER; `epochs[p]` is its term."""

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
    """One partition of a topic, and the broker that leads it; None: none does now."""

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
        """The broker that leads a partition; None when there is none or we do not know it."""
        known = self.topics.get(topic)
        if known is None or partition >= len(known.leaders):
            return None
        leader = known.leaders[partition]
        return leader if leader in self.brokers else None

    def named_leader(self, topic: str, partition: int) -> int | None:
        """The broker that led a partition when we last heard of it, also if it is not among the brokers any more."""
        known = self.topics.get(topic)
        return known.leaders[partition] if known is not None and partition < len(known.leaders) else None

    def leader_epoch(self, topic: str, partition: int) -> int:
        """The term of a partition's leader; -1: brokers before 2.1 do not tell it, or we do not know the partition."""
        known = self.topics.get(topic)
        return known.epochs[partition] if known is not None and partition < len(known.epochs) else -1

    def has_new_leader(self, topic: str, partition: int, *, since_epoch: int, since_node: int | None) -> bool:
        """Whether a partition is known to be led by another broker, or in a later term, than it was then (KIP-951)."""
        leader, epoch = self.leader(topic, partition), self.leader_epoch(topic, partition)
        if leader is None:
            return False
        return epoch > since_epoch if epoch >= 0 and since_epoch >= 0 else leader != since_node

    def partitions(self, topic: str) -> tuple[PartitionInfo, ...]:
        """The partitions of a topic by their numbers; none of one that we do not know."""
        known = self.topics.get(topic)
        return tuple(
            PartitionInfo(topic=topic, partition=partition, leader=self.brokers.get(leader))
            for partition, leader in enumerate(known.leaders if known is not None else ())
        )
