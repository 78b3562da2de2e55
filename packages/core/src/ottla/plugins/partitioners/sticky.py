"""Where records without a key go: to one partition until it has a batch's worth, then to another (KIP-794).

Where records come quickly they stay for `linger.ms`, up to 10 ms and a megabyte: otherwise each of many partitions
would have a small batch waiting, and a record costs half as much in a large one. How long brokers take has no part in
that, or slow ones would be given more.

The next one is drawn at random among those that can take records, with more weight on short queues. Many threads
come here at once and no lock is taken: a lost update costs some balance, never a wrong partition.
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
"""A batch that is filled so far takes no large record any more, so the stay has ended."""

_LONG_STAY: Final = 1024 * 1024
"""A stay ends with so many bytes, or with a batch's worth if that is more, however quickly they came."""

_LONG_STAY_SECONDS: Final = 0.010
"""A stay that has a batch's worth ends after so long at most."""

_DRAWS_FROM_ONE_LOOK: Final = 1 / 8
"""Queues are looked at again after so many draws for each candidate: a look at 5000 partitions takes 400 us."""


class _Stay:
    """Where a topic's records go for now, and how many bytes went there."""

    __slots__ = ("bytes", "draw", "partition", "since")

    def __init__(self, draw: _Draw, *, now: float) -> None:
        self.draw = draw
        self.partition = draw.next()
        self.bytes = 0
        self.since = now


class StickyChoice:
    """One partition at a time for each topic. Thread-safe; *random* is drawn from once for each move."""

    def __init__(
        self,
        *,
        batch_size: int,
        adaptive: bool,
        random: Random,
        linger: float = 0.0,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._seconds = min(linger, _LONG_STAY_SECONDS)
        self._clock = clock
        self._batch_size = max(batch_size, 1)
        self._adaptive = adaptive
        self._random = random
        self._stays: dict[str, _Stay] = {}

    def partition(self, topic: str, view: TopicView) -> int:
        """Where the topic's records go now; looks again whenever the view is a new one."""
        stay = self._stays.get(topic)
        if stay is not None and stay.draw.view is view:
            return stay.partition
        return self._look_again(topic, stay, view)

    def appended(self, topic: str, partition: int, size: int) -> None:
        """Count *size* bytes that went to a partition; move on when it has a batch's worth, and has had it for long."""
        self._count(topic, partition, size, seconds=self._seconds)

    def finished(self, topic: str, partition: int, size: int) -> None:
        """The same of records in batches that no other can join: move on when it has a batch's worth."""
        self._count(topic, partition, size, seconds=0.0)

    def _count(self, topic: str, partition: int, size: int, *, seconds: float) -> None:
        stay = self._stays.get(topic)
        if stay is None or stay.partition != partition:
            return
        stay.bytes += size
        if stay.bytes < self._batch_size * _ENOUGH:
            return
        now = self._clock()
        if stay.bytes >= _LONG_STAY or now - stay.since >= seconds:
            self._stays[topic] = _Stay(stay.draw, now=now)

    def _look_again(self, topic: str, stay: _Stay | None, view: TopicView) -> int:
        """Stay where we are if that is still among the candidates."""
        draw = _Draw(view, batch_size=self._batch_size, adaptive=self._adaptive, random=self._random)
        if stay is not None and stay.partition in draw.candidates:
            stay.draw = draw
        else:
            stay = self._stays[topic] = _Stay(draw, now=self._clock())
        return stay.partition


class _Draw:
    """Draws partitions of one view, the more often the shorter their queues were at the last look."""

    def __init__(self, view: TopicView, *, batch_size: int, adaptive: bool, random: Random) -> None:
        self.view = view
        self.candidates = _candidates(view)
        self._batch_size = batch_size
        self._adaptive = adaptive and bool(view.available)
        self._random = random
        self._weights: Sequence[int] | None = None  # summed up; None: all are alike
        self._draws_left = 0

    def next(self) -> int:
        """One of the candidates."""
        if self._adaptive:
            self._draws_left -= 1
            if self._draws_left < 0:
                self._look_at_queues()
        weights = self._weights
        if weights is None:
            return self._random.choice(self.candidates)
        last = len(weights) - 1  # not beyond it, should the product be rounded up
        return self.candidates[bisect_right(weights, self._random.random() * weights[last], 0, last)]

    def _look_at_queues(self) -> None:
        queued, size = self.view.queued_bytes, self._batch_size
        # In batches, as Java counts: bytes would make much of an almost empty queue.
        lengths = [-(-queued[partition] // size) for partition in self.candidates]
        longest = max(lengths)
        self._draws_left = int(len(lengths) * _DRAWS_FROM_ONE_LOOK)
        if longest == min(lengths):
            self._weights = None
        else:
            self._weights = list(accumulate(longest + 1 - length for length in lengths))


def _candidates(view: TopicView) -> Sequence[int]:
    """The available partitions that are not slow; the slow ones too, or all, rather than none."""
    if not view.slow:
        return view.available or range(view.partitions)
    quick = [partition for partition in view.available if partition not in view.slow]
    return quick or view.available or range(view.partitions)
