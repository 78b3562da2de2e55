"""Where records without a key go: to one partition until it has a batch's worth, then to another (KIP-794).

The next one is drawn at random among those that can take records, with more weight on short queues. Many threads
come here at once and no lock is taken: a lost update costs some balance, never a wrong partition.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final

from ottla.interfaces import TopicView

# What a record takes in a batch, as `ObjectColumns` counts: a stay ends when the batch is full, not some records later.
_FRAME: Final = 10
_SMALLEST_RECORD: Final = 11
_LONGER_SIZES: Final = 12


class _Stay:
    """Where a topic's records go for now, and how many bytes went there."""

    __slots__ = ("bytes", "partition", "view")

    def __init__(self, partition: int, view: TopicView) -> None:
        self.partition = partition
        self.view = view
        self.bytes = 0


class StickyChoice:
    """One partition at a time for each topic. Thread-safe; *random* is drawn from once for each move.

    *keyed* says that the records may have keys, which take a byte more than their size does.
    """

    def __init__(self, *, batch_size: int, adaptive: bool, random: Random, keyed: bool = False) -> None:
        self._batch_size = max(batch_size, 1)
        self._frame = _FRAME + _varint_size(self._batch_size // _SMALLEST_RECORD + 1) + keyed
        self._adaptive = adaptive
        self._random = random
        self._stays: dict[str, _Stay] = {}

    def partition(self, topic: str, view: TopicView) -> int:
        """Where the topic's records go now; looks again whenever the view is a new one."""
        stay = self._stays.get(topic)
        if stay is not None and stay.view is view:
            return stay.partition
        return self._look_again(topic, stay, view)

    def appended(self, topic: str, partition: int, size: int) -> None:
        """Count a record; move on when one more like it would need a second batch."""
        stay = self._stays.get(topic)
        if stay is None or stay.partition != partition:
            return
        size += self._frame
        size += size >> _LONGER_SIZES
        stay.bytes += size
        if stay.bytes + size > self._batch_size:
            view = stay.view  # read once: another thread may give the stay a new one meanwhile
            self._stays[topic] = _Stay(self._next(view), view)

    def _look_again(self, topic: str, stay: _Stay | None, view: TopicView) -> int:
        """Stay where we are if that is still among the candidates."""
        if stay is not None and stay.partition in _candidates(view):
            stay.view = view
        else:
            stay = self._stays[topic] = _Stay(self._next(view), view)
        return stay.partition

    def _next(self, view: TopicView) -> int:
        candidates = _candidates(view)
        if self._adaptive and view.available:
            queued = view.queued_bytes
            # In batches, as Java counts: bytes would make much of an almost empty queue.
            lengths = [-(-queued[partition] // self._batch_size) for partition in candidates]
            longest = max(lengths)
            if longest != min(lengths):
                weights = [longest + 1 - length for length in lengths]
                return self._random.choices(candidates, weights)[0]
        return self._random.choice(candidates)


def _candidates(view: TopicView) -> Sequence[int]:
    """The available partitions that are not slow; the slow ones too, or all, rather than none."""
    if not view.slow:
        return view.available or range(view.partitions)
    quick = [partition for partition in view.available if partition not in view.slow]
    return quick or view.available or range(view.partitions)


def _varint_size(number: int) -> int:
    """Bytes of a zigzag varint of at least 0, here the largest offset delta of a batch."""
    return number.bit_length() // 7 + 1
