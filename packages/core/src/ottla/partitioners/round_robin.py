"""One partition after the other, record by record, whatever the key."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from ottla.hookspecs import hookimpl
from ottla.interfaces import Partitioner, PluginConfig, TopicView


class RoundRobinPartitioner:
    """Counts each topic's records; partitions without a leader are passed over while others have one."""

    def __init__(self) -> None:
        self._turns: dict[str, Iterator[int]] = {}

    def partition(self, topic: str, key: bytes | None, view: TopicView) -> int:
        """The next one."""
        turns = self._turns.get(topic)
        if turns is None:
            turns = self._turns.setdefault(topic, itertools.count())
        candidates = view.available or range(view.partitions)
        return candidates[next(turns) % len(candidates)]


@hookimpl
def ottla_partitioner(config: PluginConfig) -> Partitioner:
    """The partitioner named `round_robin`."""
    return RoundRobinPartitioner()
