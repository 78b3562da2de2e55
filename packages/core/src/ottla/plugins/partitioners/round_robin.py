"""Each record to the next available partition of its topic, keys or not."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from ottla.hookspecs import hookimpl
from ottla.interfaces import Partitioner, TopicView


class RoundRobin:
    """One counter for each topic; `next` on it is atomic."""

    def __init__(self) -> None:
        self._turns: dict[str, Iterator[int]] = {}

    def partition(self, topic: str, key: bytes | None, view: TopicView) -> int:
        """A partition in `range(view.partitions)`."""
        turns = self._turns.get(topic)
        if turns is None:
            turns = self._turns.setdefault(topic, count())
        candidates = view.available or range(view.partitions)
        return candidates[next(turns) % len(candidates)]


@hookimpl
def ottla_partitioner() -> Partitioner:
    return RoundRobin()
