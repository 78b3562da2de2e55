"""The sticky partition of records without a key: one partition until it has a batch's worth, then another (KIP-794).

With a high rate a partition is kept for `linger.ms`, up to 10 ms and a megabyte. Otherwise each of many partitions
would have a small batch waiting, and a record costs half as much in a large batch. The brokers' latency plays no part
in that, or slow ones would get more.

The next partition is drawn at random among those that can take records, with more weight on short queues. With a
rack, only those whose leader is there can, unless there are none (KIP-1123). Many threads call this at once without a
lock: a lost update costs some balance, never a wrong partition.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate
from random import Random
from time import monotonic
from typing import Final

from ottla.interfaces import TopicView

_ENOUGH: Final = 7 / 8
"""The filled part of a batch from which on it takes no large record any more, so the partition is changed."""

_MAX_BYTES: Final = 1024 * 1024
"""Bytes, or a batch's worth if that is more, after which the partition is changed at any rate."""

_MAX_SECONDS: Final = 0.010
"""Seconds after which the partition is changed if it has a batch's worth."""

_DRAWS_PER_READ: Final = 1 / 8
"""Draws per candidate until queues are read again: reading 5000 queues takes 400 µs."""


class _StickyPartition:
    """A topic's sticky partition, and the bytes that went there."""

    __slots__ = ("bytes", "draw", "partition", "since")

    def __init__(self, draw: _Draw, *, now: float) -> None:
        self.draw = draw
        self.partition = draw.next()
        self.bytes = 0
        self.since = now


class StickyChoice:
    """The sticky partition of each topic. Thread-safe; uses *random* once for each change.

    With a *rack*, it prefers partitions whose leader is there.
    """

    def __init__(
        self,
        *,
        batch_size: int,
        adaptive: bool,
        random: Random,
        rack: str | None = None,
        linger: float = 0.0,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._seconds = min(linger, _MAX_SECONDS)
        self._clock = clock
        self._batch_size = max(batch_size, 1)
        self._adaptive = adaptive
        self._random = random
        self._rack = rack
        self._sticky: dict[str, _StickyPartition] = {}

    def partition(self, topic: str, view: TopicView) -> int:
        """The topic's sticky partition; checked again for each new view."""
        sticky = self._sticky.get(topic)
        if sticky is not None and sticky.draw.view is view:
            return sticky.partition
        return self._choose_for_view(topic, sticky, view)

    def appended(self, topic: str, partition: int, size: int) -> None:
        """Count *size* bytes that went to a partition; change it after a batch's worth and the minimum time."""
        self._count(topic, partition, size, seconds=self._seconds)

    def finished(self, topic: str, partition: int, size: int) -> None:
        """Count bytes in batches that no other record can join; change the partition after a batch's worth."""
        self._count(topic, partition, size, seconds=0.0)

    def _count(self, topic: str, partition: int, size: int, *, seconds: float) -> None:
        sticky = self._sticky.get(topic)
        if sticky is None or sticky.partition != partition:
            return
        sticky.bytes += size
        if sticky.bytes < self._batch_size * _ENOUGH:
            return
        now = self._clock()
        if sticky.bytes >= _MAX_BYTES or now - sticky.since >= seconds:
            self._sticky[topic] = _StickyPartition(sticky.draw, now=now)

    def _choose_for_view(self, topic: str, sticky: _StickyPartition | None, view: TopicView) -> int:
        """Keep the partition if it is still among the candidates."""
        draw = _Draw(
            view,
            candidates=_candidates(view, rack=self._rack),
            batch_size=self._batch_size,
            adaptive=self._adaptive,
            random=self._random,
        )
        if sticky is not None and sticky.partition in draw.candidates:
            sticky.draw = draw
        else:
            sticky = self._sticky[topic] = _StickyPartition(draw, now=self._clock())
        return sticky.partition


class _Draw:
    """Draws partitions of one view, with more weight on queues that were short when last read."""

    def __init__(
        self, view: TopicView, *, candidates: Sequence[int], batch_size: int, adaptive: bool, random: Random
    ) -> None:
        self.view = view
        self.candidates = candidates
        self._batch_size = batch_size
        self._adaptive = adaptive and bool(view.available)
        self._random = random
        self._weights: Sequence[int] | None = None  # cumulative, or None if all are equal
        self._draws_left = 0

    def next(self) -> int:
        """The number of a random partition among the candidates."""
        if self._adaptive:
            self._draws_left -= 1
            if self._draws_left < 0:
                self._read_queues()
        weights = self._weights
        if weights is None:
            return self._random.choice(self.candidates)
        last = len(weights) - 1  # never past it, even if the product is rounded up
        return self.candidates[bisect_right(weights, self._random.random() * weights[last], 0, last)]

    def _read_queues(self) -> None:
        queued, size = self.view.queued_bytes, self._batch_size
        # In batches, as in Java: in bytes an almost empty queue would weigh too much.
        lengths = [-(-queued[partition] // size) for partition in self.candidates]
        longest = max(lengths)
        self._draws_left = int(len(lengths) * _DRAWS_PER_READ)
        if longest == min(lengths):
            self._weights = None
        else:
            self._weights = list(accumulate(longest + 1 - length for length in lengths))


def _candidates(view: TopicView, *, rack: str | None) -> Sequence[int]:
    """The available partitions that are not slow; without any, also the slow ones; without these, all.

    Of these, the ones whose leader is in *rack*, if there are any (KIP-1123).
    """
    quick = [partition for partition in view.available if partition not in view.slow] if view.slow else ()
    candidates = quick or view.available
    if rack is not None and view.racks:
        nearby = [partition for partition in candidates if view.racks.get(view.leaders[partition]) == rack]
        candidates = nearby or candidates
    return candidates or range(view.partitions)
